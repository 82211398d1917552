"""The passes over matrix products: what they reorder keeps its dtype, its mode and the numbers that integers wrap to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import IRModule, relax
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R

from .structure import operators

op = relax.op
Shapes = list[tuple[tuple[int, ...], str]]


def program(build: Callable[..., Any], params: Shapes) -> IRModule:
    """A function of parameters of these shapes and dtypes."""
    bb = relax.BlockBuilder()
    args = [
        relax.Var(f"x{number}", relax.TensorStructInfo(shape, dtype))
        for number, (shape, dtype) in enumerate(params)
    ]
    with bb.function("main", args):
        with bb.dataflow():
            result = bb.emit_output(build(bb, *args))
        bb.emit_func_output(result)
    return bb.finalize()


def agrees(before: IRModule, after: IRModule, params: Shapes, rtol: float = 2e-2) -> None:
    check_well_formed(after)
    assert after["main"].ret_struct_info == before["main"].ret_struct_info
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-9, 9, shape).astype(dtype) if "int" in dtype else rng.random(shape).astype(dtype)
        for shape, dtype in params
    ]
    np.testing.assert_allclose(
        evaluate(after, *arrays), evaluate(before, *arrays), rtol=0 if "int" in params[0][1] else rtol
    )


@pytest.mark.parametrize(
    "dtype, inner, outer, reordered",
    [
        ("float16", None, "float32", True),
        ("float16", "float16", "float32", True),
        ("float32", None, None, True),
        ("int8", None, "int32", False),  # the inner product wraps in eight bits before it is widened
        ("int8", None, None, True),
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_the_order_of_products(
    dtype: str, inner: str | None, outer: str | None, reordered: bool, transposed: bool
) -> None:
    def build(bb: Any, x: Any, a: Any, b: Any) -> Any:
        weight = bb.emit(op.matmul(a, b, inner))
        return op.matmul(x, bb.emit(op.permute_dims(weight)) if transposed else weight, outer)

    params: Shapes = [((1, 16), dtype), ((16, 2), dtype), ((2, 16), dtype)]
    before = program(build, params)
    after = transform.AdjustMatmulOrder()(before)
    assert (after is not before) == reordered
    agrees(before, after, params)


def test_products_of_three_dtypes_keep_their_order() -> None:
    """x is float32, as the inner product is: it cannot be multiplied by a matrix of float16."""

    def build(bb: Any, x: Any, a: Any, b: Any) -> Any:
        return op.matmul(x, bb.emit(op.matmul(a, b, "float32")))

    params: Shapes = [((1, 16), "float32"), ((16, 2), "float16"), ((2, 16), "float16")]
    before = program(build, params)
    assert transform.AdjustMatmulOrder()(before) is before


def test_chains_of_products() -> None:
    """What one step makes is looked into by the next."""

    def build(bb: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
        return op.matmul(x, bb.emit(op.matmul(a, bb.emit(op.matmul(b, c)))), "float32")

    params: Shapes = [((1, 16), "float16"), ((16, 2), "float16"), ((2, 16), "float16"), ((16, 16), "float16")]
    before = program(build, params)
    after = transform.AdjustMatmulOrder()(before)
    assert after is not before
    agrees(before, after, params, rtol=5e-2)


@pytest.mark.parametrize(
    "dtype, outer, expanded",
    [("float16", "float32", True), ("float32", None, True), ("int8", "int32", False), ("int8", None, True)],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_with_sums(dtype: str, outer: str | None, expanded: bool, transposed: bool) -> None:
    def build(bb: Any, x: Any, a: Any, b: Any) -> Any:
        weight = bb.emit(op.add(a, b))
        return op.matmul(x, bb.emit(op.permute_dims(weight)) if transposed else weight, outer)

    params: Shapes = [((3, 8), dtype), ((8, 8), dtype), ((8, 8), dtype)]
    before = program(build, params)
    after = transform.ExpandMatmulOfSum()(before)
    assert (after is not before) == expanded
    agrees(before, after, params)


@pytest.mark.parametrize(
    "shape, transposed, expanded",
    [
        ((8, 1), False, True),
        ((1, 8), False, False),
        ((1, 1), False, False),
        ((8, 1), True, False),
        ((2, 8, 8), False, True),
        ((2, 8, 8), True, False),
    ],
)
def test_sums_that_broadcast(shape: tuple[int, ...], transposed: bool, expanded: bool) -> None:
    """Broadcast along the rows of a matrix is not what a product with the smaller one would do."""

    def build(bb: Any, x: Any, a: Any, b: Any) -> Any:
        weight = bb.emit(op.add(a, b))
        axes = [*range(len(weight.struct_info.shape) - 2), -1, -2]
        return op.matmul(x, bb.emit(op.permute_dims(weight, axes)) if transposed else weight)

    params: Shapes = [((3, 8), "float32"), ((8, 8), "float32"), (shape, "float32")]
    before = program(build, params)
    after = transform.ExpandMatmulOfSum()(before)
    assert (after is not before) == expanded
    agrees(before, after, params, rtol=1e-5)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("table", [False, True])
def test_indices_outside_are_taken_as_the_mode_says(mode: str, table: bool) -> None:
    def build(bb: Any, x: Any, w: Any, i: Any) -> Any:
        return op.matmul(x, bb.emit(op.take(w, i, axis=0 if table else 1, mode=mode)), "float32")

    params: Shapes = [((3, 2, 4), "float16"), ((5, 4, 6), "float16"), ((3,), "int32")]
    if not table:
        params = [((3, 4), "float16"), ((4, 5), "float16"), ((3,), "int32")]
    before = program(build, params)
    after = transform.ReorderTakeAfterMatmul()(before)
    assert operators(after)[-1] == "relax.take"
    check_well_formed(after)
    rng = np.random.default_rng(0)
    x, w = (rng.random(shape).astype(dtype) for shape, dtype in params[:2])
    for indices in ([-1, 4, 2], [7, -8, 5]):
        given = (x, w, np.int32(indices))
        np.testing.assert_allclose(evaluate(after, *given), evaluate(before, *given), rtol=2e-3)


def test_one_matrix_of_a_stack_is_no_column() -> None:
    def build(bb: Any, x: Any, w: Any, i: Any) -> Any:
        return op.matmul(x, bb.emit(op.take(w, i, axis=2)))

    before = program(build, [((3, 4), "float32"), ((4, 4, 4), "float32"), ((), "int64")])
    assert transform.ReorderTakeAfterMatmul()(before) is before


def test_products_of_picked_columns_in_a_row() -> None:
    def build(bb: Any, x: Any, w: Any, i: Any) -> Any:
        first = bb.emit(op.matmul(x, bb.emit(op.take(w, i, axis=1))))
        return op.matmul(first, bb.emit(op.take(w, i, axis=1)))

    params: Shapes = [((4, 4), "float32"), ((4, 4), "float32"), ((4,), "int64")]
    before = program(build, params)
    after = transform.ReorderTakeAfterMatmul()(before)
    rng = np.random.default_rng(0)
    given = (rng.random((4, 4), "float32"), rng.random((4, 4), "float32"), np.array([3, 0, 0, 1]))
    np.testing.assert_allclose(evaluate(after, *given), evaluate(before, *given), rtol=1e-5)


def test_picked_columns_under_another_name() -> None:
    """A variable that merely renames the picked columns is looked through."""

    def build(bb: Any, x: Any, w: Any, i: Any) -> Any:
        picked = bb.emit(op.take(w, i, axis=1))
        return op.matmul(x, bb.emit(picked))

    params: Shapes = [((3, 4), "float32"), ((4, 5), "float32"), ((2,), "int64")]
    before = program(build, params)
    after = transform.ReorderTakeAfterMatmul()(before)
    assert operators(after) == ["relax.matmul", "relax.take"]


@pytest.mark.parametrize(
    "pattern_pass",
    [transform.AdjustMatmulOrder, transform.ExpandMatmulOfSum, transform.ReorderTakeAfterMatmul],
)
def test_products_with_other_names(same_numbers, pattern_pass):
    """A binding of a variable to a variable is no expression to rewrite: what it names is rewritten where it is bound."""

    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((1, 32), "float32"),
            a: R.Tensor((32, 32), "float32"),
            b: R.Tensor((32, 32), "float32"),
        ) -> R.Tensor((1, 32), "float32"):
            with R.dataflow():
                p = R.matmul(a, b)
                p_name = p
                q = R.matmul(x, p_name)
                q_name = q
                total = R.add(a, b)
                total_name = total
                r = R.matmul(q_name, total_name)
                r_name = r
                picked = R.take(a, R.const([0] * 32, "int64"), axis=1)
                picked_name = picked
                s = R.matmul(r_name, picked_name)
                g = s
                R.output(g)
            return g

    after = pattern_pass()(Before)
    check_well_formed(after)
    assert after != Before
    same_numbers(Before, after, [(1, 32), (32, 32), (32, 32)], rtol=1e-2, atol=1e-2)
