"""NaN in minima, maxima, comparisons and their negations; sign of zero and infinities in sums and products."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest

from ir import IRModule, te, topi
from ir import dtype as dt
from ir.codegen.build import build
from ir.script import from_source
from ir.script import tir as T
from ir.tir import TensorIntrin
from schedules import Schedule
from tests.programs.expressions import conv2d, matmul_relu

pytestmark = pytest.mark.filterwarnings("ignore:invalid value")

DTYPES = ["float16", "bfloat16", "float32", "float64"]
VALUES = [0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 3.0, -2.0]


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special values."""
    kind = dt.to_numpy(dtype)
    count = len(VALUES)
    return np.repeat(VALUES, count).astype(kind), np.tile(VALUES, count).astype(kind)


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "meaning"), [("max", np.maximum), ("min", np.minimum)])
def test_extremes_of_nan_are_nan(name: str, meaning: np.ufunc, dtype: str, kind: str) -> None:
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((64,), "{dtype}"), B: T.Buffer((64,), "{dtype}"), C: T.Buffer((3, 64), "{dtype}")):
        for i in T.{kind}(64):
            C[0, i] = T.{name}(A[i], B[i])
            C[1, i] = T.{name}(A[i], T.{dtype}(1))
            C[2, i] = T.{name}(T.{dtype}(1), A[i])"""
    )
    a, b = pairs(dtype)
    c = np.zeros((3, 64), dt.to_numpy(dtype))
    build(func)["main"](a, b, c)
    one = dt.to_numpy(dtype).type(1)
    expected = np.stack([meaning(a, b), meaning(a, one), meaning(one, a)])
    np.testing.assert_array_equal(c.astype("float64"), expected.astype("float64"))


@pytest.mark.parametrize("place", [None, 0, 1, 50, 99])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "meaning"), [("max", np.maximum), ("min", np.minimum)])
def test_a_reduction_keeps_nan(name: str, meaning: np.ufunc, dtype: str, place: int | None) -> None:
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((100,), "{dtype}"), C: T.Buffer((1,), "{dtype}")):
        for i in range(100):
            C[0] = T.{name}(C[0], A[i])"""
    )
    a = np.random.default_rng(0).standard_normal(100).astype(dt.to_numpy(dtype))
    if place is not None:
        a[place] = math.nan
    c = np.array([-math.inf if name == "max" else math.inf], dt.to_numpy(dtype))
    build(func)["main"](a, c)
    np.testing.assert_array_equal(c.astype("float64"), [float(meaning.reduce(a))])


