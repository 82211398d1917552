"""Rewriting reaches all that a block says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ir.script import from_source
from schedules import Schedule

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
