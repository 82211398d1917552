"""Models at the edges of their operators: NaN, infinities, extents of zero, overflow, negative indices; imported, built and run.

Expected values are written down or numpy's; where ONNX Runtime differs from both (it drops NaN in some reductions), its users
expect what numpy gives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402

import runners  # noqa: E402
from ir import relax  # noqa: E402
from ir.relax.frontend.onnx import from_onnx  # noqa: E402
from ir.relax.frontend.onnx.context import slice_places  # noqa: E402
from ir.relax.frontend.onnx.error import ConversionError, DynamicShapeError  # noqa: E402
from runners.program import ArgumentError  # noqa: E402

NAN, INF = np.nan, np.inf
I64 = np.int64


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def ran(
    nodes: list[Any],
    weights: dict[str, Any] | None = None,
    opset: int = 18,
    shapes: dict[str, tuple[Any, ...]] | None = None,
    **inputs: np.ndarray,
) -> Any:
    """The value ``y`` of a model, natively; ``shapes`` declares inputs with symbolic extents."""
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(item.dtype), (shapes or {}).get(name, item.shape)
        )
        for name, item in inputs.items()
    ]
    constants = [numpy_helper.from_array(np.asarray(item), name) for name, item in (weights or {}).items()]
    graph = helper.make_graph(nodes, "edges", infos, [helper.make_empty_tensor_value_info("y")], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    executable = relax.build(from_onnx(model), "llvm")
    return runners.VirtualMachine(executable, runners.cpu())["main"](*inputs.values()).numpy()


def one(op: str, *arrays: np.ndarray, constant: tuple[int, ...] = (), opset: int = 18, **attrs: Any) -> Any:
    """One node; ``constant`` says which of its inputs are weights."""
    names = [f"x{i}" for i in range(len(arrays))]
    named = dict(zip(names, arrays, strict=True))
    weights = {names[i]: named.pop(names[i]) for i in constant}
    return ran([helper.make_node(op, names, ["y"], **attrs)], weights, opset, **named)


REDUCED_TO = {
    "ReduceSum": 0.0, "ReduceMax": -INF, "ReduceMin": INF, "ReduceProd": 1.0, "ReduceL1": 0.0, "ReduceL2": 0.0,
    "ReduceSumSquare": 0.0, "ReduceLogSum": -INF, "ReduceLogSumExp": -INF,
}  # fmt: skip


@pytest.mark.parametrize("op", REDUCED_TO)
def test_reductions_over_nothing(op: str) -> None:
    x, axes = np.empty((2, 0, 3), np.float32), np.array([1], I64)
    np.testing.assert_array_equal(
        one(op, x, axes, constant=(1,), keepdims=0), np.full((2, 3), REDUCED_TO[op], np.float32)
    )
    assert one(op, x, np.array([0], I64), constant=(1,)).shape == (1, 0, 3)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("op", [*REDUCED_TO, "ReduceMean"])
def test_reductions_of_a_tensor_without_axes(op: str, keepdims: int) -> None:
    expected = {"ReduceSumSquare": 9.0, "ReduceLogSum": np.log(np.float32(3))}.get(op, 3.0)
    np.testing.assert_allclose(one(op, np.asarray(3, np.float32), keepdims=keepdims), expected, rtol=1e-6)


@pytest.mark.parametrize("row", [(-INF, -INF), (INF, 1), (-INF, 2), (1000, 1000), (-1000, -1000)])
def test_the_logarithm_of_a_sum_of_exponentials(row: tuple[float, float]) -> None:
    x = f32(*row)
    np.testing.assert_allclose(one("ReduceLogSumExp", x, keepdims=0), np.logaddexp(*x), rtol=1e-6)


def test_float16_means_do_not_overflow() -> None:
    x = np.full((3, 4000), 100, np.float16)
    np.testing.assert_array_equal(
        one("ReduceMean", x, np.array([1], I64), constant=(1,)), np.full((3, 1), 100)
    )


@pytest.mark.parametrize(
    ("op", "shapes", "shape"),
    [
        ("MatMul", [(17, 0), (0, 1)], (17, 1)),
        ("MatMul", [(2, 0), (0, 3)], (2, 3)),
        ("MatMul", [(0, 4), (4, 3)], (0, 3)),
        ("MatMul", [(2, 3, 0), (0, 5)], (2, 3, 5)),
        ("Gemm", [(2, 0), (0, 3)], (2, 3)),
        ("Add", [(0, 3), (1, 3)], (0, 3)),
        ("CumSum", [(3, 0)], (3, 0)),
        ("Transpose", [(0, 3)], (3, 0)),
        ("Softmax", [(0, 3)], (0, 3)),
        ("Softmax", [(3, 0)], (3, 0)),
        ("Conv", [(0, 2, 5), (4, 2, 3)], (0, 4, 3)),
    ],
)
def test_extents_of_zero(op: str, shapes: list[tuple[int, ...]], shape: tuple[int, ...]) -> None:
    arrays = [np.ones(item, np.float32) for item in shapes]
    constant = ()
    if op == "CumSum":
        arrays, constant = [*arrays, np.asarray(1, I64)], (1,)
    np.testing.assert_array_equal(one(op, *arrays, constant=constant), np.zeros(shape))


@pytest.mark.parametrize(
    ("before", "target", "allowzero", "after"),
    [
        ((0, 3, 4), (3, 4, 0), 1, (3, 4, 0)),
        ((0, 3, 4), (0, 12), 0, (0, 12)),
        ((0, 3), (0, 2, 5), 1, (0, 2, 5)),
        ((2, 3), (0, -1), 0, (2, 3)),
        ((0, 3), (3, 0), 1, (3, 0)),
    ],
)
def test_reshapes_with_extents_of_zero(
    before: tuple[int, ...], target: tuple[int, ...], allowzero: int, after: tuple[int, ...]
) -> None:
    x = np.ones(before, np.float32)
    assert one("Reshape", x, np.array(target, I64), constant=(1,), allowzero=allowzero).shape == after


def test_an_empty_piece_of_a_split() -> None:
    x, w = np.ones((4, 6), np.float32), np.ones((0, 3), np.float32)
    nodes = [
        helper.make_node("Split", ["x", "sizes"], ["a", "b", "c"], axis=1),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]
    np.testing.assert_array_equal(
        ran(nodes, {"sizes": np.array([3, 0, 3], I64), "w": w}, x=x), np.zeros((4, 3))
    )
    nodes[1] = helper.make_node("CumSum", ["b", "axis"], ["y"])
    sizes, axis = np.array([3, 0, 3], I64), np.asarray(1, I64)
    assert ran(nodes, {"sizes": sizes, "axis": axis}, x=x).shape == (4, 0)


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (-10, 2, -1, []),
        (-20, -20, -1, [0]),
        (8, -10, -3, [8, 5, 2]),
        (100, 3, -2, [8, 6, 4]),
        (2, -1, 2**62, [2]),
        (5, 2, 1, []),
        (-(2**63), 2**63 - 1, 4, [0, 4, 8]),
        (2**63 - 1, -(2**63), -4, [8, 4, 0]),
    ],
)
def test_slices(start: int, end: int, step: int, expected: list[int]) -> None:
    bounds = [np.array([item], I64) for item in (start, end, 0, step)]
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(
        one("Slice", x, *bounds, constant=(1, 2, 3, 4)), np.array(expected, np.float32)
    )
    known = np.arange(9, dtype=I64)  # the same while importing
    found = ran(
        [
            helper.make_node("Slice", ["k", "s", "e", "a", "t"], ["part"]),
            helper.make_node("Add", ["part", "x"], ["y"]),
        ],
        {"k": known, **dict(zip("seat", bounds, strict=True))},
        x=np.zeros(1, I64),
    )
    np.testing.assert_array_equal(found, np.array(expected, I64))


def test_slices_of_nothing() -> None:
    bounds = [np.array([item], I64) for item in (0, -1, 0, -1)]
    assert one("Slice", np.empty((0, 2), np.float32), *bounds, constant=(1, 2, 3, 4)).shape == (0, 2)
    assert one("Slice", np.empty((0, 2), np.float32), *bounds[:3], constant=(1, 2, 3)).shape == (0, 2)


def test_what_has_no_axes_keeps_none() -> None:
    x = np.ones((2, 3), np.float32)
    for nodes in (
        [helper.make_node("Size", ["x"], ["n"]), helper.make_node("Transpose", ["n"], ["y"])],
        [helper.make_node("ConstantOfShape", ["none"], ["n"]), helper.make_node("Transpose", ["n"], ["y"])],
        [helper.make_node("Size", ["x"], ["n"]), helper.make_node("Expand", ["n", "none"], ["y"])],
    ):
        assert ran(nodes, {"none": np.empty(0, I64)}, x=x).shape == ()


def test_negative_indices_count_from_the_end() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    at = np.array([[-1, 0], [1, -4]], I64)
    np.testing.assert_array_equal(one("GatherND", x, at), x[[-1, 1], [0, -4]])
    np.testing.assert_array_equal(one("GatherND", x, at, constant=(1,)), x[[-1, 1], [0, -4]])
    np.testing.assert_array_equal(one("GatherElements", x, at, axis=1), np.take_along_axis(x[:2], at, 1))
    for indices in (at, at.astype(np.int32)):
        np.testing.assert_array_equal(one("Gather", x, indices, axis=1), x[:, indices])
    rows = np.array([-1, 0], I64)
    np.testing.assert_array_equal(one("Gather", x, rows, constant=(0,)), x[rows])
    np.testing.assert_array_equal(one("Gather", x, rows, constant=(1,)), x[rows])
    scattered = one("ScatterND", x, np.array([[-1, -1]], I64), f32(7))
    assert scattered[2, 3] == 7 and scattered.sum() == x.sum() - 4


@pytest.mark.parametrize("constant", [(), (1, 2)])
def test_crossing_bounds_of_a_clip_give_the_upper_one(constant: tuple[int, ...]) -> None:
    x, low, high = f32(0, 2, 5), np.asarray(4, np.float32), np.asarray(1, np.float32)
    np.testing.assert_array_equal(one("Clip", x, low, high, constant=constant), [1, 1, 1])


def test_a_missing_bound_of_a_clip_is_the_end_of_the_dtype() -> None:
    """As the standard and ONNX Runtime have it, infinities are clipped."""
    x, largest, high = f32(-INF, 1, INF, NAN), np.finfo(np.float32).max, np.asarray(2, np.float32)
    np.testing.assert_array_equal(one("Clip", x), [-largest, 1, largest, NAN])
    np.testing.assert_array_equal(one("Clip", x, opset=6, min=0.0), [0, 1, largest, NAN])
    for constant in ((), (2,)):
        names = {"high": high}
        node = helper.make_node("Clip", ["x", "", "high"], ["y"])
        found = ran([node], names if constant else None, x=x, **({} if constant else names))
        np.testing.assert_array_equal(found, [-largest, 1, 2, NAN])
    np.testing.assert_array_equal(one("Clip", np.array([-128, 127], np.int8)), [-128, 127])


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_padding_one_axis_where_another_is_empty(mode: str) -> None:
    pads = np.array([1, 0, 0, 0], I64)
    opset = 19 if mode == "wrap" else 18
    assert one("Pad", np.zeros((2, 0), np.float32), pads, constant=(1,), opset=opset, mode=mode).shape == (
        3,
        0,
    )


def _power_of_zero(zero: float, exponent: float) -> float:
    """To a negative power: infinity, of the sign of zero where the exponent is odd."""
    return math.copysign(math.inf, zero) if exponent % 2 == 1 else math.inf


def test_powers() -> None:
    x, halves = f32(-INF, INF, 4, -1, 0), np.full(5, 0.5, np.float32)
    np.testing.assert_array_equal(
        one("Pow", x, np.asarray(0.5, np.float32), constant=(1,)), [INF, INF, 2, NAN, 0]
    )
    np.testing.assert_array_equal(one("Pow", x, halves), [INF, INF, 2, NAN, 0])
    for zeros in (
        one("Pow", f32(-0.0, 0), np.asarray(0.5, np.float32), constant=(1,)),
        one("Pow", f32(-0.0, 0), halves[:2]),
    ):
        assert not zeros.any() and not np.signbit(zeros).any()
    for constant in ((1,), (0, 1)):
        single = one("Pow", f32(-0.0), f32(0.5), constant=constant)
        assert single == 0 and not np.signbit(single)
        assert one("Pow", f32(-INF), f32(0.5), constant=constant) == INF
    for constant in (
        (),
        (1,),
    ):  # integers to the power of a float: what int8 does not hold is the largest number
        found = one("Pow", np.array([100, -3], np.int8), np.asarray(2, np.float32), constant=constant)
        np.testing.assert_array_equal(found, [127, 9])
        for exponent in (0, 1, 2, 3, -1, -2, 0.5):
            edges = f32(0, -0.0, 1, -1, INF, -INF, NAN)
            found = one("Pow", edges, np.asarray(exponent, np.float32), constant=constant)
            exact = [
                math.pow(x, exponent) if x or exponent >= 0 else _power_of_zero(x, exponent)
                for x in edges.tolist()
                if x != -1 or exponent != 0.5
            ]
            kept = [place for place, x in enumerate(edges.tolist()) if x != -1 or exponent != 0.5]
            np.testing.assert_array_equal(found[kept], np.asarray(exact, np.float32))
            np.testing.assert_array_equal(np.signbit(found[kept][:2]), np.signbit(exact[:2]))
    whole, roots = np.array([4, 9, 2], np.int32), f32(0.5, 0.5, -1)
    np.testing.assert_array_equal(one("Pow", whole, roots), [2, 3, 0])
    np.testing.assert_array_equal(one("Pow", whole, np.array([3, 0, 5], I64)), [64, 1, 32])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_shifts(dtype: Any) -> None:
    x, n = np.array([1, 5, 3, 200], dtype), np.array([0, 2, 8 * np.dtype(dtype).itemsize, 100], dtype)
    np.testing.assert_array_equal(one("BitShift", x, n, direction="LEFT", opset=27), np.left_shift(x, n))
    np.testing.assert_array_equal(one("BitShift", x, n, direction="RIGHT", opset=27), np.right_shift(x, n))


def test_remainders_by_infinity() -> None:
    a, b = f32(5, -5, 5, -5), f32(INF, INF, -INF, -INF)
    np.testing.assert_array_equal(one("Mod", a, b, fmod=1), a)
    np.testing.assert_array_equal(one("Mod", a, b, opset=27), [5, INF, -INF, -5])


@pytest.mark.parametrize(
    "transformation", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
)
@pytest.mark.parametrize("rank", [3, 4])
def test_an_infinite_element_does_not_spread(transformation: str, rank: int) -> None:
    x = np.ones((1, 1, 6, 4)[:rank], np.float32)
    x[0, 0, 0] = INF
    sizes = np.array([1, 1, 12, 4][:rank], I64)
    empty = np.empty(0, np.float32)
    for mode in ("nearest", "linear"):
        y = one(
            "Resize", x, empty, empty, sizes, constant=(1, 2, 3), mode=mode,
            coordinate_transformation_mode=transformation,
        )  # fmt: skip
        assert not np.isnan(y).any() and np.isfinite(y[0, 0, 4:]).all()


@pytest.mark.meaning("op-weight")
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_three_axes_are_resized_as_two(mode: str) -> None:
    """One becomes an operator, the other sums of elements: what counts is the same."""
    x = np.ones((6, 1, 6, 2), np.float32)
    x[range(6), :, range(6)] = INF
    empty = np.empty(0, np.float32)
    options = {"mode": mode, "constant": (1, 2, 3), "coordinate_transformation_mode": "align_corners"}
    two = one("Resize", x, empty, empty, np.array([6, 1, 11, 2], I64), **options)
    three = one("Resize", x[..., None], empty, empty, np.array([6, 1, 11, 2, 1], I64), **options)
    np.testing.assert_allclose(three[..., 0], two, rtol=1e-5)
    np.testing.assert_array_equal(two[:, :, ::2], x)


def test_an_infinite_weight_of_a_transposed_convolution() -> None:
    x, w = np.ones((1, 1, 2), np.float32), np.array([[[1, INF, 2]]], np.float32)
    np.testing.assert_array_equal(one("ConvTranspose", x, w, strides=[2]), [[[1, INF, 3, INF, 2]]])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3)])
def test_operators_with_loops_of_their_own_take_no_elements(shape: tuple[int, ...]) -> None:
    x, k, axis = np.empty(shape, np.float32), np.array([0], I64), np.asarray(0, I64)
    assert one("CumSum", x, axis, constant=(1,)).shape == shape
    found = ran([helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=0)], {"k": k}, x=x)
    assert found.shape == (0, *shape[1:])
    empty = np.empty((0, len(shape)), I64)
    assert one("ScatterND", x, empty, np.empty(0, np.float32)).shape == shape
    assert one("GatherND", np.ones((2, 3), np.float32), np.empty((0, 1), I64)).shape == (0, 3)


def test_floats_to_integers_of_four_bits_keep_the_low_bits() -> None:
    import ml_dtypes

    x = f32(-9, -8, 3.7, 8, 20)
    found = one("Cast", x, opset=21, to=onnx.TensorProto.INT4)
    np.testing.assert_array_equal(found, x.astype(ml_dtypes.int4))


INTEGER_ENDS = np.array([2**31 - 1, -(2**31), 2**30, 100000, 1, 0, -1], np.int32)


def test_integers_wrap_before_they_are_compared() -> None:
    x, z = INTEGER_ENDS, np.array([5, 5, 5, 5, 5, 5, 5], np.int32)
    added = [helper.make_node("Add", ["x", "x"], ["a"]), helper.make_node("Less", ["a", "x"], ["y"])]
    np.testing.assert_array_equal(ran(added, x=x), x + x < x)
    multiplied = [helper.make_node("Mul", ["x", "x"], ["a"]), helper.make_node("Greater", ["a", "z"], ["y"])]
    np.testing.assert_array_equal(ran(multiplied, x=x, z=z), x * x > z)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_the_smallest_integer_divided_by_minus_one_wraps(dtype: Any) -> None:
    least = np.iinfo(dtype).min
    x, y = np.array([least, 7, least], dtype), np.array([-1, -1, 1], dtype)
    np.testing.assert_array_equal(one("Div", x, y), [least, -7, least])
    np.testing.assert_array_equal(one("Mod", x, y), [0, 0, 0])


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_a_division_is_not_made_where_nothing_is_divided(op: str) -> None:
    """Behind a pad or a concatenation the quotient is computed for other places too, with a divisor that is not there."""
    x, d = np.array([[7, -8, 9]], np.int32), np.array([[2, 3, -4]], np.int32)
    quotient = helper.make_node(op, ["x", "d"], ["q"])
    expected = one(op, x, d)
    padded = ran(
        [quotient, helper.make_node("Pad", ["q", "pads"], ["y"])],
        {"pads": np.array([1, 2, 1, 2], I64)},
        x=x,
        d=d,
    )
    np.testing.assert_array_equal(padded, np.pad(expected, ((1, 1), (2, 2))))
    joined = ran([quotient, helper.make_node("Concat", ["q", "x"], ["y"], axis=0)], x=x, d=d)
    np.testing.assert_array_equal(joined, np.concatenate([expected, x]))


def test_chains_that_did_not_build() -> None:
    x, d = f32(1, 2, 3, 4).reshape(2, 2), f32(2, 4, 8, 16).reshape(2, 2)
    chain = [
        helper.make_node("Div", ["x", "d"], ["q"]),
        helper.make_node("Sin", ["q"], ["s"]),
        helper.make_node("ReduceMax", ["s"], ["y"], keepdims=0),
    ]
    np.testing.assert_allclose(ran(chain, x=x, d=d), np.sin(x / d).max(), rtol=1e-6)
    for op, expected in (("Add", x @ x + x), ("Div", (x @ x) / x)):
        nodes = [helper.make_node("MatMul", ["x", "x"], ["p"]), helper.make_node(op, ["p", "x"], ["y"])]
        np.testing.assert_allclose(ran(nodes, x=x), expected, rtol=1e-6)
    image, kernel = np.ones((1, 3, 6, 6), np.float32), np.ones((4, 3, 3, 3), np.float32)
    for middle in (
        helper.make_node("MaxPool", ["c"], ["m"], kernel_shape=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c"], ["m"]),
    ):
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            middle,
            helper.make_node("Expand", ["m", "shape"], ["y"]),
        ]
        side = 3 if middle.op_type == "MaxPool" else 1
        shape = np.array([2, 4, side, side], I64)
        np.testing.assert_array_equal(ran(nodes, {"w": kernel, "shape": shape}, x=image), np.full(shape, 27))


@pytest.mark.parametrize(("rows", "inner"), [(33, 5), (1, 64), (17, 64), (69, 64), (197, 64)])
def test_products_with_one_column(rows: int, inner: int) -> None:
    a, b = np.ones((rows, inner), np.float32), np.ones((inner, 1), np.float32)
    np.testing.assert_array_equal(one("MatMul", a, b), np.full((rows, 1), inner))
    np.testing.assert_array_equal(one("MatMul", a, b, constant=(1,)), np.full((rows, 1), inner))


def test_zeros_keep_their_signs_and_nan_is_no_zero() -> None:
    x = f32(-0.0, 0.0, NAN, INF, 3)
    zero = np.asarray(0, np.float32)
    np.testing.assert_array_equal(one("Mul", x, zero, constant=(1,)), [0, 0, NAN, NAN, 0])
    np.testing.assert_array_equal(np.signbit(one("Add", x, zero, constant=(1,)))[:2], [False, False])
    np.testing.assert_array_equal(
        np.signbit(one("Div", x, np.asarray(3, np.float32), constant=(1,)))[:2], [True, False]
    )


def test_a_quotient_by_a_constant_is_rounded_once() -> None:
    x = np.arange(1, 200, dtype=np.float32)
    for divisor in (3.0, 41.0, 0.1):
        value = np.asarray(divisor, np.float32)
        np.testing.assert_array_equal(one("Div", x, value, constant=(1,)), x / value)


def test_nan_through_quantization_is_zero() -> None:
    scale, point = np.asarray(0.5, np.float32), np.asarray(3, np.uint8)
    x = f32(NAN, INF, -INF, 1.25, 0.75)
    np.testing.assert_array_equal(one("QuantizeLinear", x, scale, point), [0, 255, 0, 5, 5])
    np.testing.assert_array_equal(one("Cast", x, to=onnx.TensorProto.INT32), [0, 2**31 - 1, -(2**31), 1, 0])


FARTHEST = -(2**63)


@pytest.mark.meaning("bounds")
@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (-100, 3, 1), (3, -100, -1), (-1, FARTHEST, -1), (4, FARTHEST, -2), (2**63 - 1, FARTHEST, -1), (-1, -6, -1),
        (1, 2**63 - 1, 2), (0, 100, 1), (-3, 2**31 - 1, 1), (7, 0, -1), (7, 9, 1), (3, 1, 1), (1, 3, -1), (-100, -100, -1),
        (-3, -5, -1), (-100, FARTHEST, -1), (FARTHEST, 2**63 - 1, 1), (FARTHEST, FARTHEST, 1), (2, 5, 3), (-4, -1, 2),
    ],
)  # fmt: skip
def test_slices_along_symbolic_extents_stay_within_the_axis(start: int, end: int, step: int) -> None:
    """Bounds are numbers of int64 at any distance of the axis, whose extent only the run knows."""
    weights = {name: np.array([value], I64) for name, value in zip("sep", (start, end, step), strict=True)}
    weights["a"] = np.array([0], I64)
    node = [helper.make_node("Slice", ["x", "s", "e", "a", "p"], ["y"])]
    for extent in (0, 1, 2, 5, 8):
        x = np.arange(extent, dtype=np.float32)
        found = ran(node, weights, shapes={"x": ("n",)}, x=x)
        np.testing.assert_array_equal(found, x[list(slice_places(start, end, step, extent))])


def test_a_slice_up_to_a_symbolic_bound_is_checked_when_the_program_runs() -> None:
    """``table[:n] + x`` for an x of n elements, as models with position tables write it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"]),
        helper.make_node("Slice", ["table", "zero", "n"], ["t"]),
        helper.make_node("Add", ["t", "x"], ["y"]),
    ]
    weights = {"table": np.arange(8, dtype=np.float32), "zero": np.array([0], I64)}
    for count in (0, 3, 8):
        found = ran(nodes, weights, shapes={"x": ("n",)}, x=np.ones(count, np.float32))
        np.testing.assert_array_equal(found, np.arange(count) + 1)
    with pytest.raises(runners.RunnerError, match="must have extent"):
        ran(nodes, weights, shapes={"x": ("n",)}, x=np.ones(9, np.float32))


