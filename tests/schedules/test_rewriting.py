"""Rewriting reaches all that a block says."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from ir import tir
from ir.codegen.build import build
from ir.script import from_source
from ir.tir import PrimFunc
from ir.tir.stmt_functor import substitute, variables_in
from schedules import Schedule
from schedules.rewriting import rewrite_inside

from .checks import arrays_for, assert_same_meaning, outputs_of

COUNTED = """@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    I = T.alloc_buffer((1,), "int32")
    with T.block("I"):
        T.reads()
        T.writes(I[0])
        I[0] = 5
    for i in range(I[0]):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(C[vi])
            C[vi] = A[vi] * 2.0
"""


@pytest.mark.parametrize(
    "step",
    [
        lambda sch: sch.cache_read("C_o", 1, "global"),
        lambda sch: sch.transform_layout("I", ("write", 0), lambda i: [i // 2, i % 2]),
    ],
    ids=["cache_read", "transform_layout"],
)
def test_the_domain_of_a_block_inside_reads_as_the_rest_does(step: Callable[[Schedule], object]) -> None:
    """What ``blockize`` makes of the loop has its extent, which is loaded, as a domain."""
    func = from_source(COUNTED)
    sch = Schedule(func)
    sch.blockize(sch.get_loops("C")[0])
    step(sch)
    assert_same_meaning(func, sch)


ROWS = """@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    for i in range(8):
        with T.block("O"):
            {row}
            T.reads(A[v, 0:8])
            T.writes(C[v, 0:8])
            {declared}
            for j in range(v + 1):
                with T.block("I"):
                    u = T.axis.spatial(8, v)
                    w = T.axis.spatial(8, j)
                    {store}
            for j in range(v + 1):
                with T.block("J"):
                    u = T.axis.spatial(8, v)
                    w = T.axis.spatial(8, j)
                    C[u, w] = D[u - w] * 2
"""
DECLARED = {
    "allocated": ('D = T.alloc_buffer((v + 1,), "int32")', "D[w] = A[u, w]"),
    "matched": ('D = T.match_buffer(A[v, 0:v + 1], (v + 1,), "int32")', "C[u, w] = 0"),
}
OF_LOOPS: dict[str, Callable[[Schedule], object]] = {
    "split": lambda sch: sch.split(sch.get_loops("O")[0], [None, 4]),
    "fuse": lambda sch: sch.fuse(*sch.split(sch.get_loops("O")[0], [None, 3])),
    "loop_partition": lambda sch: sch.loop_partition(sch.get_loops("O")[0], [3, None]),
}
OF_BLOCKS: dict[str, Callable[[Schedule], object]] = {
    "blockize": lambda sch: sch.blockize(sch.split(sch.get_loops("O")[0], [None, 4])[1]),
    "blockize all": lambda sch: sch.blockize(sch.get_loops("O")[0]),
    "transform_block_layout": lambda sch: sch.transform_block_layout("O", lambda i: [7 - i]),
}


def _rows(declared: str, *, opaque: bool) -> PrimFunc:
    """Rows of a triangle, each with a buffer as long as it is: by a variable of the block, or by the loop around it."""
    buffer, store = DECLARED[declared]
    text = ROWS.format(
        row="pass" if opaque else "v = T.axis.spatial(8, i)", declared=buffer, store=store
    ).replace("pass\n            ", "")
    return from_source(re.sub(r"\bv\b", "i", text) if opaque else text)


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize(
    ("step", "opaque"),
    [(step, True) for step in OF_LOOPS.values()] + [(step, False) for step in OF_BLOCKS.values()],
    ids=[*OF_LOOPS, *OF_BLOCKS],
)
def test_a_buffer_as_long_as_a_variable_says_stays_one_buffer(
    step: Callable[[Schedule], object], opaque: bool, declared: str
) -> None:
    """Blocks that do not know the variable used the old buffer, whose extent nothing says, and views showed nothing of their source."""
    func = _rows(declared, opaque=opaque)
    sch = Schedule(func)
    step(sch)
    assert_same_meaning(func, sch)
    arrays = arrays_for(func)
    expected = outputs_of(func, arrays)
    build(sch.mod, "cpu")["main"](*arrays)
    np.testing.assert_array_equal(arrays[1], expected[1])


def test_a_domain_that_a_variable_of_the_block_around_says_is_divided_with_it() -> None:
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    for i in range(8):
        with T.block("O"):
            v = T.axis.spatial(8, i)
            T.reads(A[v, 0:8])
            T.writes(C[v, 0:8])
            for j in range(v + 1):
                with T.block("I"):
                    w = T.axis.spatial(v + 1, j)
                    C[v, w] = A[v, w] + 1
""")
    sch = Schedule(func)
    sch.blockize(sch.split(sch.get_loops("O")[0], [None, 4])[1])
    assert_same_meaning(func, sch)


NESTED = """@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    for i in range(4):
        with T.block("O"):
            vo = T.axis.spatial(4, i)
            T.reads(A[vo, 0:8])
            T.writes(C[vo, 0:8])
            for j in T.serial(vo, vo + 2):
                if vo > 1:
                    with T.block("N"):
                        vj = T.axis.spatial(T.max(vo, 8), j + vo)
                        T.where(j + vo < 8)
                        T.reads(A[vo, vj])
                        T.writes(C[vo, vj])
                        C[vo, vj] = A[vo, vj]
"""


def test_all_that_a_block_holds_is_rewritten() -> None:
    block = Schedule(from_source(NESTED))._block("O")
    old, new = block.iter_vars[0].var, tir.Var("w")
    rewrite_inside(block, lambda item: substitute(item, {old: new}))
    assert old not in variables_in(block.body.stmt()) and new in variables_in(block.body.stmt())
    stated = [index.min for region in (*block.reads, *block.writes) for index in region.region]
    assert old not in variables_in(*stated) and new in variables_in(*stated)
    assert block.iter_vars[0].var is old