@pytest.mark.skipif("x86_64" not in llvm.get_process_triple(), reason="the instructions are x86's")
def test_an_extreme_with_a_number_is_one_instruction() -> None:
    """relu6; and a reduction is made of vectors, with a test for NaN."""
    source = """@T.prim_func
def main(A: T.Buffer((64, 16), "float32")):
        for i in range(64):
            for j in T.vectorized(16):
                A[i, j] = T.min(T.max(A[i, j], T.float32(0)), T.float32(6))"""
    text = build(from_source(source), "llvm -mcpu=x86-64-v4").assembly
    assert len(re.findall(r"vm(?:ax|in)ps", text)) == 2
    assert "vcmp" not in text
    reduction = """@T.prim_func
def main(A: T.Buffer((1024,), "float32"), C: T.Buffer((1,), "float32")):
        for i in range(1024):
            C[0] = T.max(C[0], A[i])"""
    assert re.search(r"vmaxps.*zmm", build(from_source(reduction), "llvm -mcpu=x86-64-v4").assembly)


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_with_nan_are_false_and_their_negations_true(dtype: str, kind: str) -> None:
    operators = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
    operators |= {"==": np.equal, "!=": np.not_equal}
    stores = "".join(
        f"""
            C[{2 * n}, i] = A[i] {op} B[i]
            C[{2 * n + 1}, i] = not (A[i] {op} B[i])"""
        for n, op in enumerate(operators)
    )
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((64,), "{dtype}"), B: T.Buffer((64,), "{dtype}"), C: T.Buffer((12, 64), "bool")):
        for i in T.{kind}(64):{stores}"""
    )
    a, b = pairs(dtype)
    c = np.zeros((12, 64), "bool")
    build(func)["main"](a, b, c)
    expected = [sign(compare(a, b)) for compare in operators.values() for sign in (np.array, np.logical_not)]
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_and_products_of_special_values(dtype: str, kind: str) -> None:
    """-0.0 + 0.0 is 0.0, infinity times zero is NaN, and x - x is not always zero."""
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((8,), "{dtype}"), Z: T.Buffer((1,), "{dtype}"), C: T.Buffer((4, 8), "{dtype}")):
        for i in T.{kind}(8):
            C[0, i] = A[i] + Z[0]
            C[1, i] = A[i] * Z[0]
            C[2, i] = A[i] - A[i]
            C[3, i] = A[i] * T.{dtype}(-1)"""
    )
    a = np.array([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5.0], dtype)
    c = np.zeros((4, 8), dtype)
    build(func)["main"](a, np.zeros(1, dtype), c)
    with np.errstate(invalid="ignore"):
        expected = np.stack([a + 0, a * 0, a - a, -a])
    np.testing.assert_array_equal(c, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(c)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("kind", ["serial", "vectorized", "parallel"])
@pytest.mark.parametrize(
    "value",
    [
        'T.Cast("int32", (A[i] * B[i] + C[i]) * T.float32(1e12))',
        "T.Select(A[i] * B[i] + C[i] > T.float32(0), 1, 2)",
        'T.Cast("int32", A[i] * B[i] + C[i] != T.float32(0))',
        'T.Cast("int32", T.floor(A[i] * B[i] + C[i]))',
        'T.Cast("int32", T.ceil(T.max(C[i] - A[i] * T.float32(-1) * B[i], T.float32(0))))',
        'T.Cast("int32", A[i] * B[i] + C[i] > T.float32(0)) + T.Cast("int32", T.ceil(A[i] * B[i] + C[i]))',
    ],
)
def test_what_decides_is_not_contracted(value: str, kind: str) -> None:
    """``a * b + c`` where c is the rounded product, negated: 0, and something else where it is rounded once."""
    func = from_source(
        f"""@T.prim_func
def main(
    A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32"), C: T.Buffer((512,), "float32"),
    D: T.Buffer((512,), "int32"), E: T.Buffer((512,), "float32")
):
        for i in T.{kind}(512):
            D[i] = {value}
        for i in T.{kind}(512):
            E[i] = A[i] * B[i] + C[i]"""
    )
    a, b = np.random.default_rng(0).standard_normal((2, 512)).astype("float32")
    c = -(a * b)
    found, data = np.full(512, -1, "int32"), np.zeros(512, "float32")
    build(func)["main"](a, b, c, found, data)
    expected = 2 if "Select" in value else 0
    np.testing.assert_array_equal(found, np.full(512, expected))
    assert not data.any() or "vfmadd" in build(func).assembly  # data may be contracted


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_division_of_floats_rounded_down(dtype: str, kind: str) -> None:
    """As numpy's: the remainder has the sign of the divisor, zero too, and the quotient fits the remainder."""
    x = np.array(
        [5.5, -5.5, 1, -1, math.inf, 3, 0.0, -0.0, 1e30, -7, 0.3, 1e10, -1e-30, 1.0, -0.0, math.nan], dtype
    )
    y = np.array([2, 2, math.inf, math.inf, 2, 0, -3, 3, 0.7, 3.5, 0.1, 3, 5, 0.1, -2, 1], dtype)
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((16,), "{dtype}"), B: T.Buffer((16,), "{dtype}"), C: T.Buffer((3, 16), "{dtype}")):
        for i in T.{kind}(16):
            C[0, i] = T.floormod(A[i], B[i])
            C[1, i] = T.floordiv(A[i], B[i])
            C[2, i] = T.truncmod(A[i], B[i])"""
    )
    for divisor in (y, -y):
        c = np.zeros((3, 16), dtype)
        build(func)["main"](x, divisor, c)
        expected = np.stack([np.mod(x, divisor), np.floor_divide(x, divisor), np.fmod(x, divisor)])
        np.testing.assert_array_equal(c, expected)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(c)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("extreme", ["max", "min"])
@pytest.mark.parametrize("first", ["T.Cast('float32', i)", "T.float32(-0.0)"])
def test_an_absolute_value_is_positive_whichever_zero_an_extreme_gives(extreme: str, first: str) -> None:
    second = "T.float32(-0.0)" if "Cast" in first else "T.Cast('float32', i)"
    func = from_source(f"""
@T.prim_func
def main(C: T.Buffer((4, 3), "float32")):
    for i, j in T.grid(4, 3):
        C[i, j] = T.float32(1) / T.fabs(T.{extreme}({first}, {second}))