@pytest.mark.meaning("reduce-wide")
def test_formulas_of_float16_do_not_overflow_between_their_steps() -> None:
    x = np.full((1, 3, 64), 100, np.float16)
    assert one("ReduceL2", x, np.array([-1], I64), constant=(1,), keepdims=0).tolist() == [[800.0] * 3]
    ones = np.ones(3, np.float16)
    unlike = (np.arange(64) * 40 * np.where(np.arange(64) % 2, 1, -1)).astype(np.float16)
    spread = np.broadcast_to(unlike, (1, 3, 64)).copy()
    exact = (spread - spread.astype(np.float64).mean(-1, keepdims=True)) / spread.std(-1, dtype=np.float64)[
        ..., None
    ]
    for op, arrays, attrs, expected in (
        ("LpNormalization", (x,), {"axis": -1}, x / 800),
        ("LpPool", (x,), {"kernel_shape": [64]}, np.full((1, 3, 1), 800)),
        ("GlobalLpPool", (x,), {}, np.full((1, 3, 1), 800)),
        ("InstanceNormalization", (spread, ones, ones - ones), {}, exact),
        ("MeanVarianceNormalization", (spread,), {"axes": [2]}, exact),
        ("Mean", (x * 600, x * 600, x * 600), {}, x * 600),
        ("LRN", (x * 6,), {"size": 3, "alpha": 3.0, "beta": 0.5, "bias": 0.0}, x * 6 / (600 * np.sqrt([[2], [3], [2]]))),
    ):  # fmt: skip
        found = one(op, *arrays, **attrs)
        assert found.dtype == np.float16
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-3, atol=1e-3)


