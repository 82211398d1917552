"""ReorderTakeAfterMatmul: multiply by all weights and pick results, instead of picking weights for each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from .. import op
from ..dpl.constructors import is_op, wildcard
from ..dpl.rewrite import rewrite_call
from ..expr import Expr, PrimValue
from ..function import Function
from ..struct_info import TensorStructInfo
from .function_pass import FunctionPass
from .matmul_rewrites import shape_values, value_lookup


@dataclass(frozen=True)
class ReorderTakeAfterMatmul(FunctionPass):
    """Rewrite ``matmul(x, take(weights, indices))`` to a ``take`` of ``matmul(x, weights)``.

    Before::

        w = R.take(weights, indices, axis=1)
        y = R.matmul(x, w)

    After::

        lv = R.matmul(x, weights)
        y = R.take(lv, indices, axis=1)

    Taking whole matrices of a table (axis 0 of a three-dimensional table, one matrix per batch entry) becomes one product
    with the table's matrices side by side.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with reordered products."""
        x, weights, indices = wildcard(), wildcard(), wildcard()
        take = is_op("relax.take")(weights, indices)
        product = is_op("relax.matmul")(x, take)

        value_of = value_lookup(func)

        def rewrite(expr: Expr, found: Any) -> Expr:
            axis = value_of(found[take]).attrs["axis"]
            shapes = [shape_values(found[part]) for part in (x, weights, indices)]
            if axis is None or any(shape is None for shape in shapes):
                return expr
            sx, sw, si = shapes
            assert sw is not None and si is not None
            axis = int(axis) % len(sw)
            if (
                len(si) <= 1
                and axis == len(sw) - 1
                and len(sw) >= 2
                and isinstance(found[indices].struct_info_, TensorStructInfo)
            ):
                result = op.matmul(found[x], found[weights])
                out_axis = max(len(sx), len(sw)) - 1 if len(sx) > 1 else len(sw) - 2  # type: ignore[arg-type]
                return op.take(result, found[indices], axis=out_axis)
            if len(si) == 1 and len(sw) == 3 and len(sx) == 3 and axis == 0:  # type: ignore[arg-type]
                return _from_table(found[x], found[weights], found[indices], sx, sw)
            return expr

        return rewrite_call(product, rewrite, func)


def _from_table(x: Expr, table: Expr, indices: Expr, x_shape: Any, table_shape: Any) -> Expr:
    batch, rows, _ = x_shape
    size, inner, columns = table_shape
    side_by_side = op.reshape(op.permute_dims(table, [1, 0, 2]), (inner, size * columns))
    results = op.reshape(op.matmul(x, side_by_side), (batch, rows, size, columns))
    by_matrix = op.reshape(op.permute_dims(results, [0, 2, 1, 3]), (batch * size, rows, columns))
    dtype = indices.struct_info.dtype
    begins = op.arange(PrimValue(0), PrimValue(batch * size), PrimValue(size), dtype=dtype)
    return op.take(by_matrix, op.add(begins, indices), axis=0)
