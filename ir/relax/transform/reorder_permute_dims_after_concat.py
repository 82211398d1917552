"""ReorderPermuteDimsAfterConcat: concatenate first, transpose once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from .. import op
from ..analysis.remove_unused import remove_all_unused
from ..expr import Call, Expr, Tuple, is_call_to
from ..function import Function
from ..struct_info import TensorStructInfo
from .function_pass import FunctionPass
from .memory_mutator import MemoryMutator


def _order(call: Call) -> list[int] | None:
    info = call.args[0].struct_info_
    if not isinstance(info, TensorStructInfo) or info.ndim < 0:
        return None
    axes = call.attrs["axes"]
    return [int(axis) % info.ndim for axis in axes] if axes is not None else list(reversed(range(info.ndim)))


class _Rewriter(MemoryMutator):
    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not is_call_to(call, "relax.concat") or call.attrs["axis"] is None:
            return call
        made = self._sources(call.args[0])
        if made is None:
            return call
        sources, order = made
        axis = order[int(call.attrs["axis"]) % len(order)]
        return op.permute_dims(self.builder_.emit(op.concat(sources, axis=axis)), order)

    def _sources(self, expr: Expr) -> tuple[list[Expr], list[int]] | None:
        fields = expr if isinstance(expr, Tuple) else self.lookup_binding(expr)
        if not isinstance(fields, Tuple) or len(fields.fields) < 2:
            return None
        sources: list[Expr] = []
        order: list[int] | None = None
        for field in fields.fields:
            value = self.lookup_binding(field)
            if not is_call_to(value, "relax.permute_dims"):
                return None
            found = _order(value)
            if found is None or (order is not None and found != order):
                return None
            order = found
            sources.append(value.args[0])
        if order is None or self.aliases.is_written(
            *sources
        ):  # they may not be what they were when they were transposed
            return None
        return sources, order


@dataclass(frozen=True)
class ReorderPermuteDimsAfterConcat(FunctionPass):
    """Rewrite ``concat(permute_dims(A), permute_dims(B))`` to ``permute_dims(concat(A, B))``.

    Before::

        lv = R.permute_dims(a)
        lv1 = R.permute_dims(b)
        y = R.concat((lv, lv1), axis=1)

    After::

        lv2 = R.concat((a, b), axis=0)
        y = R.permute_dims(lv2, axes=[1, 0])
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with fewer transpositions."""
        new = _Rewriter(mod).visit_expr(func)
        return func if new is func else remove_all_unused(new)