def test_statistics_of_a_layer_normalization_of_float16() -> None:
    x = np.array([[-1000, 1000, 3000, 5000]], np.float16)
    node = helper.make_node("LayerNormalization", ["x", "w"], ["z", "y", "deviation"])
    mean = ran([node], {"w": np.ones(4, np.float16)}, x=x)
    assert mean.dtype == np.float32 and mean.tolist() == [[2000.0]]


@pytest.mark.parametrize("p", [1, 2])
def test_a_pool_of_norms_that_rounds_up_has_a_smaller_last_window(p: int) -> None:
    x = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)
    found = one("LpPool", x, kernel_shape=[2], strides=[2], ceil_mode=1, p=p)
    np.testing.assert_allclose(found, [[[3, 7, 5] if p == 1 else [5**0.5, 5, 5]]], rtol=1e-6)
    padded = one("LpPool", x, kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1, p=p)
    wanted = [3, 9, 9] if p == 1 else [5**0.5, 29**0.5, 41**0.5]
    np.testing.assert_allclose(padded, [[wanted]], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_norms_and_logarithms_of_sums_of_integers(dtype: Any) -> None:
    x = np.array([[3, -4], [5, 12]], dtype)
    for op, expected in (("ReduceL2", [5, 13]), ("ReduceLogSumExp", [3, 12]), ("ReduceLogSum", [0, 2])):
        values = abs(x) - 3 if op == "ReduceLogSum" else x  # sums 1 and 11
        found = one(op, values, np.array([1], I64), constant=(1,), keepdims=0)
        assert found.dtype == dtype and found.tolist() == expected


def test_fractions_shrink_integers_too() -> None:
    whole = np.array([-3, -2, 0, 0, 0, 2, 3], np.int32)
    assert one("Shrink", whole, lambd=1.5, bias=0.5).tolist() == [-2, -1, 0, 0, 0, 1, 2]
    positive = np.array([0, 1, 2, 3, 7, 200], np.uint8)
    assert one("Shrink", positive, lambd=2.0, bias=1.0).tolist() == [0, 0, 0, 2, 6, 199]


@pytest.mark.parametrize(
    ("dtype", "value"), [(I64, 2**62 + 1), (I64, -(2**53) - 1), (np.uint64, 2**64 - 1), (np.int8, -7)]
)
def test_padding_keeps_all_bits_of_an_integer(dtype: Any, value: int) -> None:
    x, pads = np.array([1, 2], dtype), np.array([1, 2], I64)
    found = one("Pad", x, pads, np.asarray(value, dtype), constant=(1, 2))
    np.testing.assert_array_equal(found, np.array([value, 1, 2, value, value], dtype))


@pytest.mark.parametrize("pads", [(2, -1, -1, 0), (-3, 2, 3, -2), (0, -11, 1, 3), (4, 0, -5, 0)])
def test_padding_may_be_cut_off_again(pads: tuple[int, int, int, int]) -> None:
    """An extent is what it was, and what is added before and behind, negative or not: also where less is there than is cut."""
    for rows in (0, 1, 3):
        x = np.arange(rows * 11, dtype=np.float32).reshape(rows, 11)
        shape = (rows + pads[0] + pads[2], 11 + pads[1] + pads[3])
        if min(shape) < 0:
            with pytest.raises(ConversionError, match="remove more than the 0 elements of axis 0"):
                one("Pad", x, np.array(pads, I64), constant=(1,))
            continue
        expected = np.full(shape, 0, np.float32)
        for i, j in np.ndindex(*shape):
            row, column = i - pads[0], j - pads[1]
            if 0 <= row < rows and 0 <= column < 11:
                expected[i, j] = x[row, column]
        np.testing.assert_array_equal(one("Pad", x, np.array(pads, I64), constant=(1,)), expected)


def test_ranges_of_great_integers_are_counted_exactly() -> None:
    bounds = [np.asarray(item, I64) for item in (2**62 + 1, 2**62 + 4, 1)]
    nodes = [helper.make_node("Range", ["a", "b", "c"], ["r"]), helper.make_node("Add", ["r", "x"], ["y"])]
    found = ran(nodes, dict(zip("abc", bounds, strict=True)), x=np.zeros(3, I64))
    np.testing.assert_array_equal(found, [2**62 + 1, 2**62 + 2, 2**62 + 3])
    down = [np.asarray(item, I64) for item in (2**63 - 1, 2**63 - 6, -2)]
    found = ran(nodes, dict(zip("abc", down, strict=True)), x=np.zeros(3, I64))
    np.testing.assert_array_equal(found, [2**63 - 1, 2**63 - 3, 2**63 - 5])


@pytest.mark.meaning("empty")
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 2, 3, 1), (2, 0, 4, 1)])
def test_an_image_may_be_resized_to_nothing(mode: str, shape: tuple[int, ...]) -> None:
    x, empty = np.ones(shape, np.float32), np.empty(0, np.float32)
    scales = np.array([*[1] * (len(shape) - 2), 2, 0.5], np.float32)
    transformation = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    found = one("Resize", x, empty, scales, constant=(1, 2), **transformation)
    assert found.shape == (*shape[:-2], shape[-2] * 2, 0)
    with pytest.raises(ConversionError, match=f"axis {len(shape) - 1} has no elements to make 4 of"):
        sizes = np.array([*shape[:-1], 4], I64)
        one("Resize", x[..., :0], empty, empty, sizes, constant=(1, 2, 3), **transformation)


