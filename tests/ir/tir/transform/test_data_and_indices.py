"""Integer data wraps and index arithmetic does not: every pass that simplifies keeps what the program computes, and native code agrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import IRModule, te, tir
from ir.codegen.build import build
from ir.script import tir as T
from ir.tir import PrimFunc
from ir.tir import transform as passes
from ir.tir.interpreter import run
from ir.transform import Pass

PASSES: dict[str, Pass] = {
    "Simplify": passes.Simplify(),
    "SimplifyIndices": passes.SimplifyIndices(),
    "NarrowDataType": passes.NarrowDataType(),
    "WidenIndices": passes.WidenIndices(),
}
Case = tuple[PrimFunc, list[np.ndarray], np.ndarray]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """A function, its arguments but the last, and what it is to leave in the last one."""
    CASES[make.__name__] = make
    return make


@case
def narrowing_cast_of_a_load() -> Case:
    @T.prim_func
    def func(A: T.Buffer((4,), "int64"), O: T.Buffer((4,), "bool")):
        for j in range(4):
            O[j] = T.Cast("int32", A[j]) < 5

    return func, [np.array([1 << 32, 1, 5, -(1 << 33)])], np.array([True, True, False, True])


@case
def product_of_a_load_in_a_condition() -> Case:
    @T.prim_func
    def func(A: T.Buffer((3,), "int32"), O: T.Buffer((3,), "int32")):
        for j in range(3):
            O[j] = 0
            if A[j] * 3 < 5:
                O[j] = 1

    return func, [np.array([1 << 30, 1, 2], "int32")], np.array([1, 1, 0], "int32")


@case
def narrow_cast_of_a_loop_variable() -> Case:
    @T.prim_func
    def func(O: T.Buffer((10,), "bool")):
        for i in range(10):
            O[i] = T.Cast("int32", T.Cast("int8", i + 200)) < 0

    return func, [], np.array([True] * 10)


@case
def narrow_cast_in_a_condition() -> Case:
    @T.prim_func
    def func(O: T.Buffer((10,), "int32")):
        for i in range(10):
            O[i] = 0
            if T.Cast("int32", T.Cast("int8", i + 124)) < 0:
                O[i] = 1

    return func, [], np.array([0] * 4 + [1] * 6, "int32")


@case
def narrow_product_of_loop_variables() -> Case:
    @T.prim_func
    def func(B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[i] = T.floormod(T.Cast("int32", T.Cast("int8", i) * T.Cast("int8", i) * T.int8(16)), 5)

    return func, [], np.array([0, 1, 4, 3, 0, 3, 4, 1], "int32")


@case
def comparison_that_is_stored() -> Case:
    @T.prim_func
    def func(O: T.Buffer((8,), "bool")):
        for i in range(8):
            O[i] = i * 1000000000 < 0

    wrapped = np.arange(8, dtype="int32") * np.int32(1000000000)
    return func, [], wrapped < 0


@case
def comparison_that_is_cast() -> Case:
    @T.prim_func
    def func(n: T.int32, O: T.Buffer((4,), "int64")):
        for i in range(4):
            O[i] = T.Cast("int64", 1 - i < n)

    return func, [np.int32(2147483647)], np.array([1, 1, 1, 1], "int64")  # type: ignore[list-item]


@case
def quotient_that_is_stored() -> Case:
    @T.prim_func
    def func(O: T.Buffer((8,), "int32")):
        for i in range(8):
            O[i] = i * 1000000000 // 1000 + T.max(i * 1000000000, 5) + T.floormod(i * 1000000000 + 7, 9)

    wrapped = np.arange(8, dtype="int32") * np.int32(1000000000)
    return func, [], wrapped // 1000 + np.maximum(wrapped, 5) + (wrapped + np.int32(7)) % 9


@case
def comparison_of_a_parameter() -> Case:
    @T.prim_func
    def func(n: T.int32, O: T.Buffer((2,), "bool")):
        O[0] = n * 65536 < 0
        O[1] = n * 65536 // 65536 == n

    return func, [np.int32(32768)], np.array([True, False])  # type: ignore[list-item]


@case
def products_of_clamped_data() -> Case:
    @T.prim_func
    def func(A: T.Buffer((3,), "int32"), O: T.Buffer((3,), "bool")):
        for i in range(3):
            O[i] = T.max(A[i], 0) * 3 >= 0

    return func, [np.array([1 << 30, 5, -7], "int32")], np.array([False, True, True])


@case
def fact_about_memory_that_changes() -> Case:
    @T.prim_func
    def func(A: T.Buffer((1,), "int32"), B: T.Buffer((1,), "int32")):
        B[0] = 0
        if A[0] > 0:
            A[0] = -1
            if A[0] > 0:
                B[0] = 7

    return func, [np.array([3], "int32")], np.array([0], "int32")


@case
def small_unsigned_numbers() -> Case:
    @T.prim_func
    def func(A: T.Buffer((4,), "uint8"), O: T.Buffer((4, 2), "bool")):
        for i in range(4):
            O[i, 0] = A[i] - T.uint8(1) < T.uint8(5)
            O[i, 1] = A[i] > T.uint8(254)

    values = np.array([0, 1, 6, 255], "uint8")
    return func, [values], np.stack([values - np.uint8(1) < 5, values > 254], axis=1)


@case
def small_signed_numbers() -> Case:
    @T.prim_func
    def func(A: T.Buffer((3,), "int8"), O: T.Buffer((3,), "bool")):
        for i in range(3):
            O[i] = A[i] + T.int8(1) > A[i]

    return func, [np.array([127, 0, -128], "int8")], np.array([False, True, True])


@case
def let_of_data() -> Case:
    @T.prim_func
    def func(n: T.int32, O: T.Buffer((2,), "int32")):
        O[0] = 0
        with T.LetStmt(n * 65536 < 0) as negative:
            if negative:
                O[0] = 1
        O[1] = T.Select(T.Cast("int8", n * 3) < T.int8(0), 1, 2)

    return func, [np.int32(32768 + 43)], np.array([1, 1], "int32")  # type: ignore[list-item]


@case
def a_load_by_a_name() -> Case:
    @T.prim_func
    def func(A: T.Buffer((3,), "int32"), O: T.Buffer((3,), "int32")):
        for j in range(3):
            O[j] = 0
            with T.LetStmt(A[j]) as x:
                if x + 1 > x:
                    O[j] = 1

    return func, [np.array([2**31 - 1, 5, -(2**31)], "int32")], np.array([0, 1, 1], "int32")


@case
def a_load_by_a_name_within_the_condition() -> Case:
    @T.prim_func
    def func(A: T.Buffer((3,), "int32"), O: T.Buffer((3,), "int32")):
        for j in range(3):
            x = T.int32()
            O[j] = 0
            if T.Let(x, where={x: A[j]}) * 3 < 5:
                O[j] = 1

    return func, [np.array([1 << 30, 1, 2], "int32")], np.array([1, 1, 0], "int32")


@case
def one_expression_as_an_index_and_as_data() -> Case:
    """The very same object: no number of ℤ where it is added, for nothing is read with it there."""
    n, o, b = tir.Var("n", "int32"), tir.decl_buffer((1,), "int32", "O"), tir.decl_buffer((4,), "int32", "B")
    shared = tir.floordiv(n * 4, 4)
    value = tir.if_then_else(n < 4, b[shared], 0) + shared
    handles = [tir.Var("b", "handle"), tir.Var("o", "handle")]
    func = PrimFunc(
        [n, *handles],
        tir.BufferStore(o, value, [0]),
        buffer_map=dict(zip(handles, [b, o])),
        attrs={"global_symbol": "func"},
    )
    return func, [np.int32(1 << 30), np.arange(4, dtype="int32")], np.array([0], "int32")  # type: ignore[list-item]


@case
def floats_at_nan_and_zero() -> Case:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), O: T.Buffer((4, 5), "float32")):
        for i in range(4):
            O[i, 0] = T.Select(T.Not(A[i] < T.float32(1)), T.float32(1), T.float32(0))
            O[i, 1] = A[i] * T.float32(0)
            O[i, 2] = A[i] + T.float32(0)
            O[i, 3] = A[i] / T.float32(41)
            O[i, 4] = T.Select(A[i] < T.float32(1) or A[i] >= T.float32(1), T.float32(1), T.float32(0))

    x = np.array([np.nan, -0.0, 41.0, -np.inf], "float32")
    with np.errstate(invalid="ignore"):
        columns = [~(x < 1), x * np.float32(0), x + np.float32(0), x / np.float32(41), (x < 1) | (x >= 1)]
    return func, [x], np.stack([np.asarray(item, "float32") for item in columns], axis=1)


@case
def division_in_its_guard() -> Case:
    @T.prim_func
    def func(n: T.int32, A: T.Buffer((4,), "int32"), O: T.Buffer((4,), "int32")):
        for i in range(4):
            O[i] = 0
            if (n != 0 and T.floordiv(12, n) == 3) or (A[i] > 0 and T.floordiv(12, n + 1) == 12):
                O[i] = 1
            if n != 0 and i % n == 0:
                O[i] = 2
            if T.int32(0) < n and T.floordiv(7, n) < 9 and T.floordiv(7, n) < 5:
                O[i] = 3

    return func, [np.int32(0), np.array([1, 0, 1, 0], "int32")], np.array([1, 0, 1, 0], "int32")  # type: ignore[list-item]


def same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found, expected)
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found)[expected == 0], np.signbit(expected)[expected == 0])


def left_by(func: PrimFunc, arguments: list[Any], expected: np.ndarray) -> np.ndarray:
    out = np.zeros_like(expected)
    run(func, *[np.copy(item) if isinstance(item, np.ndarray) else item for item in arguments], out)
    return out


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_computes_it(name: str) -> None:
    func, arguments, expected = CASES[name]()
    same(left_by(func, arguments, expected), expected)


@pytest.mark.parametrize("pass_name", PASSES)
@pytest.mark.parametrize("name", CASES)
def test_passes_keep_it(name: str, pass_name: str) -> None:
    func, arguments, expected = CASES[name]()
    after = PASSES[pass_name](IRModule({"main": func}))["main"]
    same(left_by(after, arguments, expected), expected)


@pytest.mark.parametrize("simplify", [False, True], ids=["build", "Simplify"])
@pytest.mark.parametrize("name", CASES)
def test_native_code_computes_it(name: str, simplify: bool) -> None:
    func, arguments, expected = CASES[name]()
    mod = IRModule({"main": func})
    out = np.zeros_like(expected)
    build(passes.Simplify()(mod) if simplify else mod)["func"](*arguments, out)
    same(out, expected)


def te_case(dtype: str, compute: Callable[[Any], Any], values: np.ndarray, expected: np.ndarray) -> None:
    x = te.placeholder(values.shape, dtype, "x")
    y = te.compute(values.shape, lambda i: compute(x[i]), "y")
    func = te.create_prim_func([x, y])
    out = np.zeros_like(expected)
    build(func)["main"](values, out)
    same(out, expected)
    same(left_by(func, [values], expected), expected)


def test_te_divides_by_what_the_program_says() -> None:
    values = np.array([41.0, 82.0, -41.0, 0.5], "float32")
    te_case("float32", lambda x: tir.floor(x / 41.0), values, np.array([1, 2, -1, 0], "float32"))
    te_case("float32", lambda x: x / 4.0, values, values / 4)


def test_te_keeps_not_a_number() -> None:
    values = np.array([np.nan, 0.0, 2.0], "float32")
    pick = lambda x: tir.Select(tir.Not(x < 1), tir.const(1), tir.const(0))
    te_case("float32", pick, values, np.array([1, 0, 1], "int32"))


def test_te_wraps() -> None:
    unsigned = np.array([0, 1, 255], "uint8")
    te_case("uint8", lambda x: x - 1 < 5, unsigned, np.array([False, True, False]))
    te_case("uint8", lambda x: x > tir.const(-1, "uint8"), unsigned, np.array([False, False, False]))
    te_case("int8", lambda x: x + 1 > x, np.array([127, 0], "int8"), np.array([False, True]))
