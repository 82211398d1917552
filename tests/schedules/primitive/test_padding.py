"""pad_einsum: what it copies is stated around it, and the padding adds nothing. decompose_padding: loops that say more than a variable."""

from __future__ import annotations

import pytest

from ir.script import from_source
from schedules import Schedule
from tests.schedules.checks import assert_refused, assert_same_meaning

INSIDE = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((8, 6), "int32"), B: T.Buffer((6, 6), "int32"), C: T.Buffer((8, 6), "int32")):
    for i in range(8):
        with T.block("o"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:6], B[0:6, 0:6])
            T.writes({writes})
            for j, k in T.grid(6, 6):
                with T.block("x"):
                    vj, vk = T.axis.remap("SR", [j, k])
                    with T.init():
                        C[vi, vj] = 0
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
            {rest}
"""


def test_what_is_copied_inside_of_a_block_is_stated_around_it() -> None:
    original = from_source(INSIDE.format(writes="C[vi, 0:6]", rest=""))
    sch = Schedule(original)
    sch.pad_einsum("x", [1, 4])
    assert_same_meaning(original, sch)


def test_what_others_write_meanwhile_is_no_input_to_be_copied_whole() -> None:
    rest = """for j in range(6):
                with T.block("y"):
                    vj = T.axis.spatial(6, j)
                    A[vi, vj] = 0"""
    sch = Schedule(from_source(INSIDE.format(writes="C[vi, 0:6], A[vi, 0:6]", rest=rest)))
    assert_refused(sch, lambda: sch.pad_einsum("x", [1, 4]), "whole buffers are padded")


SUM = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, 5), "float16"), C: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 5):
        with T.block("r"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                C[v] = T.float32(0)
            C[v] = C[v] + {product}
"""


@pytest.mark.parametrize(
    "product",
    [
        'T.Cast("float32", A[v, w]) * T.float32("inf")',
        'T.Cast("float32", A[v, w]) * T.float32("nan")',
        'T.Cast("float32", A[v, w]) * T.Cast("float32", T.float16("inf"))',
        'T.float32("-inf") * (T.float32(2) * T.Cast("float32", A[v, w]))',
    ],
)
def test_the_padding_is_not_multiplied_by_infinity(product: str) -> None:
    sch = Schedule(from_source(SUM.format(product=product)))
    assert_refused(sch, lambda: sch.pad_einsum("r", [1, 4]), "might be infinite")


@pytest.mark.parametrize(
    "product",
    [
        'T.Cast("float32", A[v, w]) * T.float32(3)',
        'T.Cast("float32", A[v, w]) * T.float32(-3) * T.Cast("float32", A[v, w])',
    ],
)
def test_the_padding_may_be_multiplied_by_numbers(product: str) -> None:
    original = from_source(SUM.format(product=product))
    sch = Schedule(original)
    sch.pad_einsum("r", [1, 4])
    assert_same_meaning(original, sch)


SHIFTS = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((5,), "int32"), B: T.Buffer((5,), "int32"), C: T.Buffer((5,), "int32")):
    for i in range(5):
        with T.block("x"):
            v = T.axis.spatial(5, i)
            C[v] = {value}
"""


@pytest.mark.parametrize(
    "value", ["T.shift_left(A[v], v * 7)", "T.shift_right(A[v], B[v] - 1)", "T.pow(A[v], v - 5)"]
)
def test_the_padding_computes_nothing_that_has_no_value(value: str) -> None:
    """Shifts by 32 and more are undefined, also where nobody wants the result."""
    sch = Schedule(from_source(SHIFTS.format(value=value)))
    assert_refused(sch, lambda: sch.pad_einsum("x", [8]), "pad_einsum", "may have no value in the padding")


@pytest.mark.parametrize("value", ["T.shift_left(A[v], 3)", "T.pow(A[v], 2)"])
def test_the_padding_may_be_shifted_by_numbers_of_the_program(value: str) -> None:
    original = from_source(SHIFTS.format(value=value))
    sch = Schedule(original)
    sch.pad_einsum("x", [8])
    assert_same_meaning(original, sch)


FRAME = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((8, 20), "int32"), C: T.Buffer((10, 20), "int32")):
    for i in range(10):
        for j in {inner}:
            with T.block("x"):
                v = T.axis.spatial(10, i)
                w = T.axis.spatial(20, {bound})
                C[v, w] = T.if_then_else(1 <= v and v < 9, A[v - 1, w], 0)
"""


@pytest.mark.parametrize(
    ("inner", "bound"),
    [
        ("range(1)", "i"),
        ("range(10)", "i + j"),
        ("range(i + 1)", "j"),
        ("range(i, 10)", "j"),
        ("range(20)", "j"),
    ],
)
def test_a_loop_that_says_more_than_one_variable_is_not_cut(inner: str, bound: str) -> None:
    """It ran from 0 for what its variable has at 1, and the other variables, or loops, with it."""
    original = from_source(FRAME.format(inner=inner, bound=bound))
    sch = Schedule(original)
    sch.decompose_padding("x", sch.get_loops("x")[0])
    assert_same_meaning(original, sch)