FOUND = np.array([[1, 0, 2], [0, 3, 0]], np.float32)


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        ([("Cast", ["z"], {"to": 1})], [[0, 0, 1], [0, 2, 1]]),
        ([("Concat", ["z", "z"], {"axis": 1})], [[0, 0, 1, 0, 0, 1], [0, 2, 1, 0, 2, 1]]),
        ([("Transpose", ["z"], {}), ("GatherND", ["x", "v0"], {})], [1, 2, 3]),
        ([("Gather", ["z", "one"], {}), ("Gather", ["x", "v0"], {"axis": 1})], [[1, 2, 0], [0, 0, 3]]),
        ([("Cast", ["z"], {"to": 1}), ("Transpose", ["v0"], {}), ("MatMul", ["v0", "v1"], {})], [[1, 1], [1, 5]]),
        ([("ReduceSum", ["z"], {"keepdims": 0})], 4),
        ([("Shape", ["z"], {}), ("Reshape", ["z", "v0"], {}), ("Neg", ["v1"], {})], [[0, 0, -1], [0, -2, -1]]),
        ([("Unique", ["z"], {}), ("Add", ["v0", "one"], {})], [1, 2, 3]),
    ],
)  # fmt: skip
def test_nodes_behind_one_whose_extents_depend_on_data(behind: list[Any], expected: Any) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["z"])]
    for number, (op, inputs, attrs) in enumerate(behind):
        output = "y" if number == len(behind) - 1 else f"v{number}"
        nodes.append(helper.make_node(op, inputs, [output], **attrs))
    one_ = np.asarray(1, I64)
    np.testing.assert_array_equal(ran(nodes, {"one": one_}, x=FOUND), expected)
    np.testing.assert_array_equal(ran(nodes, {"one": one_}, shapes={"x": ("n", "m")}, x=FOUND), expected)


