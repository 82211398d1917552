"""What a guard keeps from being evaluated is not evaluated, conditions are evaluated once, indices that are data wrap."""

from __future__ import annotations

import numpy as np
import pytest

from ir import tir
from ir.codegen.build import build
from ir.registry import register_func
from ir.script import from_source
from ir.tir import interpreter

KINDS = pytest.mark.parametrize("kind", ["serial", "vectorized"])

#: Most are no places in 16 elements, and would be read a gigabyte away.
PLACES = np.array(
    [0, 1, 2, 3, 1 << 29, 1 << 28, 4, 5, 6, 7, 8, 9, 1 << 30, 1 << 30, 1 << 30, 1 << 30], "int32"
)
DIVISORS = np.array([1, 2, 3, 0, 0, 5, 6, 0] * 2, "int32")


def agree(source: str, *arrays: np.ndarray) -> None:
    """The interpreter and native code leave the same in all arrays."""
    func = from_source(f"@T.prim_func\n{source}")
    expected, native = [a.copy() for a in arrays], [a.copy() for a in arrays]
    interpreter.run(func, *expected)
    build(func)["main"](*native)
    for a, b in zip(expected, native, strict=True):
        np.testing.assert_array_equal(a, b)


@KINDS
@pytest.mark.parametrize(
    "condition",
    ["i < 12 and A[i] < 16 and B[A[i]] > 3", "not (A[i] >= 16 or B[A[i]] > 3)"],
    ids=["and", "or"],
)
def test_the_right_side_of_logic_is_guarded_by_the_left(condition: str, kind: str) -> None:
    for statement in (f"C[i] = {condition}", f"if {condition}: C[i] = True"):
        agree(
            f"""def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "bool")):
            for i in T.{kind}(16):
                {statement}""",
            PLACES,
            np.arange(16, dtype="int32"),
            np.zeros(16, "bool"),
        )


@KINDS
@pytest.mark.parametrize(
    "statement",
    [
        "C[i] = T.if_then_else(A[i] != 0, 100 // A[i], 7)",
        "C[i] = T.if_then_else(A[i] == 0, 7, T.truncmod(100, A[i]))",
        "C[i] = T.Cast('int32', A[i] != 0 and 100 // A[i] > 20)",
        "C[i] = T.if_then_else(A[i] != 0, A[100 // A[i] % 16], 3)",
    ],
    ids=["chosen", "otherwise", "logic", "index"],
)
def test_a_guarded_division_does_not_divide_by_zero(statement: str, kind: str) -> None:
    agree(
        f"""def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
        for i in T.{kind}(16):
            {statement}""",
        DIVISORS,
        np.zeros(16, "int32"),
    )


@KINDS
@pytest.mark.parametrize(
    "condition", ["N[0] != 0 and i % N[0] == 0", "not (N[0] == 0 or i % N[0] != 0)", "n != 0 and i % n == 0"]
)
@pytest.mark.parametrize("divisor", [0, 3])
def test_one_condition_guards_all_lanes(condition: str, divisor: int, kind: str) -> None:
    source = f"""def main(n: T.int32, N: T.Buffer((1,), "int32"), C: T.Buffer((2, 16), "int32")):
        for i in T.{kind}(16):
            if {condition}:
                C[0, i] = 1
        for i in T.{kind}(16):
            C[1, i] = T.if_then_else({condition}, 5, 7)"""
    func = from_source(f"@T.prim_func\n{source}")
    result = np.zeros((2, 16), "int32")
    build(func)["main"](divisor, np.array([divisor], "int32"), result)
    holds = np.array([divisor != 0 and i % divisor == 0 for i in range(16)])
    np.testing.assert_array_equal(result, [holds, np.where(holds, 5, 7)])


@KINDS
def test_a_guarded_statement_does_not_divide_by_zero(kind: str) -> None:
    agree(
        f"""def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
        for i in T.{kind}(16):
            if A[i] != 0:
                C[i] = 100 // A[i]""",
        DIVISORS,
        np.zeros(16, "int32"),
    )


