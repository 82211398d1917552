"""Schedules of nests whose loops, and the variables of whose blocks, count in int32 and in int64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ir.script import from_source
from ir.tir import PrimFunc
from ir.tir.analysis.verify_well_formed import verify_well_formed
from schedules import Schedule
from tests.schedules.checks import assert_same_meaning

PROGRAM = """@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32"), S: T.Buffer((4,), "int32")):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((4, 6), "int32")
    for i in range(T.ROW(4)):
        for j in range(T.COLUMN(6)):
            with T.block("B"):
                vi = T.axis.spatial(T.VI(4), T.Cast("VI", i))
                vj = T.axis.spatial(T.VJ(6), T.Cast("VJ", j))
                B[vi, vj] = A[vi, vj] * 2
    for i in range(T.ROW(4)):
        for j in range(T.COLUMN(6)):
            with T.block("C"):
                vi = T.axis.spatial(T.VI(4), T.Cast("VI", i))
                vj = T.axis.spatial(T.VJ(6), T.Cast("VJ", j))
                C[vi, vj] = B[vi, vj] + 1
    for i in range(T.ROW(4)):
        for k in range(T.COLUMN(6)):
            with T.block("S"):
                vi = T.axis.spatial(T.VI(4), T.Cast("VI", i))
                vk = T.axis.reduce(T.VJ(6), T.Cast("VJ", k))
                with T.init():
                    S[vi] = 0
                S[vi] = S[vi] + B[vi, vk]
"""
DTYPES = [
    # of the loops, then of the block variables
    ("int32", "int64", "int32", "int64"),
    ("int64", "int32", "int64", "int32"),
    ("int64", "int32", "int32", "int32"),
    ("int32", "int64", "int64", "int64"),
    ("int32", "int32", "int32", "int64"),
    ("int64", "int64", "int64", "int32"),
]


def program(dtypes: tuple[str, ...]) -> PrimFunc:
    text = PROGRAM
    for name, dtype in zip(("ROW", "COLUMN", "VI", "VJ"), dtypes, strict=True):
        text = text.replace(name, dtype)
    return from_source(text)


STEPS: dict[str, Callable[[Schedule], Any]] = {
    "cache_read": lambda sch: sch.cache_read("C", 0, "local"),
    "cache_write": lambda sch: sch.cache_write("B", 0, "local"),
    "cache_write of sums": lambda sch: sch.cache_write("S", 0, "local"),
    "fuse, cache_write": lambda sch: (sch.fuse(*sch.get_loops("C")), sch.cache_write("C", 0, "local")),
    "reindex_cache_read": lambda sch: sch.reindex_cache_read("S", 0, "local", lambda i, j: (j, i)),
    "reindex_cache_write": lambda sch: sch.reindex_cache_write("C", 0, "local", lambda i, j: i * 6 + j),
    "transform_block_layout": lambda sch: sch.transform_block_layout("C", lambda i, j: [j, i]),
    "transform_block_layout, joined": lambda sch: sch.transform_block_layout("C", lambda i, j: [i * 6 + j]),
    "transform_block_layout, padded": lambda sch: sch.transform_block_layout(
        "S", lambda i, j: [i, j // 4, j % 4]
    ),
    "pad_einsum": lambda sch: sch.pad_einsum("S", [3, 4]),
}


@pytest.mark.parametrize("dtypes", DTYPES, ids=" ".join)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_loops_of_several_types(step: Callable[[Schedule], Any], dtypes: tuple[str, ...]) -> None:
    func = program(dtypes)
    sch = Schedule(func, error_render_level="none")
    step(sch)
    verify_well_formed(sch.mod)
    assert_same_meaning(func, sch)
