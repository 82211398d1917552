"""Simplify with the analyzer: conditions around, assertions, bound values, and the options of the pass."""

from typing import Any

import numpy as np
import pytest

import ir
from ir import tir
from ir.registry import register_func
from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc
from ir.tir.interpreter import run


def simplified(func: PrimFunc, **options: bool) -> PrimFunc:
    with ir.transform.PassContext(config={"tir.Simplify": options}):
        found = tir.transform.Simplify()(ir.IRModule({"main": func}))["main"]
    assert isinstance(found, PrimFunc)
    return found


def test_conditions_around_decide_those_inside() -> None:
    @T.prim_func(private=True)
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        if n < 10:
            if n < 20:
                A[0] = T.if_then_else(n < 15, 1, 2)
            else:
                A[0] = 3
        else:
            if n < 5:
                A[1] = 4
        assert n > 3, "large enough"
        if n > 2:
            A[2] = T.max(n, 1)

    @T.prim_func(private=True)
    def after(A: T.Buffer((64,), "int32"), n: T.int32):
        if n < 10:
            A[0] = 1
        assert 3 < n, "large enough"
        A[2] = n

    ir.assert_structural_equal(simplified(before), after)


def test_pure_integers_are_inlined_and_loads_are_not() -> None:
    @T.prim_func(private=True)
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        x: T.int32 = n + 1
        y: T.int32 = A[0]
        A[1] = x + y - n

    @T.prim_func(private=True)
    def after(A: T.Buffer((64,), "int32"), n: T.int32):
        y: T.int32 = A[0]
        A[1] = y + 1

    ir.assert_structural_equal(simplified(before), after)


def test_an_element_stored_to_itself_is_no_store() -> None:
    @T.prim_func(private=True)
    def before(A: T.Buffer((64,), "int32")):
        for i in range(16):
            A[i * 2 // 2] = A[i]
            A[i + 16] = A[i]

    @T.prim_func(private=True)
    def after(A: T.Buffer((64,), "int32")):
        for i in range(16):
            A[i + 16] = A[i]

    ir.assert_structural_equal(simplified(before), after)


@pytest.mark.parametrize("chained", [False, True])
def test_inequalities_are_chained_on_request(chained: bool) -> None:
    @T.prim_func(private=True)
    def before(A: T.Buffer((64,), "int32"), i: T.int32, j: T.int32, k: T.int32):
        if i < j and j < k:
            if i < k:
                A[0] = 1

    found = simplified(before, transitively_prove_inequalities=chained).script()
    assert ("if i < k" not in found) is chained


def changed_through(body: str, header: str = "") -> PrimFunc:
    """What a condition said of ``A[0]`` no longer holds behind what changes it: ``B[0]`` stays as it is."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({{"tir.noalias": True}})
    with T.block("root"):
        {header or "T.reads()"}
        if A[0] > 0:
            {body}
            if A[0] > 0:
                B[0] = 7
""")


@pytest.mark.meaning("load-known", "view")
@pytest.mark.parametrize(
    ("body", "header"),
    [
        ("A[0] = -1", ""),
        ("V[0] = -1", "V = T.match_buffer(A[0:4], (4,), 'int32')"),
        ("T.evaluate(T.call_packed('test.simplify.negate', A.data))", ""),
    ],
)
def test_what_a_condition_said_ends_where_memory_changes(body: str, header: str) -> None:
    register_func("test.simplify.negate", negate_first, override=True)
    func = changed_through(body, header)
    for program in (func, simplified(func)):
        a, b = np.ones(8, "int32"), np.zeros(8, "int32")
        run(program, a, b)
        assert a[0] == -1 and b[0] == 0


def negate_first(array: Any) -> None:
    array[0] = -array[0]


@pytest.mark.parametrize(
    "value",
    [
        "T.Select(i > 0, T.if_then_else(i != 0, 5 // i, 1), 2)",
        "T.Select(i < 7, T.if_then_else(i < 7, A[i + 1], 1), 2)",
        "T.Select(i >= 7, 2, T.if_then_else(i < 7, A[i + 1], 1)) + i",
    ],
)
def test_sides_of_a_select_stay_defined_where_they_are_not_chosen(apply, value: str) -> None:
    """Both are evaluated: what guards one may not go because the other one is taken then."""
    before = from_source(f"""@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = {value}
""")
    given, expected, found = np.arange(8, dtype="int32"), np.zeros(8, "int32"), np.zeros(8, "int32")
    run(before, given, expected)
    run(apply(tir.transform.Simplify(), before), given, found)
    np.testing.assert_array_equal(found, expected)