@pytest.mark.meaning("relax-shape")
@pytest.mark.parametrize(
    ("op", "constant", "attrs"),
    [("Add", (5,), {}), ("Mul", (3, 1), {}), ("Where", (3, 5), {}), ("Concat", (2, 5), {"axis": 0}), ("Max", (3, 5), {})],
)  # fmt: skip
def test_extents_that_are_equal_only_when_the_program_runs(
    op: str, constant: tuple[int, ...], attrs: Any
) -> None:
    x, c = np.arange(15, dtype=np.float32).reshape(3, 5), np.ones(constant, np.float32)
    names = ["m", "x", "c"] if op == "Where" else ["x", "c"]
    nodes = [helper.make_node("Less", ["x", "x"], ["m"]), helper.make_node(op, names, ["y"], **attrs)]
    expected = {
        "Add": lambda: x + 1, "Mul": lambda: x, "Where": lambda: c, "Concat": lambda: np.concatenate([x, c]),
        "Max": lambda: np.maximum(x, c),
    }[op]()  # fmt: skip
    shapes = {"x": ("n", "m")}
    np.testing.assert_array_equal(ran(nodes, {"c": c}, shapes=shapes, x=x), expected)
    with pytest.raises(runners.RunnerError, match="must have extent"):
        ran(nodes, {"c": c}, shapes=shapes, x=np.ones((4, 6), np.float32))


