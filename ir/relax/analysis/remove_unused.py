"""Removing bindings whose variables nobody uses: the one walk that says which code is dead."""

from __future__ import annotations

from typing import Any

from ...module import IRModule
from ...tir.expr import Var as TirVar
from ..expr import Binding, BindingBlock, DataflowBlock, DataflowVar, Expr, If, MatchCast, SeqExpr, Tuple, Var
from ..function import Function
from ..op.requirement import requirement_of
from ..symbolic_vars import definable_tir_vars_in_struct_info, tir_vars_in
from .memory import Aliases, MemoryAnalysis, Root
from .purity import contains_call_to_keep


class _Eliminator:
    """Walks a function backwards, keeping what is used by what is kept."""

    def __init__(self, aliases: Aliases) -> None:
        self.aliases = aliases
        self.used: set[Any] = set()
        """The ids of variables."""
        self.symbols: set[TirVar] = set()
        self.seen: set[Root] = set()
        """The memory of used variables, where the function writes to any."""

    def use(self, expr: Any) -> None:
        """Count all that an expression mentions as used."""
        if isinstance(expr, Var):
            self.used.add(expr.vid)
            if self.aliases.written:
                self.seen |= self.aliases.roots(expr)
        elif isinstance(expr, TirVar):
            self.symbols.add(expr)
        elif isinstance(expr, Function):
            for block in expr.body.blocks:
                for binding in block.bindings:
                    self.use(binding.value)
            self.use(expr.body.body)
            for param in expr.params:
                self.use(param.struct_info_)
        else:
            expr._visit_children(self.use)

    def seq(self, seq: SeqExpr) -> SeqExpr:
        """A sequence without dead code; the same object when there is none."""
        self.use(seq.body)
        blocks: list[BindingBlock] = []
        for block in reversed(seq.blocks):
            in_dataflow = isinstance(block, DataflowBlock)
            kept = [new for item in reversed(block.bindings) if (new := self.binding(item, in_dataflow))]
            kept.reverse()
            if kept:
                blocks.append(block if _are_the_same(kept, block.bindings) else type(block)(kept, block.span))
        blocks.reverse()
        if _are_the_same(blocks, seq.blocks):
            return seq
        return SeqExpr(_merged(blocks), seq.body, seq.struct_info_, seq.span)

    def binding(self, binding: Any, in_dataflow: bool) -> Binding | None:
        """A binding without dead code in its value; None when it is dead."""
        if not self.is_needed(binding, in_dataflow):
            return None
        value = self.value(binding.value)
        if binding.var.struct_info_ is not None:
            self.symbols.update(tir_vars_in(binding.var.struct_info_))
        return binding if value is binding.value else binding.replace(value=value)  # type: ignore[no-any-return]

    def is_needed(self, binding: Any, in_dataflow: bool) -> bool:
        """Whether a binding is used, tells what a symbolic variable is, or does something."""
        if binding.var.vid in self.used or contains_call_to_keep(binding.value):
            return True
        if self.aliases.written and self.changes_what_is_seen(binding.value):
            return True
        if not isinstance(binding, MatchCast):
            return False
        if requirement_of(binding) is not None:
            return True
        # Outside of dataflow blocks a match_cast is also a check of the program's, which may end it.
        defined = definable_tir_vars_in_struct_info(binding.struct_info)
        return not in_dataflow or any(symbol in self.symbols for symbol in defined)

    def changes_what_is_seen(self, value: Expr) -> bool:
        """Whether a value's calls write memory that the caller sees, or that is read afterwards."""
        if isinstance(value, If):
            branches = (value.true_branch, value.false_branch)
            values = [binding.value for seq in branches for block in seq.blocks for binding in block.bindings]  # type: ignore[attr-defined]
            return any(map(self.changes_what_is_seen, values))
        changed = self.aliases.changed_by(value)
        return not changed.isdisjoint(self.seen) or any(map(self.aliases.is_seen_outside, changed))

    def value(self, value: Expr) -> Expr:
        """A value whose branches or function bodies have no dead code."""
        if isinstance(value, If):
            then_branch, else_branch = self.seq(value.true_branch), self.seq(value.false_branch)
            self.use(value.cond)
            if then_branch is value.true_branch and else_branch is value.false_branch:
                return value
            return If(value.cond, then_branch, else_branch, value.struct_info_, value.span)
        if isinstance(value, Function):
            return self.function(value)
        self.use(value)
        return value

    def function(self, func: Function) -> Function:
        """A function without dead code."""
        if func.ret_struct_info is not None:
            self.symbols.update(tir_vars_in(func.ret_struct_info))
        body = self.seq(func.body)
        if body is func.body:
            return func
        return Function(func.params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)


def _are_the_same(new: Any, old: Any) -> bool:
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))


def _merged(blocks: list[BindingBlock]) -> list[BindingBlock]:
    """Plain blocks that have come to stand beside each other are one."""
    merged: list[BindingBlock] = []
    for block in blocks:
        if merged and type(block) is BindingBlock and type(merged[-1]) is BindingBlock:
            merged[-1] = BindingBlock((*merged[-1].bindings, *block.bindings))
        else:
            merged.append(block)
    return merged


def remove_all_unused(func: Any, mod: IRModule | None = None) -> Any:
    """A copy of a function (or dataflow block) without bindings that have no effect and whose variables nobody uses.

    Kept are also calls that return nothing, since they are there for what they do, calls that write memory which the caller or a
    later binding looks at, a ``match_cast`` that defines a symbolic variable that is used, and outside of dataflow blocks every
    ``match_cast``. In a dataflow block given by itself, all variables that are no DataflowVar count as used. The same object is
    returned when nothing is dead.

    Args:
        func: the function or dataflow block.
        mod: the module that it belongs to, which tells what called functions write.
    """
    memory = MemoryAnalysis(mod)
    if isinstance(func, DataflowBlock):
        outputs = [binding.var for binding in func.bindings if not isinstance(binding.var, DataflowVar)]
        seq = SeqExpr([func], Tuple(outputs))
        seq = _Eliminator(memory.aliases(seq)).seq(seq)
        return seq.blocks[0] if seq.blocks else DataflowBlock(())
    return _Eliminator(memory.aliases(func)).function(func)
