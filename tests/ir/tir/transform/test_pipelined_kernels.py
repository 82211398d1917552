"""Products of matrices whose loads run ahead of the sums: the passes for pipelines and copies together, in the interpreter's threads."""

import numpy as np
import pytest

from ir.script import tir as T
from ir.tir import transform as X
from ir.tir.interpreter import run
from ir.transform import Sequential
from schedules import Schedule

N = 32

LOWERING = Sequential(
    [
        X.KeepFloatOrder(),
        X.LowerInitBlock(),
        X.PlanAndUpdateBufferAllocationLocation(),
        X.PlaceThreadMemory(),
        X.ConvertBlocksToOpaque(),
        X.UnifyThreadBinding(),
        X.ManifestSharedMemoryLocalStage(),
        X.LowerMatchBuffer(),
        X.CompactBufferAllocation(),
        X.LowerAutoCopy(),
        X.InjectSoftwarePipeline(),
        X.LowerOpaqueBlock(),
        X.FlattenBuffer(),
        X.SimplifyIndices(),
        X.HoistIfThenElse(),
        X.VectorizeLoop(vector_bits=128),
        X.UniteMasks(),
        X.InjectVirtualThread(),
        X.UnrollLoop(expand=False, unroll_local_access=True),
        X.RemoveNoOp(),
        X.InjectPTXAsyncCopy(),
        X.ThreadSync("shared"),
    ]
)


@pytest.fixture(autouse=True)
def passes_keep_the_results():
    """Threads that share memory compute the same only when all passes have run."""


@T.prim_func
def matmul(A: T.Buffer((N, N), "float32"), B: T.Buffer((N, N), "float32"), C: T.Buffer((N, N), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(N, N, N):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def scheduled(stage, order, async_stages=(), marks=(), by_auto_copy=False):
    """Tiles of 16 by 16 for 32 threads; the loads of a step, eight wide, are the first two children of the loop that is annotated."""
    sch = Schedule(matmul)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, [2, 4, 4])
    j0, j1, j2 = sch.split(j, [2, 8, 2])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    for loop, axis in ((i0, "blockIdx.y"), (j0, "blockIdx.x"), (i1, "threadIdx.y"), (j1, "threadIdx.x")):
        sch.bind(loop, axis)
    sums = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(sums, j1)
    for position in (0, 1):
        copy = sch.cache_read(block, position, "shared")
        sch.compute_at(copy, k0)
        fused = sch.fuse(*sch.get_loops(copy)[-2:])
        if by_auto_copy:
            copy = sch.blockize(fused)
            sch.annotate(copy, "auto_copy", 1)
            sch.annotate(copy, "vector_bytes", 8)
        else:
            _, ty, tx, lanes = sch.split(fused, [None, 4, 8, 2])
            sch.bind(ty, "threadIdx.y")
            sch.bind(tx, "threadIdx.x")
            sch.vectorize(lanes)
        for mark in marks:
            sch.annotate(copy, mark, 0 if mark == "double_buffer_scope" else 1)
    sch.decompose_reduction(block, k0)
    sch.annotate(k0, "software_pipeline_stage", list(stage))
    sch.annotate(k0, "software_pipeline_order", list(order))
    if async_stages:
        sch.annotate(k0, "software_pipeline_async_stages", list(async_stages))
    return sch.mod


LOCAL = "tir.manifest_shared_memory_local_stage"
PIPELINES = {
    "two stages": {"stage": [0, 0, 1], "order": [0, 1, 2]},
    "loads behind the sums": {"stage": [0, 0, 1], "order": [1, 2, 0]},
    "asynchronous": {"stage": [0, 0, 1], "order": [0, 1, 2], "async_stages": [0]},
    "asynchronous, two steps ahead": {"stage": [0, 0, 2], "order": [0, 1, 2], "async_stages": [0]},
    "more stages than steps": {"stage": [0, 0, 6], "order": [0, 1, 2], "async_stages": [0]},
    "loads of both apart": {"stage": [0, 1, 3], "order": [0, 1, 2], "async_stages": [0, 1]},
    "by registers": {"stage": [0, 1, 0, 1, 2], "order": [0, 1, 2, 3, 4], "marks": [LOCAL]},
    "sums between": {
        "stage": [0, 0, 0, 0, 1],
        "order": [0, 3, 1, 4, 2],
        "marks": [LOCAL, "double_buffer_scope"],
    },
    "by all threads and registers": {
        "stage": [0, 1, 0, 1, 2],
        "order": [0, 1, 2, 3, 4],
        "marks": ["local_stage"],
        "by_auto_copy": True,
    },
    "by all threads": {"stage": [0, 0, 1], "order": [0, 1, 2], "async_stages": [0], "by_auto_copy": True},
}


def calls(mod):
    text = mod.script()
    return {name for name in ("ptx_cp_async", "ptx_commit_group", "ptx_wait_group") if name in text}


@pytest.mark.parametrize("name", list(PIPELINES))
def test_products(name):
    options = PIPELINES[name]
    lowered = LOWERING(scheduled(**options))
    a, b = (np.random.default_rng(seed).integers(-4, 5, (N, N)).astype("float32") for seed in (0, 1))
    c = np.zeros((N, N), "float32")
    run(lowered, a, b, c)

    np.testing.assert_array_equal(c, a @ b)
    assert len(calls(lowered)) == (3 if options.get("async_stages") else 0)


def test_two_versions_need_one_barrier_in_an_iteration():
    text = LOWERING(scheduled(**PIPELINES["sums between"])).script()

    assert text.count("T.tvm_storage_sync") == 2  # in the loop, and before the epilogue
