"""How much a statement does, roughly: what decides whether a parallel loop is worth waking threads for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ... import dtype as dt
from ...node import Visitor, visit_children
from .. import expr as E
from .. import stmt as S
from ..intrinsic.declaration import CallEffectKind, effect_of
from ..stmt_functor import loads_in

_REGISTER_BYTES = 64
_FUNCTION = 32.0
"""Operations that a call of a mathematical function counts as."""


def operations_of(node: Any) -> float:
    """Vector or scalar operations of one run of a statement; infinite when an extent is not constant.

    Indices are left out where they are no data. Elements of a vector that do not lie side by side are accessed one by one.
    """
    return float(_Counter().visit(node))


class _Counter(Visitor):
    remembers: ClassVar[bool] = True

    def generic_visit(self, node: Any) -> float:
        counts: list[float] = []
        visit_children(node, lambda child: counts.append(self.visit(child)))
        return sum(counts)

    def visit_For(self, loop: S.For) -> float:
        extent = loop.extent
        return extent.value * self.visit(loop.body) if isinstance(extent, E.IntImm) else math.inf

    def visit_While(self, loop: S.While) -> float:
        return math.inf

    def visit_BufferStore(self, store: S.BufferStore) -> float:
        return self._access(store.value.dtype, store.indices) + self.visit(store.value)

    def visit_BufferLoad(self, load: E.BufferLoad) -> float:
        return self._access(load.dtype, load.indices)

    def _access(self, dtype: str, indices: Sequence[E.PrimExpr]) -> float:
        computed = sum(self.visit(index) for index in indices if loads_in(index))
        return computed + (_registers(dtype) if _is_contiguous(indices) else dt.lanes(dtype))

    def visit_Call(self, call: E.Call) -> float:
        if "call_" in getattr(call.op, "name", "call_") and effect_of(call) > CallEffectKind.READ_STATE:
            return math.inf  # what is called may do anything
        return _FUNCTION * _registers(call.dtype) + sum(self.visit(arg) for arg in call.args)

    def visit_Broadcast(self, node: E.Broadcast) -> float:
        return float(self.visit(node.value))

    def visit_Ramp(self, node: E.Ramp) -> float:
        return 0.0

    def _operation(self, node: Any) -> float:
        return _registers(node.dtype) + self.visit(node.a) + self.visit(node.b)

    visit_BinaryOpExpr = visit_CmpExpr = visit_LogicalExpr = _operation


def _is_contiguous(indices: Sequence[E.PrimExpr]) -> bool:
    """Whether one element, or a vector of elements side by side, is accessed."""
    return all(
        dt.lanes(index.dtype) == 1
        or isinstance(index, E.Broadcast)
        or (isinstance(index, E.Ramp) and isinstance(index.stride, E.IntImm) and index.stride.value == 1)
        for index in indices
    )


def _registers(dtype: str) -> float:
    return float(max(1, dt.bytes_of(dtype) // _REGISTER_BYTES)) if dt.lanes(dtype) > 1 else 1.0