def test_a_row_that_is_cut_out_is_broadcast() -> None:
    nodes = [
        helper.make_node("Slice", ["x", "a", "b"], ["row"]),
        helper.make_node("Add", ["row", "x"], ["y"]),
    ]
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    weights = {"a": np.array([-1], I64), "b": np.array([2**63 - 1], I64)}
    np.testing.assert_array_equal(ran(nodes, weights, shapes={"x": ("n", 2)}, x=x), x[-1:] + x)
    nodes[1] = helper.make_node("Squeeze", ["row", "zero"], ["y"])
    weights["zero"] = np.array([0], I64)
    np.testing.assert_array_equal(ran(nodes, weights, shapes={"x": ("n", 2)}, x=x), x[-1])


@pytest.mark.parametrize("count", [0, 1, 4])
def test_the_first_row_is_broadcast_to_no_rows_too(count: int) -> None:
    """``x * x[:1]``: the row that is not there where x has none fits x."""
    nodes = [
        helper.make_node("Slice", ["x", "zero", "one"], ["row"]),
        helper.make_node("Mul", ["row", "x"], ["y"]),
    ]
    x = np.arange(3 * count, dtype=np.float32).reshape(count, 3) + 1
    weights = {"zero": np.array([0], I64), "one": np.array([1], I64)}
    np.testing.assert_array_equal(ran(nodes, weights, shapes={"x": ("n", 3)}, x=x), x[:1] * x)
    nodes[1] = helper.make_node("Mul", ["row", "z"], ["y"])
    z = np.ones((2, 3), np.float32)
    shapes = {"x": ("n", 3), "z": ("m", 3)}
    if count:
        np.testing.assert_array_equal(ran(nodes, weights, shapes=shapes, x=x, z=z), x[:1] * z)
    else:
        with pytest.raises(runners.RunnerError, match="must be 1 or 2"):
            ran(nodes, weights, shapes=shapes, x=x, z=z)


def test_a_bias_of_unknown_extent_fits_the_channels() -> None:
    x, w, b = np.ones((1, 2, 4), np.float32), np.ones((2, 3, 1), np.float32), f32(1, 2, 3)
    for op, weight in (("ConvTranspose", w), ("Conv", w.transpose(1, 0, 2).copy())):
        found = ran(
            [helper.make_node(op, ["x", "w", "b"], ["y"])], {"w": weight}, shapes={"b": ("n",)}, x=x, b=b
        )
        np.testing.assert_array_equal(found, 2 + b[None, :, None] + np.zeros((1, 3, 4)))


def test_what_symbolic_extents_leave_open_names_the_node() -> None:
    x = np.ones((2, 3), np.float32)
    w = np.ones((3, 3, 3), np.float32)
    at = np.zeros((2, 1), I64)
    cases: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
        (helper.make_node("Squeeze", ["x"], ["y"], "S"), {"x": ("n", "m")}, {"x": x}),
        (helper.make_node("ConvTranspose", ["x", "w"], ["y"], "S"), {"w": (3, 3, "n")}, {"x": w, "w": w}),
        (helper.make_node("GatherND", ["x", "i"], ["y"], "S"), {"i": (2, "n")}, {"x": x, "i": at}),
        (helper.make_node("ScatterND", ["x", "i", "x"], ["y"], "S"), {"i": (2, "n")}, {"x": x, "i": at}),
        (
            helper.make_node("Gemm", ["x", "i", "c"], ["y"], "S", transB=1),
            {"c": ("n",)},
            {"x": x, "i": w[0], "c": x[0]},
        ),
    ]
    for node, shapes, inputs in cases:
        with pytest.raises(DynamicShapeError, match=rf"{node.op_type} \(node 'S'\).*\bn\b.*shape_dict"):
            ran([node], shapes=shapes, **inputs)


