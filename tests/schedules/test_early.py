"""What a primitive may not evaluate where the program would not: rule ``[early]``."""

from __future__ import annotations

import pytest

from ir import Range, tir
from ir.arith import Analyzer
from ir.script import from_source
from schedules import Schedule
from schedules.early import always_runs, may_be_undefined

I, N = tir.Var("i"), tir.Var("n")
A = tir.decl_buffer((8,), "int32", "A")


@pytest.mark.parametrize(
    ("expr", "is_undefined"),
    [
        (I * 3 - N, False),
        (tir.floordiv(I, 4), False),
        (tir.floordiv(8, I), True),  # i begins at 0
        (tir.floordiv(8, I + 1), False),
        (tir.floormod(N, I + 1), False),
        (tir.truncmod(I, N), True),  # of n nothing is known
        (tir.shift_left(1, I), False),
        (tir.shift_left(1, I - 1), True),
        (tir.shift_right(N, I * 8), True),  # up to 56
        (tir.shift_right(N, 3), False),
        (tir.shift_right(tir.floordiv(8, I), 3), True),
        (A[I], True),
        (tir.max(I, A[0]), True),
    ],
)
def test_what_is_not_defined_for_all_values(expr: tir.PrimExpr, is_undefined: bool) -> None:
    analyzer = Analyzer()
    analyzer.bind(I, Range(0, 8))
    assert may_be_undefined(expr, analyzer) == is_undefined


def test_what_is_shared_is_looked_at_once() -> None:
    expr: tir.PrimExpr = I
    for _ in range(200):
        expr = expr * expr + N
    found = may_be_undefined(expr, Analyzer())
    assert not found


PROGRAM = """@T.prim_func
def main(N: T.Buffer((1,), "int32"), A: T.Buffer((4, 8), "int32"), B: T.Buffer((4, 8), "int32")):
    for i in range(4):
        for j in range(EXTENT):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(WHERE)
                B[vi, vj] = VALUE
"""


@pytest.mark.parametrize(
    ("extent", "where", "value", "is_sure"),
    [
        ("8", "True", "A[vi, vj]", True),
        ("N[0]", "True", "A[vi, vj]", False),
        ("0", "True", "A[vi, vj]", False),
        ("8", "j < 7", "A[vi, vj]", False),
        ("8", "True", "T.if_then_else(vi > 1, A[vi, vj], 0)", False),
        ("8", "True", "T.Select(vi > 1, A[vi, vj], 0)", False),
        ("8", "True", "T.Cast('int32', vi > 1 and A[vi, vj] > 0)", False),
        ("8", "True", "T.max(A[vi, vj], 0)", True),
    ],
)
def test_which_blocks_run_in_every_iteration(extent: str, where: str, value: str, is_sure: bool) -> None:
    text = PROGRAM.replace("EXTENT", extent).replace("WHERE", where).replace("VALUE", value)
    sch = Schedule(from_source(text))
    block = sch._block("B")
    loop = sch._loop(sch.get_loops("B")[0])
    assert always_runs(block, loop) == is_sure


def test_loops_inside_of_a_block_count() -> None:
    text = PROGRAM.replace("EXTENT", "8").replace("WHERE", "True").replace("VALUE", "A[vi, vj]")
    for extent, is_sure in (("2", True), ("N[0]", False)):
        lines = text.rstrip().splitlines()
        body = f"                for k in range({extent}):\n                    B[vi, vj] = A[vi, vj] + k"
        sch = Schedule(from_source("\n".join([*lines[:-1], body, ""])))
        assert always_runs(sch._block("B"), sch._loop(sch.get_loops("B")[0])) == is_sure
