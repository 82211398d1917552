"""ReorderPermuteDimsAfterConcat: concatenate first, transpose once."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import PassContext
from .. import op
from ..expr import Call, Expr, Tuple, Var
from ..function import Function
from ..struct_info import TensorStructInfo
from .binding_rewriter import BindingRewriter, is_call_to
from .dead_code_elimination import remove_unused_bindings
from .function_pass import FunctionPass


def _order(call: Call) -> list[int] | None:
    info = call.args[0].struct_info_
    if not isinstance(info, TensorStructInfo) or info.ndim < 0:
        return None
    axes = call.attrs["axes"]
    return [int(axis) % info.ndim for axis in axes] if axes is not None else list(reversed(range(info.ndim)))


class _Rewriter(BindingRewriter):
    def visit_call(self, var: Var, call: Call) -> None:
        if is_call_to(call, "relax.concat") and call.attrs["axis"] is not None:
            made = self._sources(call.args[0])
            if made is not None:
                sources, order = made
                axis = order[int(call.attrs["axis"]) % len(order)]
                joined = self.emit(op.concat(sources, axis=axis))
                self.bind(var, op.permute_dims(joined, order))
                return
        self.bind(var, call)

    def _sources(self, expr: Expr) -> tuple[list[Expr], list[int]] | None:
        fields = expr if isinstance(expr, Tuple) else self.lookup(expr)
        if not isinstance(fields, Tuple) or len(fields.fields) < 2:
            return None
        sources: list[Expr] = []
        order: list[int] | None = None
        for field in fields.fields:
            value = self.lookup(field)
            if not is_call_to(value, "relax.permute_dims"):
                return None
            assert isinstance(value, Call)
            found = _order(value)
            if found is None or (order is not None and found != order):
                return None
            order = found
            sources.append(value.args[0])
        return (sources, order) if order is not None else None


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
        new = _Rewriter(mod).rewrite(func)
        return func if new is func else remove_unused_bindings(new)
