"""Copies of what nobody may have written: they take what a block reads for sure, or what one before it filled."""

from __future__ import annotations

import pytest

from ir.script import from_source
from schedules import Schedule

from ..checks import assert_refused, assert_same_meaning

PROGRAM = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((8,), "int32")
    for i in range(WRITTEN):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]
    for o in range(1):
        with T.block("O"):
            vo = T.axis.spatial(1, o)
            T.reads(B[0:8])
            T.writes(C[0:8])
            for i in range(8):
                with T.block("C"):
                    v = T.axis.spatial(8, i)
                    T.reads(B[v])
                    T.writes(C[v])
                    C[v] = VALUE
"""
CONDITIONAL = "T.if_then_else(v < 3, B[v], 0)"


def program(written: int, value: str) -> str:
    return PROGRAM.replace("WRITTEN", str(written)).replace("VALUE", value)


@pytest.mark.parametrize(("written", "value"), [(8, "B[v]"), (8, CONDITIONAL)])
def test_what_was_filled_is_copied(written: int, value: str) -> None:
    func = from_source(program(written, value))
    sch = Schedule(func)
    sch.cache_read("C", 0, "local")
    assert_same_meaning(func, sch)


def test_what_is_read_under_a_condition_is_not_known_to_be_written() -> None:
    sch = Schedule(from_source(program(3, CONDITIONAL)))
    assert_refused(sch, lambda: sch.cache_read("C", 0, "local"), "no block before block 'C' is known to fill")