""")
    found = np.zeros((4, 3), "float32")
    build(func, "cpu")["main"](found)
    assert (found[0] == np.inf).all()


def _scheduled(*steps: Callable[[Schedule], object]) -> Schedule:
    """A product of matrices, to which the steps are applied."""
    schedule = Schedule(matmul_relu(32, 32, 64))
    for step in steps:
        step(schedule)
    return schedule


def _tiled(schedule: Schedule) -> None:
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    (outer, inner), (first, second) = schedule.split(j, [None, 16]), schedule.split(k, [None, 8])
    schedule.reorder(i, outer, first, second, inner)
    copy = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(copy, outer)
    schedule.decompose_reduction(block, first)


def _inside_of_a_block(schedule: Schedule) -> None:
    loop = schedule.get_loops(schedule.get_block("C"))[2]
    schedule.blockize(schedule.split(loop, [None, 16])[1])


@T.prim_func
def _sixteen_terms(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (16,), offset_factor=1)
    B = T.match_buffer(b, (16,), offset_factor=1)
    C = T.match_buffer(c, (1,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:1], A[0:16], B[0:16])
        T.writes(C[0:1])
        for k in range(16):
            with T.block("dot"):
                vk = T.axis.reduce(16, k)
                C[0] = C[0] + A[vk] * B[vk]


@T.prim_func
def _sixteen_terms_without_a_block(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (16,), offset_factor=1)
    B = T.match_buffer(b, (16,), offset_factor=1)
    C = T.match_buffer(c, (1,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:1], A[0:16], B[0:16])
        T.writes(C[0:1])
        for k in range(16):
            C[0] = C[0] + A[k] * B[k]


def _by_an_intrinsic() -> IRModule:
    name = "test.sixteen_terms"
    TensorIntrin.register(name, _sixteen_terms, _sixteen_terms_without_a_block, override=True)
    a, b = te.placeholder((8, 64), "float32", name="A"), te.placeholder((8, 64), "float32", name="B")
    k = te.reduce_axis((0, 64), name="k")
    product = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    schedule = Schedule(te.create_prim_func([a, b, product]))
    block = schedule.get_block("C")
    outer, inner = schedule.split(schedule.get_loops(block)[2], [None, 16])
    schedule.decompose_reduction(block, outer)
    schedule.tensorize(inner, name)
    return schedule.mod


def _at_its_use(schedule: Schedule) -> None:
    schedule.compute_at(schedule.get_block("C"), schedule.get_loops(schedule.get_block("D"))[1])


def _factored(schedule: Schedule) -> None:
    loop = schedule.get_loops(schedule.get_block("C"))[2]
    schedule.rfactor(schedule.split(loop, [None, 16])[0], 0)


def _row_operator(make: Callable[[te.Tensor], te.Tensor]) -> object:
    a = te.placeholder((8, 64), "float32", name="A")
    return te.create_prim_func([a, make(a)])


REDUCTIONS: dict[str, Callable[[], object]] = {
    "sum": lambda: _row_operator(lambda a: topi.sum(a, axis=1)),
    "softmax": lambda: _row_operator(topi.nn.softmax),
    "convolution": conv2d,
    "matmul": lambda: _scheduled().mod,
    "tiled": lambda: _scheduled(_tiled).mod,
    "blockized": lambda: _scheduled(_inside_of_a_block).mod,
    "tensorized": _by_an_intrinsic,
    "at its use": lambda: _scheduled(_at_its_use).mod,
    "factored": lambda: _scheduled(_factored).mod,
}


@pytest.mark.meaning("reduce-order")
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_may_be_computed_in_any_order(name: str) -> None:
    text = build(REDUCTIONS[name](), "llvm -mcpu=x86-64-v3").llvm_ir  # type: ignore[arg-type]
    assert "reassoc" in text


@pytest.mark.meaning("float-order")
@pytest.mark.parametrize("kind", ["serial", "parallel", "unroll"])
def test_only_reductions_are_reassociated(kind: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(B: T.Buffer((64, 64), "float32"), C: T.Buffer((64,), "float32")):
    for i in T.{kind}(64):
        for j in range(64):
            C[i] = C[i] + B[i, j]
        C[i] = C[i] * T.float32(1e-30)
""")
    text = build(func, "llvm -mcpu=x86-64-v3").llvm_ir
    assert "fadd" in text
    assert "reassoc" not in text
