"""ReorderTakeAfterMatmul: multiply by all weights and pick results, instead of picking weights for each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...tir.expr import IntImm
from ...transform import PassContext
from .. import op
from ..dpl.constructors import is_op, wildcard
from ..dpl.rewrite import rewrite_call_with_values
from ..expr import Expr, PrimValue, const
from ..function import Function
from ..struct_info_lattice import can_prove_shape_equal
from .function_pass import FunctionPass
from .matmul_rewrites import product_dtype, shape_values


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

        def rewrite(expr: Any, found: Any, value_of: Any) -> Expr:
            picked = value_of(found[take])
            axis, mode = picked.attrs["axis"], str(picked.attrs["mode"])
            sx, sw, si = [shape_values(found[part]) for part in (x, weights, indices)]
            if axis is None or sx is None or sw is None or si is None:
                return expr  # type: ignore[no-any-return]
            axis, dtype = int(axis) % len(sw), product_dtype(expr)
            # One index alone drops the axis: what is left of a stack of matrices is another matrix.
            keeps_rows = len(si) == 1 or (len(si) == 0 and len(sw) == 2)
            if keeps_rows and axis == len(sw) - 1 and len(sw) >= 2:
                result = op.matmul(found[x], found[weights], dtype)
                out_axis = max(len(sx), len(sw)) - 1 if len(sx) > 1 else len(sw) - 2
                return op.take(result, found[indices], axis=out_axis, mode=mode)
            if len(si) == 1 and len(sw) == 3 and len(sx) == 3 and axis == 0:
                chosen = _inside(found[indices], sw[0], mode)
                if chosen is not None and can_prove_shape_equal(si, sx[:1]):
                    return _from_table(found[x], found[weights], chosen, sx, sw, dtype)
            return expr  # type: ignore[no-any-return]

        return rewrite_call_with_values(product, rewrite, func)


def _inside(indices: Expr, size: Any, mode: str) -> Expr | None:
    """The indices, as int64, brought into the table as the mode says; None where that is not known or makes other elements."""
    if mode not in ("fast", "clip", "wrap") or not isinstance(size, IntImm):
        return None
    places = op.astype(indices, "int64")  # a narrow type may not hold the size
    zero, count = const(0, "int64"), const(size.value, "int64")
    if mode == "fast":  # negative ones count from the end; whoever gives others has no promise
        return op.where(op.less(places, zero), op.add(places, count), places)
    if mode == "wrap":
        return op.floor_mod(places, count)
    return op.minimum(op.maximum(places, zero), const(size.value - 1, "int64"))


def _from_table(x: Expr, table: Expr, indices: Expr, x_shape: Any, table_shape: Any, dtype: str) -> Expr:
    batch, rows, _ = x_shape
    size, inner, columns = table_shape
    side_by_side = op.reshape(op.permute_dims(table, [1, 0, 2]), (inner, size * columns))
    results = op.reshape(op.matmul(x, side_by_side, dtype), (batch, rows, size, columns))
    by_matrix = op.reshape(op.permute_dims(results, [0, 2, 1, 3]), (batch * size, rows, columns))
    begins = op.arange(PrimValue(0), PrimValue(batch * size), PrimValue(size), dtype="int64")
    return op.take(by_matrix, op.add(begins, indices), axis=0)
