"""interleave: what becomes of statements, loops and buffers of parallel iterations, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.population.sketch import Sketch, SketchSchedule

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning

ROWS = """@T.prim_func
def main(A: T.Buffer((8, 9), "int32"), B: T.Buffer((8, 9), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("sums"):
            T.reads(A[0:8, 0:9])
            T.writes(B[0:8, 0:9])
            for i in {rows}:
                with T.block("row"):
                    T.reads(A[i, 0:9])
                    T.writes(B[i, 0:9])
                    s = T.alloc_buffer((1,), "int32", scope="local")
                    s[0] = 0
                    for k in {columns}:
                        s[0] = s[0] + A[i, k]
                        B[i, k] = s[0]
"""

TOGETHER = """@T.prim_func
def main(A: T.Buffer((8, 9), "int32"), B: T.Buffer((8, 9), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("sums"):
            T.reads(A[0:8, 0:9])
            T.writes(B[0:8, 0:9])
            for i_0 in T.parallel(2):
                with T.block("row"):
                    T.reads(A[0:8, 0:9])
                    T.writes(B[0:8, 0:9])
                    s = T.alloc_buffer((4, 1), "int32", scope="local")
                    for i_1 in T.unroll(4):
                        s[i_1, 0] = 0
                    for k in range(9):
                        for i_1 in T.unroll(4):
                            s[i_1, 0] = s[i_1, 0] + A[i_0 * 4 + i_1, k]
                        for i_1 in T.unroll(4):
                            B[i_0 * 4 + i_1, k] = s[i_1, 0]
"""


def rows(parallel: str = "T.parallel(8)", columns: str = "range(9)") -> PrimFunc:
    return from_source(ROWS.format(rows=parallel, columns=columns))


def changed(old: str, new: str) -> PrimFunc:
    text = ROWS.format(rows="T.parallel(8)", columns="range(9)")
    assert old in text
    return from_source(text.replace(old, new))


def test_rows_share_their_loops() -> None:
    sch = Schedule(rows())
    (loop,) = sch.get_loops(sch.get_block("row"))
    group = sch.interleave(loop, 4)
    assert sch.get(group).extent.value == 2
    assert_program(sch, from_source(TOGETHER))
    assert_replays(sch, rows())
    assert_same_meaning(rows(), sch)


@pytest.mark.parametrize(
    ("program", "factor", "message"),
    [
        (rows("range(8)"), 4, "loop 'i' is not parallel"),
        (rows("T.parallel(1, 8)"), 7, "does not begin at 0"),
        (rows(), 3, "3 does not divide the extent 8 of loop 'i'"),
        (rows(), 0, "0 does not divide"),
        (rows(columns="range(i + 1)"), 4, "no loop in block 'row' runs alike for all iterations of 'i'"),
        (rows(columns="T.vectorized(8)"), 4, "no loop in block 'row' runs alike"),
        (
            changed("alloc_buffer((1,)", "alloc_buffer((i + 1,)"),
            4,
            "buffer s in block 'row' has another shape",
        ),
        (
            changed(
                "B[i, k] =",
                't = T.decl_buffer((1,), "int32", data=s.data, scope="local")\n' + " " * 24 + "t[0] =",
            ),
            4,
            "block 'row' uses s by another name",
        ),
    ],
)
def test_refusals(program: PrimFunc, factor: int, message: str) -> None:
    sch = Schedule(program)
    (loop,) = sch.get_loops(sch.get_block("row"))
    assert_refused(sch, lambda: sch.interleave(loop, factor), "interleave", message)


def test_regions_of_rows_of_several_lengths_are_those_of_all() -> None:
    sch = Schedule(changed("T.reads(A[i, 0:9])", "T.reads(A[0, 0:i + 2])"))
    (loop,) = sch.get_loops(sch.get_block("row"))
    sch.interleave(loop, 4)
    (read,) = sch.get(sch.get_block("row")).reads
    assert str(read) == "A[0, 0:9]"


def test_an_open_factor_must_divide_the_extent_in_all_candidates() -> None:
    func = rows(columns="range(6)")
    sch = SketchSchedule(func, seed=0)
    loop = sch.get_loops(sch.get_block("row"))[0]
    six = sch.sample_categorical([3, 6], [0.5, 0.5])
    assert_refused(sch, lambda: sch.interleave(loop, six), "interleave", "does not divide the extent 8")
    jobs, factor = sch.sample_perfect_tile(loop, 2)
    sch.interleave(loop, factor)
    for row in Sketch(sch).sample(4, np.random.default_rng(0)):
        assert_same_meaning(func, Sketch(sch).materialize(func, row))


def test_blocks_with_variables_are_refused() -> None:
    program = from_source(
        """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in T.parallel(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2
"""
    )
    sch = Schedule(program)
    (loop,) = sch.get_loops(sch.get_block("B"))
    assert_refused(
        sch,
        lambda: sch.interleave(loop, 4),
        "interleave",
        "does not hold one block without iteration variables",
    )


STATEMENTS = (
    "s[0] = s[0] * 2 + {i}",
    "s[0] = s[0] + A[{i}, k]",
    "B[{i}, k] = s[0]",
    "if A[{i}, k] > 0:\n{pad}    s[0] = s[0] - A[{i}, k]",
    "for m in range({i} % 3):\n{pad}    s[0] = s[0] + m",
    "for m in range(s[0] % 3):\n{pad}    s[0] = s[0] + m",
    "for m in range(k + 1):\n{pad}    s[0] = s[0] + A[{i}, m]",
    "B[{i}, k] = B[{i}, k] + s[0] // 3",
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4),
    st.lists(st.sampled_from(STATEMENTS), max_size=2),
    st.sampled_from([1, 2, 4, 8]),
)
def test_any_statements_keep_their_meaning(first: list[str], second: list[str], factor: int) -> None:
    def loop(statements: list[str]) -> str:
        pad = " " * 24
        body = "\n".join(pad + item.format(i="i", pad=pad) for item in statements)
        return f"{' ' * 20}for k in range(9):\n{body}\n" if statements else ""

    template = re.sub(r"reads\(A\[(.*?), 0:9\]\)", r"reads(A[\1, 0:9], B[\1, 0:9])", ROWS)
    head = template.format(rows="T.parallel(8)", columns="range(9)").split("                    for k in")[0]
    clear = f"{' ' * 20}for k in range(9):\n{' ' * 24}B[i, k] = 0\n"
    program = from_source(head + clear + loop(first) + loop(second))
    sch = Schedule(program)
    (row,) = sch.get_loops(sch.get_block("row"))
    sch.interleave(row, factor)
    assert_replays(sch, program)
    assert_same_meaning(program, sch)
