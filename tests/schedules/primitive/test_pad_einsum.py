"""pad_einsum: structure, what it copies is stated around it, and the padding adds nothing."""

from __future__ import annotations

import pytest

from ir.script import from_source
from ir.script import tir as T
from schedules import Schedule
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning
from .test_decompose_padding import padded

odd_matmul = kernels.matmul(7, 6, 5)


def test_pad_einsum() -> None:
    @T.prim_func
    def expected(
        A: T.Buffer((7, 5), "float32"), B: T.Buffer((5, 6), "float32"), C: T.Buffer((7, 6), "float32")
    ):
        A_pad = T.alloc_buffer((8, 8))
        B_pad = T.alloc_buffer((8, 6))
        C_pad = T.alloc_buffer((8, 6))
        for i0, i1 in T.grid(8, 8):
            with T.block("A_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                A_pad[v0, v1] = T.if_then_else(v0 < 7 and v1 < 5, A[v0, v1], T.float32(0))
        for i0, i1 in T.grid(8, 6):
            with T.block("B_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                B_pad[v0, v1] = T.if_then_else(v0 < 5, B[v0, v1], T.float32(0))
        for i, j, k in T.grid(8, 6, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C_pad[vi, vj] = T.float32(0)
                C_pad[vi, vj] = C_pad[vi, vj] + A_pad[vi, vk] * B_pad[vk, vj]
        for i0, i1 in T.grid(7, 6):
            with T.block("C_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                C[v0, v1] = C_pad[v0, v1]

    sch = Schedule(odd_matmul)
    assert_refused(sch, lambda: sch.pad_einsum("C", [8, 8]), "pad_einsum", "'C'", "3 iteration variables")
    sch.pad_einsum("C", [8, 1, 8])
    assert_program(sch, expected)
    assert_same_meaning(odd_matmul, sch)
    assert_replays(sch, odd_matmul)
    maxima = Schedule(padded)
    assert_refused(maxima, lambda: maxima.pad_einsum("block", [16]), "'block'", "einsum")


def test_pad_einsum_of_a_symbolic_extent() -> None:
    @T.prim_func
    def before(a: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, T.int64(4)))
        C = T.match_buffer(c, (n,))
        for i, k in T.grid(n, T.int64(4)):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]

    sch = Schedule(before)
    sch.pad_einsum("C", [32, 1])
    text = sch.mod["main"].script()
    assert "A_pad = T.alloc_buffer(((n + T.int64(31)) // T.int64(32) * T.int64(32), T.int64(4)))" in text
    assert "T.if_then_else(v0 < n, A[v0, v1], T.float32(0))" in text
    assert "C[v0] = C_pad[v0]" in text
    assert_replays(sch, before)


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