@KINDS
@pytest.mark.parametrize(
    "condition",
    [
        "A[i] != 0 and T.if_then_else(i > 2, 12 // A[i], 5) > 3",
        "A[i] == 0 or T.if_then_else(i > 2, 12 // A[i], 5) > 3",
        "B[0] != 0 and T.if_then_else(i > 2, 12 // B[0], 5) > 3",
        "n != 0 and T.if_then_else(i > 2, 12 // n, 5) > 3",
        "n == 0 or T.if_then_else(B[1] >= 0, 12 // n, 5) > 3",
        "n != 0 and T.if_then_else(B[1] >= 0, 12 // n, 5) > 3",
    ],
)
def test_a_choice_guards_its_sides_only_where_it_is_made_itself(condition: str, kind: str) -> None:
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
    for i in T.{kind}(16):
        if {condition}:
            B[i] = 7
"""
    )
    expected, native = np.zeros(16, "int32"), np.zeros(16, "int32")
    interpreter.run(func, DIVISORS, expected, 0)
    build(func)["main"](DIVISORS, native, 0)
    np.testing.assert_array_equal(native, expected)


@KINDS
def test_a_condition_holds_for_all_that_it_guards(kind: str) -> None:
    agree(
        f"""def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
        for i in T.{kind}(16):
            if A[i] > 2:
                A[i] = 0
                C[i] = 1
            else:
                A[i] = 9""",
        np.arange(16, dtype="int32"),
        np.zeros(16, "int32"),
    )


def test_a_condition_with_an_effect_is_evaluated_once() -> None:
    calls = []

    @register_func("tests.guards.next", override=True)
    def number(i: int) -> int:
        calls.append(i)
        return len(calls)

    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        C[i] = T.if_then_else(T.call_packed("tests.guards.next", i, dtype="int32") % 2 == 0, A[i], B[i])
"""
    )
    a, b, c = np.arange(8, dtype="int32"), -np.arange(8, dtype="int32"), np.zeros(8, "int32")
    build(func)["main"](a, b, c)
    assert calls == list(range(8))
    np.testing.assert_array_equal(c, [0, 1, -2, 3, -4, 5, -6, 7])


def test_a_call_with_an_effect_is_evaluated_as_often_as_it_stands_there() -> None:
    calls = []

    @register_func("tests.guards.count", override=True)
    def number() -> int:
        calls.append(None)
        return len(calls)

    buffer = tir.decl_buffer((1,), "int32", "A")
    call = tir.Call("int32", "tir.tvm_call_packed", ("tests.guards.count",))
    store = tir.BufferStore(buffer, tir.bitwise_or(call * 16, call), [tir.const(0)])  # one object, twice
    handle = tir.Var("a", "handle")
    out = np.zeros(1, "int32")
    build(tir.PrimFunc([handle], store, buffer_map={handle: buffer}))["main"](out)
    assert out[0] == 18 and len(calls) == 2


@KINDS
@pytest.mark.parametrize(
    ("dtype", "index", "data"),
    [
        ("uint8", "A[i]", np.arange(200, 216)),
        (
            "int32",
            "T.Cast('int32', (T.Cast('uint32', A[i]) * T.uint32(1640531527)) // T.uint32(268435456)) + 16",
            np.arange(100, 116) * 123457,
        ),
        ("int64", "T.Cast('int32', A[i])", np.arange(16) * ((1 << 32) + 1)),
        ("int32", "T.max(T.min(A[i] + 2147483632, 31), 0)", np.arange(16)),
    ],
    ids=["unsigned", "wraps", "narrowed", "extremes"],
)
def test_an_index_may_be_data(dtype: str, index: str, data: np.ndarray, kind: str) -> None:
    for statement in (f"C[i] = B[{index}]", f"if A[i] % 3 == 0: C[i] = B[{index}]"):
        agree(
            f"""def main(A: T.Buffer((16,), "{dtype}"), B: T.Buffer((256,), "int32"), C: T.Buffer((16,), "int32")):
            for i in T.{kind}(16):
                {statement}""",
            data.astype(dtype),
            np.arange(256, dtype="int32"),
            np.zeros(16, "int32"),
        )
