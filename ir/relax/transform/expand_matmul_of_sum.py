"""ExpandMatmulOfSum: distribute a matrix product over a sum of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from .. import op
from ..dpl.constructors import is_op, wildcard
from ..dpl.rewrite import rewrite_call
from ..expr import Expr
from ..function import Function
from .function_pass import FunctionPass
from .matmul_rewrites import compile_time_values, is_known, shape_values, value_lookup


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

        value_of = value_lookup(func)

        def rewrite(expr: Expr, found: Any) -> Expr:
            first, second = found[a], found[b]
            shapes = [shape_values(item) for item in (first, second)]
            if any(shape is None or len(shape) < 2 for shape in shapes):
                return expr  # a vector is broadcast over rows; its product with x is none of a matrix
            if is_known(first, known) and is_known(second, known):
                return expr
            if moved in found:
                axes = value_of(found[moved]).attrs["axes"]
                first, second = op.permute_dims(first, axes), op.permute_dims(second, axes)
            return op.add(op.matmul(found[x], first), op.matmul(found[x], second))

        return rewrite_call(product, rewrite, func)