@pytest.mark.parametrize(
    ("have", "wanted", "result"), [(5, 1, 5), (1, 5, 5), (5, 5, 5), (1, 1, 1), (0, 1, 0), (5, 4, None)]
)
@pytest.mark.parametrize("is_known", [False, True])
def test_either_side_of_expand_may_turn_out_to_be_one(
    have: int, wanted: int, result: int | None, is_known: bool
) -> None:
    """Which of two extents is repeated the run decides; where neither is 1 they are equal."""
    nodes = [helper.make_node("Shape", ["w"], ["shape"]), helper.make_node("Expand", ["x", "shape"], ["y"])]
    x, w = np.arange(have, dtype=np.float32), np.zeros(wanted, np.float32)
    shapes = {"w": ("m",)} if is_known else {"x": ("n",), "w": ("m",)}
    if result is None:
        with pytest.raises(ArgumentError, match=f"extent {have} at dimension 0 must be 1 or {wanted}"):
            ran(nodes, shapes=shapes, x=x, w=w)
    else:
        np.testing.assert_array_equal(ran(nodes, shapes=shapes, x=x, w=w), np.broadcast_to(x, result))


@pytest.mark.parametrize("extent", [1, 2, 5, 6])
def test_division_of_symbolic_extents_rounds_towards_zero(extent: int) -> None:
    weights = {"five": np.array([5], I64), "two": np.array([2], I64), "ten": np.array([10], I64)}
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Sub", ["s", "five"], ["d"]),
        helper.make_node("Div", ["d", "two"], ["q"]),
        helper.make_node("Add", ["q", "ten"], ["t"]),
        helper.make_node("ConstantOfShape", ["t"], ["y"]),
    ]
    x = np.zeros(extent, np.float32)
    quotient = int((extent - 5) / 2)
    assert ran(nodes, weights, shapes={"x": ("n",)}, x=x).shape == (quotient + 10,)
    nodes[-1] = helper.make_node("Identity", ["q"], ["y"])
    assert ran(nodes, weights, shapes={"x": ("n",)}, x=x).tolist() == [quotient]


