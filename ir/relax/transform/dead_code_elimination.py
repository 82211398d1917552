"""DeadCodeElimination: drop functions that nothing calls and bindings that nothing uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...node import post_order_visit
from ...tir.expr import Var as TirVar
from ...transform import ModulePass, PassContext
from ..analysis.memory import is_removable
from ..analysis.purity import contains_impure_call
from ..expr import Binding, BindingBlock, Call, Expr, If, MatchCast, SeqExpr, Var
from ..function import Function
from .function_pass import rewrite_functions
from .grouping import tir_vars_of


class _Eliminator:
    """Walks a function backwards, keeping what is used by what is kept."""

    def __init__(self) -> None:
        self.used: set[Var] = set()
        self.symbols: set[TirVar] = set()

    def use(self, expr: Any) -> None:
        def visit(node: Any) -> None:
            if isinstance(node, Var):
                self.used.add(node)
            elif isinstance(node, TirVar):
                self.symbols.add(node)
            elif isinstance(node, Function):
                self.use_seq(node.body)
                for param in node.params:
                    visit(param.struct_info_)
            else:
                node._visit_children(visit)

        visit(expr)

    def use_seq(self, seq: SeqExpr) -> None:
        """Count everything in a sequence as used."""
        for block in seq.blocks:
            for binding in block.bindings:
                self.use(binding.value)  # type: ignore[attr-defined]
        self.use(seq.body)

    def seq(self, seq: SeqExpr) -> SeqExpr:
        self.use(seq.body)
        blocks: list[BindingBlock] = []
        for block in reversed(seq.blocks):
            kept = [binding for binding in map(self.binding, reversed(block.bindings)) if binding is not None]
            kept.reverse()
            if not kept:
                continue
            same = len(kept) == len(block.bindings) and all(
                a is b for a, b in zip(kept, block.bindings, strict=True)
            )
            blocks.append(block if same else type(block)(kept, block.span))
        blocks.reverse()
        if len(blocks) == len(seq.blocks) and all(a is b for a, b in zip(blocks, seq.blocks, strict=True)):
            return seq
        return SeqExpr(_merged(blocks), seq.body, seq.struct_info_, seq.span)

    def binding(self, binding: Binding) -> Binding | None:
        value: Expr = binding.value  # type: ignore[attr-defined]
        needed = binding.var in self.used
        if not needed and isinstance(binding, MatchCast):
            needed = any(symbol in self.symbols for symbol in tir_vars_of(binding.struct_info))
        if not needed and not contains_impure_call(value) and not _is_there_for_its_effect(value):
            return None
        if isinstance(value, If):
            then_branch, else_branch = self.seq(value.true_branch), self.seq(value.false_branch)
            self.use(value.cond)
            if then_branch is not value.true_branch or else_branch is not value.false_branch:
                value = If(value.cond, then_branch, else_branch, value.struct_info_, value.span)
                return binding.replace(value=value)
            return binding
        if isinstance(value, Function):
            new = self.function(value)
            return binding if new is value else binding.replace(value=new)
        self.use(value)
        if binding.var.struct_info_ is not None:
            self.symbols.update(tir_vars_of(binding.var.struct_info_))
        return binding

    def function(self, func: Function) -> Function:
        if func.ret_struct_info is not None:
            self.symbols.update(tir_vars_of(func.ret_struct_info))
        body = self.seq(func.body)
        if body is func.body:
            return func
        return Function(func.params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)


def _is_there_for_its_effect(value: Expr) -> bool:
    return isinstance(value, Call) and not is_removable(value)


def _merged(blocks: list[BindingBlock]) -> list[BindingBlock]:
    merged: list[BindingBlock] = []
    for block in blocks:
        if merged and type(block) is BindingBlock and type(merged[-1]) is BindingBlock:
            merged[-1] = BindingBlock((*merged[-1].bindings, *block.bindings))
        else:
            merged.append(block)
    return merged


def remove_unused_bindings(func: Function) -> Function:
    """The function without bindings that are pure and unused; the same object when there are none."""
    return _Eliminator().function(func)


def remove_unused_functions(mod: IRModule, entries: Sequence[str] = ()) -> IRModule:
    """The module without functions that the entries (default: public functions and ``main``) do not reach."""
    by_name = {var.name_hint: var for var in mod.functions}
    names = set(entries)
    for name in names:
        if name not in by_name:
            raise IRValueError(
                f"entry function {name!r} is not in the module; it has {', '.join(sorted(by_name))}"
            )
    pending = [
        var
        for var, func in mod.functions.items()
        if var.name_hint in names or "global_symbol" in func.attrs or (not names and var.name_hint == "main")
    ]
    if not pending:
        return mod
    reached: set[str] = set()
    while pending:
        var = pending.pop()
        if var.name_hint in reached or var.name_hint not in by_name:
            continue
        reached.add(var.name_hint)
        body = mod[var].body  # type: ignore[attr-defined]
        post_order_visit(body, lambda node: pending.append(node) if isinstance(node, GlobalVar) else None)
    if len(reached) == len(by_name):
        return mod
    return mod.replace(
        functions={var: func for var, func in mod.functions.items() if var.name_hint in reached}
    )


def called_names(mod: IRModule) -> set[str]:
    """The names of all functions that Relax functions refer to."""
    found: set[str] = set()
    for func in mod.functions.values():
        if isinstance(func, Function):
            post_order_visit(
                func.body, lambda node: found.add(node.name_hint) if isinstance(node, GlobalVar) else None
            )
    return found


@dataclass(frozen=True)
class DeadCodeElimination(ModulePass):
    """Remove bindings whose variable is not used and that have no effects, and functions that no entry reaches.

    Before::

        @R.function
        def main(x: R.Tensor((8,), "float32")):
            with R.dataflow():
                lv0 = R.add(x, x)
                unused = R.exp(x)
                gv = R.multiply(lv0, x)
                R.output(gv)
            return gv

    After: the same without ``unused``.

    Args:
        entry_functions: names of the functions to keep besides the public ones; None means ``main``.
    """

    entry_functions: Sequence[str] | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module without dead code."""
        entries = tuple(self.entry_functions or ())
        mod = remove_unused_functions(mod, entries)
        mod = rewrite_functions(mod, lambda var, func: remove_unused_bindings(func))
        return remove_unused_functions(mod, entries)
