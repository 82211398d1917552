"""Rewriting reaches all that a block says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ir import tir
from ir.script import from_source
from ir.tir.stmt_functor import substitute, variables_in
from schedules import Schedule
from schedules.rewriting import rewrite_inside

from .checks import assert_same_meaning

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
