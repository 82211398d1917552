"""Programs that lowering for CUDA made, host and kernels: their threads leave what the scheduled blocks leave."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules import Schedule


def product(count: int) -> Schedule:
    """A product of matrices, bound to blocks of 4 x 4 threads that read tiles through shared memory."""
    a, b = te.placeholder((count, count), name="A"), te.placeholder((count, count), name="B")
    k = te.reduce_axis((0, count), "k")
    c = te.compute((count, count), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    block = sch.get_block("C")
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(loop, [None, 4]) for loop in sch.get_loops(block))
    sch.reorder(i0, j0, i1, j1, k0, k1)
    for loop, tag in ((i0, "blockIdx.y"), (j0, "blockIdx.x"), (i1, "threadIdx.y"), (j1, "threadIdx.x")):
        sch.bind(loop, tag)
    for operand in (0, 1):
        tile = sch.cache_read(block, operand, "shared")
        sch.compute_at(tile, k0)
        for loop, tag in zip(sch.get_loops(tile)[-2:], ("threadIdx.y", "threadIdx.x")):
            sch.bind(loop, tag)
    sch.reverse_compute_at(sch.cache_write(block, 0, "local"), j1)
    sch.decompose_reduction(block, k0)
    return sch


def test_tiles_through_shared_memory() -> None:
    a, b = (np.random.default_rng(seed).integers(-9, 9, (8, 8)).astype("float32") for seed in range(2))
    found = np.zeros((8, 8), "float32")
    run(lower(product(8).mod, "cuda"), a, b, found)
    assert (found == a @ b).all()


@pytest.mark.parametrize(
    ("rows", "threads", "axis"), [(3, 5, "x"), (2, 48, "x"), (2, 64, "x"), (4, 8, "y"), (3, 33, "y")]
)
def test_threads_share_a_reduction(rows: int, threads: int, axis: str) -> None:
    """Within a warp, between warps, and among threads that do not follow each other."""
    a = te.placeholder((rows, threads * 2), name="A")
    k = te.reduce_axis((0, threads * 2), "k")
    sch = Schedule(te.create_prim_func([a, te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), name="C")]))
    block = sch.get_block("C")
    row, column = sch.get_loops(block)
    each, shared = sch.split(column, [None, threads])
    sch.reorder(row, shared, each)
    sch.bind(shared, f"threadIdx.{axis}")
    sch.bind(row, "threadIdx.y" if axis == "x" else "threadIdx.x")
    values, found = (
        np.random.default_rng(0).integers(-9, 9, (rows, threads * 2)).astype("float32"),
        np.zeros(rows, "float32"),
    )
    run(lower(sch.mod, "cuda"), values, found)
    assert (found == values.sum(1)).all()
