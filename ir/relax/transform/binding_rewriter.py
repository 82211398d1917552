"""BindingRewriter: the walk that most graph passes share, one binding at a time, in A-normal form.

A pass overrides :meth:`BindingRewriter.visit_binding` and calls ``emit``, ``bind`` or ``replace_var``; uses of replaced
variables, nested branches and local functions, and the rebuilding of blocks are done here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...node import Mutator
from ..analysis.binding import use_counts
from ..block_builder import BlockBuilder
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    If,
    MatchCast,
    SeqExpr,
    Var,
    VarBinding,
    is_call_to,
)
from ..function import Function
from ..normalizer import merged_blocks
from ..struct_info import FuncStructInfo, TupleStructInfo


class _Substitution(Mutator):
    """Replaces variables by expressions below calls and tuples."""

    def __init__(self, table: dict[Var, Expr]) -> None:
        super().__init__()
        self._replaced = table

    def visit_Var(self, var: Var) -> Expr:
        return self._replaced.get(var, var)

    def visit_Constant(self, constant: Constant) -> Expr:
        return constant

    def visit_GlobalVar(self, var: GlobalVar) -> Expr:
        return var


def normalized(value: Expr, mod: IRModule | None = None) -> Expr:
    """``value`` with its struct info inferred."""
    if value.struct_info_ is not None:
        return value
    return BlockBuilder(mod).normalize(value)


def kernel_var(name: str) -> GlobalVar:
    """A reference to a new PrimFunc: an opaque function with effects on its buffers."""
    return GlobalVar(name, FuncStructInfo.opaque_func(ret=TupleStructInfo(())))


def walk_bindings(body: Any, f: Callable[[Binding, BindingBlock], None]) -> None:
    """Call ``f(binding, block)`` on each binding in program order, those in branches and local functions included."""
    if isinstance(body, Function):
        walk_bindings(body.body, f)
    elif isinstance(body, SeqExpr):
        for block in body.blocks:
            for binding in block.bindings:
                value = binding.value  # type: ignore[attr-defined]
                if isinstance(value, If):
                    walk_bindings(value.true_branch, f)
                    walk_bindings(value.false_branch, f)
                elif isinstance(value, Function):
                    walk_bindings(value, f)
                f(binding, block)


def bindings_of(func: Function) -> dict[Var, Expr]:
    """The value of each variable that a VarBinding binds."""
    table: dict[Var, Expr] = {}

    def collect(binding: Binding, block: BindingBlock) -> None:
        if isinstance(binding, VarBinding):
            table[binding.var] = binding.value

    walk_bindings(func, collect)
    return table


class BindingRewriter:
    """Rewrites one function; the module is there for inference and is not changed.

    Subclasses override :meth:`visit_binding` (all bindings) or :meth:`visit_call` (calls of operators and functions).
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = mod
        self.replaced: dict[Var, Expr] = {}
        self._substitution = _Substitution(self.replaced)
        self._emitted: list[Binding] = []
        self._emitted_values: dict[Var, Expr] = {}
        self._in_dataflow = False
        self._current: Binding | None = None
        """The binding being visited, which is emitted as it is when nothing in it changes."""
        self._names: dict[str, int] = {}

    # ---- what a pass calls ------------------------------------------------------------------------------------

    @property
    def in_dataflow(self) -> bool:
        """Whether the current binding is in a dataflow block."""
        return self._in_dataflow

    def emit(self, value: Expr, name_hint: str = "", output: bool = False) -> Var:
        """Bind ``value`` to a new variable of the current block and return it.

        Args:
            name_hint: the variable's name, by default ``lv`` for dataflow variables and ``gv`` for others.
            output: let the variable be seen outside of its dataflow block.
        """
        value = normalized(value, self.mod)
        name_hint = name_hint or ("lv" if self._in_dataflow and not output else "gv")
        number = self._names.get(name_hint, 0)
        self._names[name_hint] = number + 1
        name = name_hint if number == 0 else f"{name_hint}{number}"
        var = (DataflowVar if self._in_dataflow and not output else Var)(name, value.struct_info_)
        self.emit_binding(VarBinding(var, value))
        return var

    def emit_binding(self, binding: Binding) -> None:
        """Append a binding as it is."""
        if isinstance(binding, VarBinding):
            self._emitted_values[binding.var] = binding.value
        self._emitted.append(binding)

    def bind(self, var: Var, value: Expr) -> Var:
        """Bind ``value`` to ``var``, or to its successor when the struct info has changed; return the variable."""
        value = normalized(value, self.mod)
        info = value.struct_info_
        if (
            info is not None
            and var.struct_info_ is not None
            and info is not var.struct_info_
            and info != var.struct_info_
        ):
            new = type(var)(var.vid, info, var.span)
            self.replaced[var] = new
            var = new
        current = self._current
        if isinstance(current, VarBinding) and current.var is var and current.value is value:
            self.emit_binding(current)
        else:
            self.emit_binding(VarBinding(var, value))
        return var

    def replace_var(self, var: Var, value: Expr) -> None:
        """Let later uses of ``var`` (which is not bound then) be ``value``, a variable or other leaf."""
        self.replaced[var] = value

    def lookup(self, var: Expr) -> Expr | None:
        """The value that was emitted for a variable."""
        return self._emitted_values.get(var) if isinstance(var, Var) else None

    def substitute(self, expr: Any) -> Any:
        """``expr`` with replaced variables put in."""
        return self._substitution.visit(expr) if self.replaced else expr

    # ---- what a pass overrides --------------------------------------------------------------------------------

    def visit_binding(self, binding: Binding) -> None:
        """Rewrite one binding, in which replaced variables are put in already."""
        if isinstance(binding, VarBinding) and isinstance(binding.value, Call):
            self.visit_call(binding.var, binding.value)
        elif isinstance(binding, VarBinding):
            self.bind(binding.var, binding.value)
        else:
            self.emit_binding(binding)

    def visit_call(self, var: Var, call: Call) -> None:
        """Rewrite ``var = call``."""
        self.bind(var, call)

    def visit_block(self, block: BindingBlock) -> None:
        """Rewrite the bindings of a block in order."""
        for binding in block.bindings:
            self._visit_nested(binding)

    def visit_result(self, body: Expr) -> Expr:
        """Rewrite the result of a function or branch; may emit bindings before it."""
        return self.substitute(body)

    # ---- the walk ---------------------------------------------------------------------------------------------

    def _visit_nested(self, binding: Binding) -> None:
        value = binding.value  # type: ignore[attr-defined]
        if isinstance(value, If):
            cond = self.substitute(value.cond)
            then_branch, else_branch = self.visit_seq(value.true_branch), self.visit_seq(value.false_branch)
            if (
                cond is not value.cond
                or then_branch is not value.true_branch
                or else_branch is not value.false_branch
            ):
                value = If(cond, then_branch, else_branch, value.struct_info_, value.span)
        elif isinstance(value, Function):
            value = self.visit_local_function(binding.var, value)
        else:
            value = self.substitute(value)
        if isinstance(binding, MatchCast):
            if value is not binding.value:
                binding = MatchCast(binding.var, value, binding.struct_info, binding.span)
        elif value is not binding.value:  # type: ignore[attr-defined]
            binding = VarBinding(binding.var, value, binding.span)
        self._current = binding
        self.visit_binding(binding)

    def visit_local_function(self, var: Var, func: Function) -> Function:
        """Rewrite a local function."""
        return self.rewrite(func)

    def visit_seq(self, seq: SeqExpr) -> SeqExpr:
        """Rewrite blocks and result."""
        outer, outer_kind = self._emitted, self._in_dataflow
        blocks: list[BindingBlock] = []
        try:
            for block in seq.blocks:
                self._emitted, self._in_dataflow = [], isinstance(block, DataflowBlock)
                self.visit_block(block)
                self._append(blocks, block, tuple(self._emitted))
            self._emitted, self._in_dataflow = [], False
            body = self.visit_result(seq.body)
            if self._emitted:
                self._append(blocks, None, tuple(self._emitted))
        finally:
            self._emitted, self._in_dataflow = outer, outer_kind
        blocks = merged_blocks(blocks)
        if body is seq.body and len(blocks) == len(seq.blocks) and all(map(_same, blocks, seq.blocks)):
            return seq
        return SeqExpr(blocks, body, body.struct_info_, seq.span)

    def _append(
        self, blocks: list[BindingBlock], old: BindingBlock | None, bindings: tuple[Binding, ...]
    ) -> None:
        if not bindings:
            return
        kind = BindingBlock if old is None else type(old)
        if old is None or len(bindings) != len(old.bindings) or not all(map(_same, bindings, old.bindings)):
            blocks.append(kind(bindings))
        else:
            blocks.append(old)

    def rewrite(self, func: Function) -> Function:
        """The rewritten function; the same object when nothing changed."""
        body = self.visit_seq(func.body)
        if body is func.body:
            return func
        info = body.body.struct_info_
        ret = func.ret_struct_info
        if info is not None and info != func.body.body.struct_info_:
            ret = None  # inferred again from the new body
        return Function(func.params, body, ret, func.is_pure, func.attrs, func.span)


def _same(a: Any, b: Any) -> bool:
    return a is b


__all__ = [
    "BindingRewriter",
    "bindings_of",
    "is_call_to",
    "kernel_var",
    "normalized",
    "use_counts",
    "walk_bindings",
]