@pytest.mark.parametrize("extent", [1, 3])
def test_arithmetic_of_symbolic_shapes_is_computed_while_importing(extent: int) -> None:
    """Split, Concat, casts to int32 and back, and choices by a comparison make shapes as exporters write them."""

    def shaped(*nodes: Any, **weights: np.ndarray) -> tuple[int, ...]:
        every = [helper.make_node("Shape", ["x"], ["s"]), *nodes]
        return ran(every, weights, shapes={"x": ("n", "m")}, x=np.zeros((extent, 4), np.float32)).shape

    assert shaped(
        helper.make_node("Split", ["s"], ["a", "b"], num_outputs=2),
        helper.make_node("Concat", ["b", "a"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ) == (4, extent)
    assert shaped(
        helper.make_node("Cast", ["s"], ["c"], to=onnx.TensorProto.INT32),
        helper.make_node("Mul", ["c", "factors"], ["d"]),
        helper.make_node("Cast", ["d"], ["t"], to=onnx.TensorProto.INT64),
        helper.make_node("Expand", ["one", "t"], ["y"]),
        factors=np.array([2, 1], np.int32),
        one=f32(1),
    ) == (2 * extent, 4)
    assert shaped(
        helper.make_node("Equal", ["s", "one"], ["c"]),
        helper.make_node("Where", ["c", "seven", "s"], ["t"]),
        helper.make_node("ConstantOfShape", ["t"], ["y"]),
        one=np.array([1], I64),
        seven=np.array([7], I64),
    ) == (7 if extent == 1 else extent, 4)


def test_symbolic_values_that_tensors_need_have_the_dtypes_of_the_model() -> None:
    x = np.zeros(3, np.float32)
    shape = helper.make_node("Shape", ["x"], ["s"])
    cast = helper.make_node("Cast", ["s"], ["y"], to=onnx.TensorProto.INT32)
    found = ran([shape, cast], shapes={"x": ("n",)}, x=x)
    assert found.dtype == np.int32 and found.tolist() == [3]
    equal = helper.make_node("Equal", ["s", "three"], ["y"])
    found = ran([shape, equal], {"three": np.array([3], I64)}, shapes={"x": ("n",)}, x=x)
    assert found.dtype == np.bool_ and found.tolist() == [True]


@pytest.mark.parametrize("extent", [0, 1, 4, 5])
def test_split_along_a_symbolic_axis(extent: int) -> None:
    """Parts of one number are even up to the last; given sizes must make up the axis."""
    x = np.arange(extent, dtype=np.float32)
    node = helper.make_node("Split", ["x"], ["a", "y"], num_outputs=2)
    np.testing.assert_array_equal(ran([node], shapes={"x": ("n",)}, x=x), x[-(-extent // 2) :])
    node = helper.make_node("Split", ["x", "sizes"], ["a", "y"])
    sizes = {"sizes": np.array([1, 3], I64)}
    if extent == 4:
        np.testing.assert_array_equal(ran([node], sizes, shapes={"x": ("n",)}, x=x), x[1:])
    else:
        with pytest.raises(ArgumentError, match=rf"must have extent 4 on axis 0, got \[{extent}\]"):
            ran([node], sizes, shapes={"x": ("n",)}, x=x)


@pytest.mark.parametrize("extent", [3, 8])
def test_a_range_to_a_symbolic_limit_may_be_empty(extent: int) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Squeeze", ["s"], ["n"]),
        helper.make_node("Sub", ["n", "five"], ["e"]),
        helper.make_node("Range", ["zero", "e", "one"], ["y"]),
    ]
    weights = {"five": np.array(5, I64), "zero": np.array(0, I64), "one": np.array(1, I64)}
    found = ran(nodes, weights, shapes={"x": ("n",)}, x=np.zeros(extent, np.float32))
    np.testing.assert_array_equal(found, np.arange(0, extent - 5))


@pytest.mark.parametrize("extent", [1, 3])
def test_expand_repeats_an_axis_that_turns_out_to_have_one_element(extent: int) -> None:
    x = np.arange(2 * extent, dtype=np.float32).reshape(2, extent)
    nodes = [helper.make_node("Expand", ["x", "shape"], ["y"])]
    found = ran(nodes, {"shape": np.array([2, 2, 3], I64)}, shapes={"x": (2, "n")}, x=x)
    np.testing.assert_array_equal(found, np.broadcast_to(x, (2, 2, 3)))


@pytest.mark.parametrize("dilation", [1, 2])
def test_a_transposed_convolution_of_an_image_of_unknown_size(dilation: int) -> None:
    x, w = np.arange(10, dtype=np.float32).reshape(1, 2, 5), f32(1, 2, 3, 4, 5, 6).reshape(2, 1, 3)
    node = [helper.make_node("ConvTranspose", ["x", "w"], ["y"], dilations=[dilation])]
    whole = ran(node, {"w": w}, x=x)
    np.testing.assert_array_equal(ran(node, {"w": w}, shapes={"x": ("b", "c", "n")}, x=x), whole)


@pytest.mark.parametrize(
    "op", ["BatchNormalization", "InstanceNormalization", "QuantizeLinear", "Conv", "ConvTranspose"]
)
@pytest.mark.parametrize("symbolic", ["x", "w"])
def test_weights_whose_extents_only_the_run_knows(op: str, symbolic: str) -> None:
    """One side of what must be equal is a name: extents of channels, and those of a kernel beside ``kernel_shape``."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    w = np.ones((3, 3, 2), np.float32) if op.startswith("Conv") else f32(1, 2, 4)
    count = {"BatchNormalization": 4, "InstanceNormalization": 2}.get(op, 1)
    attrs: dict[str, Any] = {"kernel_shape": [2]} if op.startswith("Conv") else {}
    node = helper.make_node(op, ["x", *["w"] * count], ["y"], **attrs)
    shapes = {"x": (2, "n", 4)} if symbolic == "x" else {"w": (3, 3, "n") if w.ndim == 3 else ("n",)}
    whole = ran([node], x=x, w=w)
    np.testing.assert_array_equal(ran([node], shapes=shapes, x=x, w=w), whole)


@pytest.mark.meaning("empty")
def test_extents_of_zero_that_a_shape_asks_for_are_not_copied() -> None:
    """That there are no elements is known of neither extent of x until the program runs."""
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], allowzero=1)
    for given in ((8, 0), (0, 3)):
        found = ran(
            [node],
            {"shape": np.array([0, 5, 2], I64)},
            shapes={"x": ("n", "m")},
            x=np.ones(given, np.float32),
        )
        assert found.shape == (0, 5, 2)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_power_knows_whether_a_large_exponent_is_odd(dtype: Any) -> None:
    """float32 holds no odd number above 2 ** 24."""
    x = f32(-1, -1, -INF, -1)
    exponents = np.array([16777217, 2147483647, 2147483647, 16777216], dtype)
    np.testing.assert_array_equal(one("Pow", x, exponents), [-1, -1, -INF, 1])
    np.testing.assert_array_equal(one("Pow", f32(3, -2), np.array([2, -1], dtype)), [9, -0.5])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("places", ["asymmetric", "half_pixel", "align_corners"])
def test_resizing_an_image_without_rows(mode: str, places: str) -> None:
    x, scales = np.zeros((2, 3, 0, 5), np.float32), f32(1, 1, 2, 2)
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=places)
    assert ran([node], {"s": scales}, x=x).shape == (2, 3, 0, 10)


@pytest.mark.meaning("relax-fold", "cast-float-int")
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint32])
def test_casts_of_constants_are_those_of_the_kernel(dtype: Any) -> None:
    x = f32(NAN, INF, -INF, 300, -1, 3e9, 1.5)
    node = helper.make_node("Cast", ["x"], ["y"], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    computed = ran([node], x=x)
    assert computed[0] == 0 and computed[1] == np.iinfo(dtype).max
    cast = helper.make_node("Cast", ["c"], ["k"], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    nodes = [cast, helper.make_node("Mul", ["k", "one"], ["y"])]
    np.testing.assert_array_equal(ran(nodes, {"c": x}, one=np.ones(7, dtype)), computed)


@pytest.mark.meaning("relax-fold")
@pytest.mark.parametrize("op", ["Exp", "Sin", "Cos", "Sqrt"])
def test_functions_of_constants_are_those_of_the_kernel(op: str) -> None:
    x = np.linspace(0.01, 30, 97).astype(np.float32)
    computed = ran([helper.make_node(op, ["x"], ["y"])], x=x)
    nodes = [helper.make_node(op, ["c"], ["k"]), helper.make_node("Mul", ["k", "one"], ["y"])]
    np.testing.assert_array_equal(ran(nodes, {"c": x}, one=np.ones(97, np.float32)), computed)


@pytest.mark.meaning("argmax", "reduce-empty")
@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_an_extremum_of_no_elements_ends_the_program(name: str) -> None:
    node = helper.make_node(name, ["x"], ["y"], axis=0, keepdims=0)
    with pytest.raises(ArgumentError, match="needs 1 element along axis 0 to find one, there are 0"):
        ran([node], shapes={"x": ("n",)}, x=f32())
    assert ran([node], shapes={"x": ("n",)}, x=f32(2, 2)) == 0


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("name", "axis", "last"), [("ArgMax", 1, 4), ("ArgMin", -1, 3), ("ArgMax", 0, 1)])
def test_the_last_extremum_along_a_symbolic_extent(name: str, axis: int, last: int, keepdims: int) -> None:
    x = np.array([[1, 0, 1, 0, 1], [1, 0, 1, 0, 1]], np.float32)
    node = helper.make_node(name, ["x"], ["y"], axis=axis, keepdims=keepdims, select_last_index=1)
    found = ran([node], shapes={"x": ("m", "n")}, x=x)
    np.testing.assert_array_equal(found, np.full_like(x.argmax(axis, keepdims=bool(keepdims)), last))
    only = helper.make_node(name, ["x"], ["y"], axis=0, keepdims=keepdims, select_last_index=1)
    assert ran([only], shapes={"x": ("n",)}, x=f32(2, 2, 2)).tolist() == ([2] if keepdims else 2)


@pytest.mark.parametrize(("start", "end"), [(1, 2**31), (0, -1), (-3, -1)])
def test_a_slice_that_turns_out_to_be_one_is_not_taken_for_the_longer_operand(start: int, end: int) -> None:
    """ONNX Runtime would repeat it; here the extents are equal, or the run says which is not."""
    nodes = [helper.make_node("Slice", ["x", "s", "e"], ["t"]), helper.make_node("Add", ["t", "w"], ["y"])]
    weights = {"s": np.array([start], I64), "e": np.array([end], I64)}
    shapes: dict[str, tuple[Any, ...]] = {"x": ("n",), "w": ("m",)}
    x = np.arange(3, dtype=np.float32)
    found = ran(nodes, weights, shapes=shapes, x=x, w=f32(1, 2))
    np.testing.assert_array_equal(found, x[start:end] + f32(1, 2))
    with pytest.raises(ArgumentError, match=r"must have extent 1 on axis 0, got \[3\]"):
        ran(nodes, weights, shapes=shapes, x=x[:2], w=f32(1, 2, 3))
