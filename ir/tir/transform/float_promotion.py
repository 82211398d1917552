"""What BF16ComputeLegalize and FP8ComputeLegalize share: narrow floats are computed with as wider ones, and rounded where they go.

Values that are moved only (loads, constants, choices between such) stay as narrow as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from ... import dtype as dt
from ...conversion import round_float
from ..buffer import Buffer
from ..expr import (
    BinaryOpExpr,
    Broadcast,
    Call,
    Cast,
    CmpExpr,
    CommReducer,
    FloatImm,
    Let,
    PrimExpr,
    Reduce,
    Select,
    Shuffle,
    Var,
)
from ..function import PrimFunc
from ..intrinsic.declaration import find, first
from ..operators import cast
from ..stmt import BufferStore, LetStmt, Stmt
from ..stmt_functor import StmtExprMutator

_OF_BITS = frozenset({"tir.nextafter", "tir.reinterpret"})
"""Functions whose value depends on how many digits their arguments have."""
_MARKS = frozenset({"tir.likely", "tir.in_order", "tir.as_data", "tir.optimization_barrier"})
"""Calls that are their argument."""
_SHUFFLES = "tir.tvm_warp_shuffle"
"""What calls that hand over a value, their second argument, to another thread begin with."""

_Binding = TypeVar("_Binding", Let, LetStmt)


class _Promote(StmtExprMutator):
    """Maps narrow expressions to ones that are as narrow, where they are moved, or wide, where they are computed."""

    def __init__(self, narrow: frozenset[str], wide: str) -> None:
        super().__init__()
        self._dtypes, self._wide = narrow, wide
        self._variables: dict[Var, Var] = {}

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def visit_CommReducer(self, reducer: CommReducer) -> CommReducer:
        return reducer  # of what it combines the dtypes are its arguments'

    def visit_Reduce(self, reduce: Reduce) -> Reduce:
        return reduce

    # -- what is computed ------------------------------------------------------------------------------------------
    def visit_BinaryOpExpr(self, node: BinaryOpExpr) -> PrimExpr:
        return self._operation(node, node.a, node.b)

    def visit_CmpExpr(self, node: CmpExpr) -> PrimExpr:
        return self._operation(node, node.a, node.b)

    def _operation(self, node: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if not self._narrow(node.a):
            return self.generic_visit(node)  # type: ignore[no-any-return]
        return node.__class__(self._widened(self.visit(a)), self._widened(self.visit(b)), node.span)  # type: ignore[no-any-return]

    def visit_Call(self, call: Call) -> PrimExpr:
        args = [self.visit(arg) for arg in call.args]
        name = getattr(call.op, "name", "")
        if name in _MARKS:
            return self._rebuilt(call, args, args[0].dtype)
        if name == "tir.if_then_else":
            args[1:] = self._alike(args[1:])
            return self._rebuilt(call, args, args[1].dtype)
        if name.startswith(_SHUFFLES):
            return self._rebuilt(call, args, args[1].dtype)
        record = find(call)
        if (
            record is not None
            and record.elementwise
            and name not in _OF_BITS
            and any(map(self._narrow, call.args))
        ):
            if record.rounds:  # a little less than a whole number is another one: the quotient of narrow floats is rounded before
                args = [self._narrowed(arg, old.dtype) for arg, old in zip(args, call.args, strict=True)]
            args = [self._widened(arg) for arg in args]
            return self._rebuilt(call, args, args[0].dtype if record.result is first else call.dtype)
        # others have arguments of the dtypes that they are declared with
        args = [self._narrowed(arg, old.dtype) for arg, old in zip(args, call.args, strict=True)]
        return self._rebuilt(call, args, call.dtype)

    def visit_Cast(self, node: Cast) -> PrimExpr:
        value = self.visit(node.value)
        if value is node.value:
            return node
        value = self._narrowed(
            value, node.value.dtype
        )  # what was computed is rounded before it is another type's
        return value if value.dtype == node.dtype else Cast(node.dtype, value, node.span)

    # -- what is moved ---------------------------------------------------------------------------------------------
    def visit_Select(self, node: Select) -> PrimExpr:
        condition = self.visit(node.condition)
        yes, no = self._alike([self.visit(node.true_value), self.visit(node.false_value)])
        if condition is node.condition and yes is node.true_value and no is node.false_value:
            return node
        return Select(condition, yes, no, node.span)

    def visit_Shuffle(self, node: Shuffle) -> PrimExpr:
        vectors = self._alike([self.visit(vector) for vector in node.vectors])
        if all(new is old for new, old in zip(vectors, node.vectors, strict=True)):
            return node
        return Shuffle(vectors, node.indices, node.span)

    def visit_Let(self, node: Let) -> PrimExpr:
        return self._bound(node)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        return self._bound(node)

    def _bound(self, node: _Binding) -> _Binding:
        """A variable is as wide as its value."""
        value = self.visit(node.value)
        var = node.var
        if value.dtype != node.value.dtype:
            var = self._variables[node.var] = Var(var.name, value.dtype, var.span)
        body = self.visit(node.body)
        if value is node.value and body is node.body:
            return node
        return node.replace(var=var, value=value, body=body)  # type: ignore[no-any-return]

    def visit_Var(self, var: Var) -> Var:
        return self._variables.get(var, var)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        mapped: BufferStore = self.generic_visit(store)
        value = self._narrowed(mapped.value, store.value.dtype)
        return mapped if value is mapped.value else mapped.replace(value=value)

    # -- dtypes ----------------------------------------------------------------------------------------------------
    def _narrow(self, value: PrimExpr) -> bool:
        return dt.element_of(value.dtype) in self._dtypes

    def _widened(self, value: PrimExpr) -> PrimExpr:
        """A value as it is computed with; constants are those that the narrow dtype has."""
        if not self._narrow(value):
            return value
        if isinstance(value, FloatImm):
            return FloatImm(self._wide, round_float(value.value, value.dtype), value.span)
        if isinstance(value, Broadcast):
            return Broadcast(self._widened(value.value), value.lanes, value.span)
        return Cast(dt.with_lanes(self._wide, dt.lanes(value.dtype)), value)

    def _narrowed(self, value: PrimExpr, dtype: str) -> PrimExpr:
        return cast(dtype, value) if value.dtype != dtype and dt.element_of(dtype) in self._dtypes else value

    def _alike(self, values: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Values of which one is chosen: all narrow, or all wide."""
        if len({dt.element_of(value.dtype) for value in values}) == 1:
            return list(values)
        return [self._widened(value) for value in values]

    def _rebuilt(self, call: Call, args: Sequence[PrimExpr], dtype: str) -> PrimExpr:
        if dtype == call.dtype and all(new is old for new, old in zip(args, call.args, strict=True)):
            return call
        return Call(dtype, call.op, tuple(args), call.span)


def promoted(func: PrimFunc, dtypes: Collection[str], wide: str) -> PrimFunc:
    """A function that computes with floats of some dtypes in a wider one; the same where its target computes with them, or it does not."""
    target = func.attrs.get("target")
    narrow = frozenset(dtype for dtype in dtypes if target is None or not target.computes_with(dtype))
    if not narrow:
        return func
    body = _Promote(narrow, wide).visit(func.body)
    return func if body is func.body else func.replace(body=body)
