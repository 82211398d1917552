"""AdjustMatmulOrder: associate chains of matrix products so that the fewer operations are done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...arith.analyzer import Analyzer
from ...module import IRModule
from ...tir.operators import const as tir_const
from ...tir.operators import max as tir_max
from ...transform import PassContext
from .. import op
from ..block_builder import BlockBuilder
from ..dpl.constructors import is_op, wildcard
from ..dpl.rewrite import rewrite_call_with_values
from ..expr import Expr
from ..function import Function
from .function_pass import FunctionPass
from .matmul_rewrites import (
    compile_time_values,
    is_known,
    product_dtype,
    rounds_alike,
    shape_values,
)


def _size(dims: Any) -> Any:
    total: Any = tir_const(1, "int64")
    for dim in dims:
        total = total * dim
    return total


def _cheaper_order(a: Expr, b: Expr, c: Expr, analyzer: Analyzer) -> str | None:
    """``left`` for (a b) c, ``right`` for a (b c), None when neither is known to be cheaper."""
    shapes = [shape_values(item) for item in (a, b, c)]
    if any(shape is None or len(shape) < 1 for shape in shapes):
        return None
    sa, sb, sc = shapes  # type: ignore[misc]
    if len(sb) < 2:  # type: ignore[arg-type]
        return None
    rows = sa[-2] if len(sa) >= 2 else tir_const(1, "int64")  # type: ignore[index, arg-type]
    columns = sc[-1] if len(sc) >= 2 else tir_const(1, "int64")  # type: ignore[index, arg-type]
    j, k = sb[-2], sb[-1]  # type: ignore[index]
    batch = [_size(shape[:-2]) for shape in (sa, sb, sc)]  # type: ignore[index]
    left = _max(batch[0], batch[1]) * rows * j * k + _max(*batch) * rows * k * columns
    right = _max(batch[1], batch[2]) * j * k * columns + _max(*batch) * rows * j * columns
    if analyzer.can_prove(left < right):
        return "left"
    if analyzer.can_prove(right < left):
        return "right"
    return None


def _max(*values: Any) -> Any:
    result = values[0]
    for value in values[1:]:
        result = tir_max(result, value)
    return result


@dataclass(frozen=True)
class AdjustMatmulOrder(FunctionPass):
    """Reorder ``x @ (A @ B)`` to ``(x @ A) @ B`` (and the other way round) where that takes fewer operations.

    A product of weights alone is left as it is: it can be computed before the program runs.

    Before::

        lora = R.matmul(lora_a, lora_b)   # (4096, 8) @ (8, 4096)
        y = R.matmul(x, lora)             # (1, 4096)

    After::

        lv = R.matmul(x, lora_a)
        y = R.matmul(lv, lora_b)
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with reordered products."""
        known = compile_time_values(func)
        a, b, c = wildcard(), wildcard(), wildcard()
        matmul = is_op("relax.matmul")
        inner_left, inner_right = matmul(a, b), matmul(b, c)
        turned = is_op("relax.permute_dims")(inner_right)
        left, right, transposed = matmul(inner_left, c), matmul(a, inner_right), matmul(a, turned)
        analyzer = Analyzer()

        def rewrite(expr: Any, found: Any, value_of: Any) -> Expr:
            x, y, z = found[a], found[b], found[c]
            inner = found[inner_left if left in found else inner_right]
            if not rounds_alike((x, y, z), inner, expr):
                return expr  # type: ignore[no-any-return]
            whole = product_dtype(expr)

            def product(first: Expr, second: Expr, third: Expr, order: str) -> Expr:
                """``first @ second @ third`` with the dtype that the program writes."""
                if order == "left":
                    return op.matmul(op.matmul(first, second), third, whole)
                return op.matmul(first, op.matmul(second, third), whole)

            if transposed in found:
                # x @ (y @ z)^T = (x @ z^T) @ y^T
                if not _swaps_last_axes(value_of(found[turned])) or (
                    is_known(y, known) and is_known(z, known)
                ):
                    return expr  # type: ignore[no-any-return]
                first, second = _transposed(z), _transposed(y)
                if first is None or second is None:
                    return expr  # type: ignore[no-any-return]
                order = _cheaper_order(x, first, second, analyzer)
                return product(x, first, second, order) if order == "left" else expr
            order = _cheaper_order(x, y, z, analyzer)
            if left in found and order == "right" and not (is_known(x, known) and is_known(y, known)):
                return product(x, y, z, order)
            if right in found and order == "left" and not (is_known(y, known) and is_known(z, known)):
                return product(x, y, z, order)
            return expr  # type: ignore[no-any-return]

        # One after the other: (A B) (C D) is both a left and a right chain, and only one may be worth it. Each step saves operations.
        before = None
        while before is not func:
            before = func
            for pattern in (left, right, transposed):
                func = rewrite_call_with_values(pattern, rewrite, func)
        return func


def _swaps_last_axes(call: Any) -> bool:
    axes = call.attrs["axes"]
    ndim = call.args[0].struct_info.ndim
    order = [int(axis) % ndim for axis in axes] if axes is not None else list(reversed(range(ndim)))
    return order == [*range(ndim - 2), ndim - 1, ndim - 2]


def _transposed(expr: Expr) -> Expr | None:
    shape = shape_values(expr)
    if shape is None or len(shape) < 2:
        return None
    ndim = len(shape)
    builder = BlockBuilder()
    return builder.normalize(op.permute_dims(expr, [*range(ndim - 2), ndim - 1, ndim - 2]))  # type: ignore[no-any-return]
