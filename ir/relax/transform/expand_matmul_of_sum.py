"""ExpandMatmulOfSum: distribute a matrix product over a sum of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from .. import op
from ..dpl.constructors import is_op, wildcard
from ..dpl.rewrite import rewrite_call_with_values
from ..expr import Expr
from ..function import Function
from ..struct_info_lattice import can_prove_shape_equal
from .function_pass import FunctionPass
from .matmul_rewrites import (
    compile_time_values,
    is_known,
    product_dtype,
    rounds_alike,
    shape_values,
)


@dataclass(frozen=True)
class ExpandMatmulOfSum(FunctionPass):
    """Rewrite ``x @ (A + B)`` to ``x @ A + x @ B``; a sum of weights alone is left, for it can be computed beforehand.

    Before::

        weight = R.add(base, lora)
        y = R.matmul(x, weight)

    After::

        lv = R.matmul(x, base)
        lv1 = R.matmul(x, lora)
        y = R.add(lv, lv1)
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with expanded products."""
        known = compile_time_values(func)
        x, a, b = wildcard(), wildcard(), wildcard()
        total = is_op("relax.add")(a, b)
        moved = is_op("relax.permute_dims")(total)
        product = is_op("relax.matmul")(x, total | moved)

        def rewrite(expr: Any, found: Any, value_of: Any) -> Expr:
            first, second = found[a], found[b]
            if is_known(first, known) and is_known(second, known):
                return expr  # type: ignore[no-any-return]
            if not rounds_alike((first, second, found[x]), found[total], expr):
                return expr  # type: ignore[no-any-return]
            if not all(_is_summand(item, found[total], moved in found) for item in (first, second)):
                return expr  # type: ignore[no-any-return]
            if moved in found:
                axes = value_of(found[moved]).attrs["axes"]
                first, second = op.permute_dims(first, axes), op.permute_dims(second, axes)
            dtype = product_dtype(expr)
            return op.add(op.matmul(found[x], first, dtype), op.matmul(found[x], second, dtype))

        return rewrite_call_with_values(product, rewrite, func)


def _is_summand(part: Expr, total: Expr, transposed: bool) -> bool:
    """Whether a product with the part is one with matrices as high as the sum: it is not broadcast along their rows.

    Where the sum is transposed, it must not be broadcast at all, since axes are counted in the sum.
    """
    mine, whole = shape_values(part), shape_values(total)
    if mine is None or whole is None or len(mine) < 2 or len(whole) < 2:
        return False
    if transposed:
        return can_prove_shape_equal(mine, whole)
    return can_prove_shape_equal(mine[-2:-1], whole[-2:-1])
