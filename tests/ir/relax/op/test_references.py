"""Every operator's numpy reference against its kernel, where they may differ: NaN, infinities, -0.0, ends of integers, nothing.

Constant folding computes with references what the program would compute with kernels; a model must not mean something else for it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import relax as rx
from ir.conversion import cast_array
from ir.dtype import to_numpy
from ir.relax.testing import evaluate
from ir.tir import FloatImm

from .calls import DATA_DEPENDENT, flat, params_of, reference
from .cases import CASES, Case
from .native import run_natively

R = rx.op
EDGES = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1, -1, 2.5, -2.5, 0.5, -0.5, 3, -7.25])
FINITE = EDGES[3:]
FINITE_ONLY = {
    # a phase of the kernel meets the zeros around the data: an infinite weight is no number there
    "nn.conv1d_transpose-channels_last", "nn.conv2d_transpose-channels_last", "nn.conv3d_transpose-channels_last",
}  # fmt: skip
NUMBERED = [item for item in CASES if item.numbers and item.op not in DATA_DEPENDENT]


def with_edges(item: Case, seed: int) -> Case:
    """The case with floats from the edges; integers are mostly indices, and stay."""
    rng = np.random.default_rng([seed, *map(ord, str(item))])
    numbers = FINITE if str(item) in FINITE_ONLY else EDGES
    inputs = [
        rng.choice(numbers, array.shape).astype(array.dtype) if array.dtype.kind == "f" else array
        for array in map(np.asarray, item.inputs)
    ]
    return dataclasses.replace(item, inputs=inputs)


def compared(item: Case) -> None:
    params, _ = params_of(item, False)
    with np.errstate(all="ignore"):
        expected = flat(reference(item, params))
    results = flat(run_natively(item.build, *item.inputs))
    for result, wanted in zip(results, expected, strict=True):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        if result.dtype.kind in "biu":
            np.testing.assert_array_equal(result, wanted)
        else:
            np.testing.assert_allclose(
                result.astype("float64"), wanted.astype("float64"), rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("item", NUMBERED, ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floats_at_the_edges(item: Case) -> None:
    for seed in range(2):
        compared(with_edges(item, seed))


BINARY = "add subtract multiply maximum minimum bitwise_and bitwise_or bitwise_xor left_shift right_shift power".split()
DIVISIONS = "divide floor_divide mod floor_mod".split()
COMPARISONS = "equal not_equal less less_equal greater greater_equal".split()
REDUCTIONS = "sum prod max min argmax argmin cumsum cumprod mean variance std sort argsort".split()
UNARY = "abs negative sign square bitwise_not".split()
DTYPES = ["int8", "uint8", "int32", "int64", "uint32"]


def pairs(dtype: str, divisor: bool) -> list[np.ndarray]:
    info = np.iinfo(dtype)
    numbers = np.array([info.min, info.max, 0, 1, 2, 7, *([-1, -3] if info.min else [3])], dtype)
    right = numbers[numbers != 0] if divisor else numbers
    return [side.ravel() for side in np.meshgrid(numbers, right, indexing="ij")]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "names", [BINARY, DIVISIONS, COMPARISONS], ids=["arithmetic", "divisions", "comparisons"]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_integers_at_the_ends_of_their_range(names: list[str], dtype: str) -> None:
    for name in names:
        a, b = pairs(dtype, names is DIVISIONS)
        if name == "power":
            b = np.abs(b % np.asarray(9, dtype))
        compared(Case(f"relax.{name}", getattr(R, name), [a, b]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_row_of_integers_at_the_ends_of_their_range(dtype: str) -> None:
    info = np.iinfo(dtype)
    rows = np.array([[info.min, info.max, 3, 0, 1], [info.max, info.max, info.min, 7, 2]], dtype)
    for name in UNARY:
        if dtype.startswith("u") and name == "negative":
            continue
        compared(Case(f"relax.{name}", getattr(R, name), [rows]))
    for name in REDUCTIONS:
        if dtype == "int64" and name in ("mean", "variance", "std"):
            continue  # beyond float64's digits
        compared(Case(f"relax.{name}", lambda x, name=name: getattr(R, name)(x, 1), [rows]))
    compared(Case("relax.sort", lambda x: R.sort(x, 1, True), [rows]))
    compared(Case("relax.topk", lambda x: R.topk(x, 3, 1), [rows]))


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_four_bit_integers(dtype: str) -> None:
    """numpy widens its own integers only, and takes those of ml_dtypes for no integers."""
    row = np.array([7, -8, 1, 3, -1]).astype(to_numpy(dtype))
    for name in "sum prod mean variance std cumsum sort argsort".split():
        compared(Case(f"relax.{name}", getattr(R, name), [row]))
    compared(Case("relax.sort", lambda x: R.sort(x, 0, True), [row]))
    divisors = np.array([2, 3, 4, -2, 5]).astype(to_numpy(dtype))
    for name in ("divide", "floor_divide", "floor_mod"):
        compared(Case(f"relax.{name}", getattr(R, name), [row, divisors]))


INDEXED: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda x, i: R.take(x, i, 1), ([[-1, 0], [3, -4]],)),
    (lambda x, i: R.take(x, i, 1, "wrap"), ([[-1, 9], [3, -8]],)),
    (lambda x, i: R.take(x, i, 1, "clip"), ([[-1, 9], [3, -8]],)),
    (lambda x, i: R.take(x, i, 1, "nan"), ([[-1, 9], [3, -8]],)),
    (lambda x, i: R.gather_elements(x, i, 1), ([[-1, 0], [3, -4], [1, 1]],)),
    (R.gather_nd, ([[-1, -1], [0, -4]],)),
    (lambda x, i, j: R.index_tensor(x, [i, j]), ([[-1], [0]], [-4, 3])),
    (
        lambda x, i: R.scatter_elements(x, i, R.take(x, i, 1), 1) if False else R.gather_nd(x, i),
        ([[-3], [2]],),
    ),
]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("number", range(len(INDEXED)))
def test_negative_indices(number: int, dtype: str) -> None:
    build, arrays = INDEXED[number]
    x = np.arange(12, dtype="float32").reshape(3, 4)
    compared(Case("relax.index", build, [x, *[np.array(item, dtype) for item in arrays]]))


PLACED: list[tuple[Callable[..., Any], bool]] = [
    *[
        (lambda x, i, mode=mode: R.take(x, i, 0, mode), mode == "fast")
        for mode in ("fast", "wrap", "clip", "nan")
    ],
    (lambda x, i: R.gather_elements(x, i, 0), True),
    (lambda x, i: R.index_tensor(x, [i]), True),
    (lambda x, i: R.scatter_elements(x, i, R.zeros(i.struct_info.shape, "float32"), 0), True),
    (lambda x, i: R.one_hot(i, _prim(1.0), _prim(0.0), x.struct_info.shape[0].value), False),
]
"""Operators on indices, and whether the indices must be in range."""


def _prim(value: float) -> rx.PrimValue:
    return rx.PrimValue(FloatImm("float32", value))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
@pytest.mark.parametrize("number", range(len(PLACED)))
def test_indices_of_a_dtype_with_fewer_numbers_than_the_axis_has_elements(number: int, dtype: str) -> None:
    build, inside = PLACED[number]
    x = np.arange(300, dtype="float32")
    indices = np.array([3, 100, -1] if dtype.startswith("i") else [3, 200, 255], dtype)
    outside = [] if inside or dtype in ("int8", "uint8") else [np.iinfo(dtype).max]
    compared(Case("relax.index", build, [x, np.array([*indices, *outside], dtype)]))


EMPTY: list[tuple[str, Callable[..., Any], list[tuple[int, ...]]]] = [
    *[(name, lambda x, name=name: getattr(R, name)(x, 1), [(2, 0, 3)]) for name in ("sum", "prod", "max", "min")],
    *[(name, lambda x, name=name: getattr(R, name)(x), [(0,)]) for name in ("sum", "prod", "max", "min")],
    ("cumsum", lambda x: R.cumsum(x, 0), [(0, 3)]),
    ("softmax", lambda x: R.nn.softmax(x, 0), [(2, 0)]),
    ("matmul", R.matmul, [(2, 0), (0, 3)]),
    ("matmul", R.matmul, [(0, 2), (2, 3)]),
    ("add", R.add, [(0, 3), (1, 3)]),
    ("reshape", lambda x: R.reshape(x, rx.ShapeExpr([3, 4, 0])), [(0, 3, 4)]),
    ("concat", lambda x, y: R.concat([x, y], 0), [(0, 3), (2, 3)]),
    ("permute_dims", lambda x: R.permute_dims(x), [(0, 3)]),
    ("flip", lambda x: R.flip(x, 0), [(0, 3)]),
    ("tile", lambda x: R.tile(x, [2, 3]), [(0, 3)]),
    ("tile", lambda x: R.tile(x, [0, 3]), [(2, 3)]),
    ("repeat", lambda x: R.repeat(x, 0, 1), [(2, 3)]),
    ("sort", lambda x: R.sort(x, 1), [(3, 0)]),
    ("strided_slice", lambda x: R.strided_slice(x, [0], [2], [2]), [(3, 2)]),
]  # fmt: skip


@pytest.mark.parametrize(
    "number", range(len(EMPTY)), ids=[f"{name}-{n}" for n, (name, _, _) in enumerate(EMPTY)]
)
def test_extents_of_zero(number: int) -> None:
    name, build, shapes = EMPTY[number]
    compared(Case(f"relax.{name}", build, [np.ones(shape, "float32") for shape in shapes]))


_C_POW = ctypes.CDLL(ctypes.util.find_library("m")).pow
_C_POW.restype, _C_POW.argtypes = ctypes.c_double, [ctypes.c_double] * 2


def test_a_power_of_infinity_with_one_exponent() -> None:
    inputs = [np.full((2, 3), -np.inf, "float32"), np.array([[0.5]], "float32")]
    item = Case("relax.power", R.power, inputs)
    compared(item)
    assert (reference(item, params_of(item, False)[0]) == np.inf).all()


@pytest.mark.parametrize("base", [-0.0, 0.0, -np.inf, np.nan, 4.0])
@pytest.mark.parametrize("exponent", [0.5, 0.0, -0.0, -1.0, 2.0, np.nan])
@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_powers_of_edges(base: float, exponent: float, shape: tuple[int, ...]) -> None:
    """Also of single numbers, for which numpy has other ways."""
    for dtype in ("float32", "float64"):
        item = Case("relax.power", R.power, [np.full(shape, base, dtype), np.array(exponent, dtype)])
        compared(item)
        found = reference(item, params_of(item, False)[0])
        exact = float(_C_POW(base, exponent))
        np.testing.assert_array_equal(found, exact)
        assert np.isnan(exact) or (np.signbit(found) == np.signbit(exact)).all()


def test_a_convolution_of_single_numbers_multiplies_its_padding() -> None:
    """Zero times NaN or infinity is NaN, however few factors there are."""
    weight = np.array([1, np.nan, np.inf], "float32").reshape(3, 1, 1, 1)
    inputs = [np.ones((1, 1, 1, 1), "float32"), weight]
    compared(Case("relax.nn.conv2d", lambda x, w: R.nn.conv2d(x, w, padding=1), inputs))


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_arrays_are_cast_as_numbers_are(narrow: str) -> None:
    floats = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 300.7, -1.5, 2.0**63, -(2.0**64)])
    assert cast_array(floats, "int32").tolist() == [
        0,
        2**31 - 1,
        -(2**31),
        2**31 - 1,
        -(2**31),
        300,
        -1,
        2**31 - 1,
        -(2**31),
    ]
    assert cast_array(floats, "uint8").tolist() == [0, 255, 0, 255, 0, 255, 0, 255, 0]
    assert cast_array(floats, "int64").tolist()[-2:] == [2**63 - 1, -(2**63)]
    assert cast_array(floats[:2], "bool").tolist() == [True, True]
    # A double rounding would give the even neighbour: 1 + half a unit, and a little.
    unit = 2.0**-10 if narrow == "float16" else 2.0**-7
    above = np.array(
        [1 + unit / 2 + 2.0**-40, 1 + unit / 2, 1 + unit / 2 - 2.0**-40, -1 - unit / 2 - 2.0**-40]
    )
    found = cast_array(above, narrow)
    assert found.dtype == to_numpy(narrow)
    assert found.astype("float64").tolist() == [1 + unit, 1, 1, -1 - unit]
    np.testing.assert_array_equal(cast_array(floats[:3], narrow).astype("float64"), floats[:3])


def near_one(*shape: int) -> np.ndarray:
    return 1 + np.random.default_rng(1).standard_normal(shape) / 64


def between(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.5, 1, shape)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape)


SUMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "sum": (lambda x: R.sum(x, 1), [between(2, 4096)]),
    "prod": (lambda x: R.prod(x, 1), [near_one(2, 512)]),
    "mean": (lambda x: R.mean(x, 1), [between(2, 4096)]),
    "variance": (lambda x: R.variance(x, 1), [between(2, 4096)]),
    "std": (lambda x: R.std(x, 1), [between(2, 4096)]),
    "cumsum": (lambda x: R.cumsum(x, 1), [between(2, 2048)]),
    "cumprod": (lambda x: R.cumprod(x, 1), [near_one(2, 512)]),
    "matmul": (R.matmul, [between(3, 4096), between(4096, 2)]),
    "einsum": (lambda x, y: R.einsum([x, y], "ij,jk->ik"), [between(3, 4096), between(4096, 2)]),
    "conv2d": (R.nn.conv2d, [between(1, 512, 3, 3), between(2, 512, 3, 3)]),
    "conv1d_transpose": (R.nn.conv1d_transpose, [between(1, 512, 3), between(512, 2, 3)]),
    "avg_pool2d": (lambda x: R.nn.avg_pool2d(x, (32, 32)), [between(1, 2, 32, 32)]),
    "adaptive_avg_pool2d": (lambda x: R.nn.adaptive_avg_pool2d(x, (1, 1)), [between(1, 2, 64, 64)]),
    "softmax": (lambda x: R.nn.softmax(x, 1), [normal(2, 4096)]),
    "log_softmax": (lambda x: R.nn.log_softmax(x, 1), [normal(2, 4096)]),
    "layer_norm": (
        lambda x, g, b: R.nn.layer_norm(x, g, b, [-1]),
        [normal(2, 4096), between(4096), normal(4096)],
    ),
    "group_norm": (
        lambda x, g, b: R.nn.group_norm(x, g, b, 2, 1, [2, 3]),
        [normal(1, 4, 32, 32), between(4), normal(4)],
    ),
    "rms_norm": (lambda x, g: R.nn.rms_norm(x, g, [-1]), [normal(2, 4096), between(4096)]),
    "attention": (R.nn.attention, [normal(1, 16, 2, 64), normal(1, 512, 2, 64), normal(1, 512, 2, 64)]),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_narrow_floats(name: str, dtype: str) -> None:
    """Both are rounded once, so that they differ by one unit in the last place at most."""
    operator, arrays = SUMS[name]
    inputs = [item.astype(to_numpy(dtype)) for item in arrays]
    params, _ = params_of(Case(name, operator, inputs), False)
    bb = rx.BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(bb.normalize(operator(*params))))
    expected = evaluate(bb.finalize(), *inputs)
    result = run_natively(operator, *inputs)
    assert result.dtype == expected.dtype == to_numpy(dtype)
    unit = 2.0 ** (-10 if dtype == "float16" else -7)
    np.testing.assert_allclose(
        result.astype("float64"), expected.astype("float64"), rtol=1.01 * unit, atol=unit / 64
    )


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "matmul": (R.matmul, (3, 300), (300, 4)),
    "nn.conv1d": (R.nn.conv1d, (1, 64, 5), (4, 64, 3)),
    "nn.conv2d": (R.nn.conv2d, (1, 64, 5, 5), (4, 64, 3, 3)),
    "nn.conv2d_transpose": (R.nn.conv2d_transpose, (1, 64, 4, 4), (64, 4, 3, 3)),
    "nn.conv1d_transpose": (R.nn.conv1d_transpose, (1, 64, 4), (64, 4, 3)),
}


@pytest.mark.meaning("reduce-wide")
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(
    ("dtype", "out"),
    [("int8", "int32"), ("uint8", "float32"), ("float16", "float32"), ("float32", "float64")],
)
def test_products_are_summed_in_the_dtype_that_they_return(name: str, dtype: str, out: str) -> None:
    """References summed int8 in int8, or returned it whatever was asked for."""
    build, *shapes = PRODUCTS[name]
    arrays = [np.random.default_rng(n).uniform(0, 100, shape).astype(dtype) for n, shape in enumerate(shapes)]
    item = Case(f"relax.{name}", lambda a, b: build(a, b, out_dtype=out), arrays)
    compared(item)
    exact = Case(f"relax.{name}", build, [array.astype("float64") for array in arrays])
    wide = np.asarray(reference(exact, params_of(exact, False)[0]))
    found = np.asarray(reference(item, params_of(item, False)[0]))
    np.testing.assert_allclose(found, wide, rtol=1e-6)
