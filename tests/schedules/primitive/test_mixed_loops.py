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
FLAT = """@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((24,), "int32")
    for i in range(T.ROW(4)):
        for j in range(T.COLUMN(6)):
            with T.block("B"):
                vi = T.axis.spatial(T.VI(4), T.Cast("VI", i))
                vj = T.axis.spatial(T.VJ(6), T.Cast("VJ", j))
                B[vi * 6 + vj] = A[vi, vj] * 2 + T.Cast("int32", vi) * 3
    for k in range(T.COLUMN(24)):
        with T.block("C"):
            vk = T.axis.spatial(24, T.Cast("int32", k))
            C[vk // 6, vk % 6] = B[vk] + 1
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


def program(dtypes: tuple[str, ...], text: str = PROGRAM) -> PrimFunc:
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
    "rfactor": lambda sch: sch.rfactor(sch.split(sch.get_loops("S")[1], [None, 4])[1], 0),
    "loop_partition": lambda sch: sch.loop_partition(sch.get_loops("C")[0], [2, None]),
    "blockize": lambda sch: sch.blockize(sch.split(sch.get_loops("C")[1], [None, 3])[1]),
}
FLAT_STEPS: dict[str, Callable[[Schedule], Any]] = {
    "compute_at": lambda sch: sch.compute_at("B", sch.get_loops("C")[0]),
    "compute_at, uneven": lambda sch: sch.compute_at("B", sch.split(sch.get_loops("C")[0], [None, 5])[0]),
    "reverse_compute_inline": lambda sch: sch.reverse_compute_inline("C"),
    "transform_block_layout": lambda sch: sch.transform_block_layout("B", lambda i, j: [j, i]),
}


@pytest.mark.parametrize("dtypes", DTYPES, ids=" ".join)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_loops_of_several_types(step: Callable[[Schedule], Any], dtypes: tuple[str, ...]) -> None:
    func = program(dtypes)
    sch = Schedule(func, error_render_level="none")
    step(sch)
    verify_well_formed(sch.mod)
    assert_same_meaning(func, sch)


@pytest.mark.parametrize("dtypes", DTYPES, ids=" ".join)
@pytest.mark.parametrize("step", FLAT_STEPS.values(), ids=FLAT_STEPS)
def test_variables_of_several_types_in_one_index(
    step: Callable[[Schedule], Any], dtypes: tuple[str, ...]
) -> None:
    func = program(dtypes, FLAT)
    sch = Schedule(func, error_render_level="none")
    step(sch)
    from_source(sch.mod.script())
    assert_same_meaning(func, sch)


def test_a_guard_of_one_type_in_a_merged_loop_of_another() -> None:
    func = from_source("""@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    T.func_attr({"tir.noalias": True})
    for i in range(T.int64(4)):
        with T.block("B"):
            vi = T.axis.spatial(T.int64(4), i)
            B[vi] = 1
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            T.where(i * 2 + 1 < 7)
            C[vi] = A[vi]
""")
    sch = Schedule(func)
    sch.vectorize(sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0]))
    assert_same_meaning(func, sch)
