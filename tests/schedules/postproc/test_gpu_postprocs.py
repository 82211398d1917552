"""Postprocessors for GPUs and for constant operands: threads, shared copies, limits, layouts."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from ir.tir import IndexMap, PrimFunc
from ir.tir.kernel_attributes import LAYOUT_REWRITE_MAPS
from ir.transform import PassContext
from schedules import Schedule, ScheduleError
from schedules.layout_rewrite import split_weight_packing
from schedules.postproc import (
    DisallowAsyncStridedMemCopy,
    Postproc,
    PyPostproc,
    RewriteCooperativeFetch,
    RewriteLayout,
    RewriteParallelVectorizeUnroll,
    RewriteReductionBlock,
    RewriteUnboundBlock,
    VerifyGPUCode,
    VerifyVTCMLimit,
    postprocess,
)
from schedules.space import PostOrderApply
from tests.programs.expressions import elementwise, matmul, matmul_bias, softmax

from ..checks import assert_replays, assert_same_meaning, main_of
from ..rule.test_multi_level_tiling import GPU, steps
from ..rule_contract import TARGET


def apply(postproc: Postproc, sch: Schedule, target: Target = GPU) -> bool:
    """Whether a candidate is valid for a postprocessor."""
    postproc.initialize(target)
    return postproc.apply(sch)


def test_unbound_blocks_are_bound() -> None:
    sch = Schedule(elementwise())
    assert apply(RewriteUnboundBlock(), sch)
    assert steps(sch) == ["Fuse", "Split", "Bind", "Bind"] * 2
    assert [int(sch.get(loop).extent) for loop in sch.get_loops("C")] == [1, 512]
    assert_same_meaning(elementwise(), sch)
    assert_replays(sch, elementwise())
    before = sch.mod.script()
    assert apply(RewriteUnboundBlock(), sch) and sch.mod.script() == before


def test_threads_fill_a_shared_copy_together() -> None:
    sch = Schedule(matmul(32))
    i, j, k = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    copy = sch.cache_read("C", 1, "shared")
    sch.compute_at(copy, k, preserve_unit_loops=True)
    copy_loops = sch.get_loops(copy)[-2:]
    sch.fuse(*copy_loops)
    sch.annotate(copy, "meta_schedule.cooperative_fetch", 1)
    assert apply(RewriteCooperativeFetch(), sch)
    loops = [sch.get(loop) for loop in sch.get_loops(copy)]
    assert [int(loop.extent) for loop in loops] == [32, 32, 32, 1, 32]
    assert loops[-1].thread_binding is not None and loops[-1].thread_binding.thread_tag == "threadIdx.x"
    assert "meta_schedule.cooperative_fetch" not in sch.get(copy).annotations


def test_the_default_space_of_a_gpu() -> None:
    func = matmul(64)
    (sketch,) = PostOrderApply().generate_sketches(func, GPU)
    results = []
    for row in sketch.sample(24, np.random.default_rng(0)):
        sch = sketch.materialize(func, row)
        results.append(postprocess(sch, GPU))
        loops = [sch.get(loop) for loop in sch.get_loops("B_shared")]
        tags = [loop.thread_binding.thread_tag for loop in loops if loop.thread_binding is not None]
        assert tags == ["blockIdx.x", "vthread.x", "threadIdx.x", "threadIdx.x"]
    assert len(results) == 24 and all(results)


def test_a_shared_reduction_keeps_its_initialisation() -> None:
    sch = Schedule(softmax())
    sch.bind(sch.get_loops("S")[1], "threadIdx.x")
    assert apply(RewriteReductionBlock(), sch)
    script = sch.mod.script()
    assert "M_init" in script and "S_init" not in script


@pytest.mark.parametrize(
    ("threads", "notes", "valid"),
    [
        (256, {}, True),
        (2048, {}, False),
        (256, {"meta_schedule.thread_extent_low_inclusive": 512}, False),
        (256, {"meta_schedule.thread_extent_high_inclusive": 128}, False),
    ],
)
def test_limits_of_a_gpu(threads: int, notes: dict[str, int], valid: bool) -> None:
    sch = Schedule(elementwise(64, 64))
    for name in ("B", "C"):
        outer, inner = sch.split(sch.fuse(*sch.get_loops(name)), [None, threads])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
        for key, value in notes.items():
            sch.annotate(sch.get_block(name), key, value)
    assert apply(VerifyGPUCode(), sch) is valid


@pytest.mark.parametrize(
    ("option", "fewer", "enough"),
    [
        ("max_block_size_x", 16, 32),
        ("max_block_size_y", 2, 4),
        ("max_block_size_z", 1, 2),
        ("max_vthread_extent", 1, 2),
        ("max_local_memory_per_block", 2047, 2048),
    ],
)
def test_facts_of_a_gpu_are_limits(option: str, fewer: int, enough: int) -> None:
    sch = Schedule(elementwise(64, 64))
    loops = sch.split(sch.fuse(*sch.get_loops("C")), [None, 2, 2, 4, 32])
    axes = ("blockIdx.x", "vthread.x", "threadIdx.z", "threadIdx.y", "threadIdx.x")
    for loop, axis in zip(loops, axes, strict=True):
        sch.bind(loop, axis)
    sch.set_scope("B", 0, "local")
    sch.compute_at("B", loops[0], preserve_unit_loops=True)
    for limit, valid in ((fewer, False), (enough, True)):
        assert apply(VerifyGPUCode(), sch, Target(f"cuda -arch=sm_80 -{option}={limit}")) is valid


@pytest.mark.parametrize(
    ("axis", "blocks", "valid"), [("y", 65535, True), ("z", 65536, False), ("x", 65536, True)]
)
def test_launches_have_so_many_blocks_along_an_axis(axis: str, blocks: int, valid: bool) -> None:
    """As code generation says: where it would refuse a kernel, no candidate is proposed."""
    sch = Schedule(elementwise(blocks, 1))
    sch.compute_inline("B")
    sch.bind(sch.get_loops("C")[0], f"blockIdx.{axis}")
    assert apply(VerifyGPUCode(), sch) is valid


def test_tightly_coupled_memory_is_limited() -> None:
    sch = Schedule(matmul(32))
    copy = sch.cache_read("C", 0, "global.vtcm")
    del copy
    assert apply(VerifyVTCMLimit(), sch, TARGET)
    for capacity, valid in ((1024, False), (4096, True)):
        with PassContext(config={"tir.vtcm_capacity": capacity}):
            assert apply(VerifyVTCMLimit(), sch, TARGET) is valid


@pytest.mark.parametrize(("width", "valid"), [(16, True), (8, False)])
def test_asynchronous_copies_are_contiguous(width: int, valid: bool) -> None:
    @T.prim_func
    def staged(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")) -> None:
        B = T.alloc_buffer((8, 16), scope="global")
        for i in range(4):
            for a, j in T.grid(2, 16):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    va = T.axis.spatial(8, i * 2 + a)
                    B[va, vj] = A[va, vj]
            for a, j in T.grid(2, 16):
                with T.block("C"):
                    va = T.axis.spatial(8, i * 2 + a)
                    vj = T.axis.spatial(16, j)
                    C[va, vj] = B[va, vj] + T.float32(1)

    sch = Schedule(staged)
    outer, _, inner = sch.get_loops("B")
    if width < 16:
        # half of each row per round: rows of a piece are apart
        sch = Schedule(halves())
        outer = sch.get_loops("B")[0]
    sch.annotate(outer, "software_pipeline_stage", [0, 1])
    sch.annotate(outer, "software_pipeline_order", [0, 1])
    sch.annotate(outer, "software_pipeline_async_stages", [0])
    del inner
    assert apply(DisallowAsyncStridedMemCopy(), sch) is valid


def halves() -> PrimFunc:
    """Copies of two rows, half a row at a time."""

    @T.prim_func
    def staged(A: T.Buffer((2, 16), "float32"), C: T.Buffer((2, 16), "float32")) -> None:
        B = T.alloc_buffer((2, 16), scope="global")
        for h in range(2):
            for a, j in T.grid(2, 8):
                with T.block("B"):
                    va = T.axis.spatial(2, a)
                    vj = T.axis.spatial(16, h * 8 + j)
                    B[va, vj] = A[va, vj]
            for a, j in T.grid(2, 8):
                with T.block("C"):
                    va = T.axis.spatial(2, a)
                    vj = T.axis.spatial(16, h * 8 + j)
                    C[va, vj] = B[va, vj] + T.float32(1)

    result: PrimFunc = staged
    return result


def tiled_with_free_weight() -> tuple[PrimFunc, Schedule]:
    """A product whose second operand is free, in tiles."""
    func = matmul(16).with_attr("layout_free_buffers", [1])
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [2, 8])
    k0, k1 = sch.split(k, [4, 4])
    sch.reorder(i, j0, k0, k1, j1)
    return func, sch


def test_a_free_operand_is_stored_in_the_order_of_the_loops() -> None:
    func, sch = tiled_with_free_weight()
    assert apply(RewriteLayout(), sch, TARGET)
    kernel = main_of(sch)
    assert_same_meaning(func, sch)
    assert_replays(sch, func)
    packed = split_weight_packing(kernel)
    index_map = packed.attrs[LAYOUT_REWRITE_MAPS][1]
    assert isinstance(index_map, IndexMap)
    assert [int(item) for item in index_map.map_indices([5, 11])] == [1, 1, 1, 3]  # j0, k0, k1, j1
    before = sch.mod.script()
    assert apply(RewriteLayout(), sch, TARGET) and sch.mod.script() == before


def test_operands_in_order_and_in_windows_stay() -> None:
    func = matmul(16).with_attr("layout_free_buffers", [0])
    sch = Schedule(func)
    before = sch.mod.script()
    assert apply(RewriteLayout(), sch, TARGET) and sch.mod.script() == before

    a = te.placeholder((20,), "float32", name="A")
    w = te.reduce_axis((0, 5), name="w")
    window = te.create_prim_func([a, te.compute((16,), lambda i: te.sum(a[i + w], axis=w), name="B")])
    sch = Schedule(window.with_attr("layout_free_buffers", [0]))
    before = sch.mod.script()
    assert apply(RewriteLayout(), sch, TARGET) and sch.mod.script() == before


def test_operands_whose_tiles_are_read_in_order_stay() -> None:
    sch = Schedule(matmul(16).with_attr("layout_free_buffers", [1]))
    i, j, k = sch.get_loops("C")
    sch.reorder(i, *sch.split(k, [4, 4]), j)
    before = sch.mod.script()
    assert apply(RewriteLayout(), sch, TARGET) and sch.mod.script() == before


def test_operands_of_which_tiles_leave_out_a_part_stay() -> None:
    sch = Schedule(matmul(12).with_attr("layout_free_buffers", [1]))
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i, j0, k, j1)
    before = sch.mod.script()
    assert apply(RewriteLayout(), sch, TARGET) and sch.mod.script() == before


def test_annotations_of_the_root_block_reach_every_nest() -> None:
    sch = Schedule(matmul_bias(8, 32, 8))
    root = sch.get_block("root")
    sch.annotate(root, "meta_schedule.parallel", 64)
    sch.annotate(root, "meta_schedule.vectorize", 32)
    sch.annotate(root, "meta_schedule.unroll_explicit", 16)
    assert apply(RewriteParallelVectorizeUnroll(), sch, TARGET)
    script = sch.mod.script()
    assert script.count("T.parallel(8") == 2
    assert script.count("T.vectorized(32)") == 1  # the other nest ends with its reduction
    assert script.count('"pragma_auto_unroll_max_step": 16') == 2
    assert "meta_schedule" not in script
    assert_same_meaning(matmul_bias(8, 32, 8), sch)
    assert_replays(sch, matmul_bias(8, 32, 8))


def test_postprocessors_by_name_of_a_target() -> None:
    names = {
        kind: [type(item).__name__ for item in Postproc.create(kind)] for kind in ("cuda", "hexagon", "llvm")
    }
    assert names["cuda"] == [
        "DisallowDynamicLoop",
        "RewriteCooperativeFetch",
        "RewriteUnboundBlock",
        "RewriteParallelVectorizeUnroll",
        "RewriteReductionBlock",
        "VerifyGPUCode",
    ]
    assert names["hexagon"][-2:] == ["RewriteLayout", "VerifyVTCMLimit"]
    assert "RewriteParallelVectorizeUnroll" in names["llvm"]
    with pytest.raises(ScheduleError, match="'abacus'"):
        Postproc.create("abacus")

    class Mine(PyPostproc):
        def apply(self, sch: Schedule) -> bool:
            return False

    assert not apply(Mine(), Schedule(elementwise()))


def test_a_program_of_which_the_host_runs_a_part_is_not_valid() -> None:
    x = te.placeholder((64, 64), name="x")
    y = te.compute((64, 64), lambda i, j: x[i, j] + 1, name="y")
    sch = Schedule(te.create_prim_func([x, te.compute((64, 64), lambda i, j: y[i, j] * 2, name="z")]))
    assert not apply(VerifyGPUCode(), sch)
    for name in ("y", "z"):
        outer, inner = sch.get_loops(sch.get_block(name))
        assert not apply(VerifyGPUCode(), sch)
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
    assert apply(VerifyGPUCode(), sch)


AROUND = [
    "if {}[0] > 0:\n",
    "while {}[0] > B[7]:\n",
    "with T.LetStmt({}[0]) as x:\n",
    "with T.block('around'):\n        T.where({}[0] > 0)\n        T.reads(A[0:8])\n        T.writes(B[0:8])\n",
]


@pytest.mark.parametrize("around", AROUND)
def test_what_is_evaluated_around_threads_reads_no_memory(around: str) -> None:
    program = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    AROUND        for i in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
"""
    reading = from_source(program.replace("AROUND", around.format("A")))
    assert not apply(VerifyGPUCode(), Schedule(reading))
    if "B[7]" not in around:
        known = from_source(
            program.replace("AROUND", around.format("A").replace("A[0] ", "n ").replace("A[0])", "n)"))
        )
        assert apply(VerifyGPUCode(), Schedule(known))


@pytest.mark.parametrize("init", [True, False])
def test_an_initialization_around_threads_is_the_host_s(init: bool) -> None:
    begin = "        with T.init():\n            B[0] = 0\n" if init else ""
    program = f"""@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    with T.block("around"):
        T.reads(A[0:8])
        T.writes(B[0:8])
{begin}        for i in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
"""
    assert apply(VerifyGPUCode(), Schedule(from_source(program))) is not init


@pytest.mark.parametrize(("scope", "valid"), [("global", True), ("local", False), ("shared", False)])
def test_kernels_share_global_memory_only(scope: str, valid: bool) -> None:
    y = te.placeholder((64,), name="x")
    for name in ("y", "z"):
        y = te.compute((64,), lambda i, last=y: last[63 - i] + 1, name=name)
    sch = Schedule(te.create_prim_func([y.op.input_tensors[0].op.input_tensors[0], y]))
    sch.set_scope("y", 0, scope)
    for name in ("y", "z"):
        sch.bind(sch.get_loops(name)[0], "threadIdx.x")
    assert apply(VerifyGPUCode(), sch) is valid


@pytest.mark.parametrize(
    ("scope", "valid"), [("shared", True), ("local", False), ("warp", False), ("global", True)]
)
def test_threads_read_of_their_own_memory_what_they_wrote(scope: str, valid: bool) -> None:
    """In a kernel, memory of the device that its blocks allocate is shared memory."""
    x = te.placeholder((128,), name="x")
    y = te.compute((128,), lambda i: x[i] + 1, name="y")
    sch = Schedule(
        te.create_prim_func([x, te.compute((128,), lambda i: y[i // 64 * 64 + 63 - i % 64], name="z")])
    )
    blocks, threads = sch.split(sch.get_loops("z")[0], [2, 64])
    sch.bind(blocks, "blockIdx.x")
    sch.compute_at("y", blocks)
    sch.set_scope("y", 0, scope)
    for loop in (threads, sch.get_loops("y")[-1]):
        sch.bind(loop, "threadIdx.x")
    assert apply(VerifyGPUCode(), sch) is valid


def in_dynamic_memory(size: int, alignment: int, barriers: int) -> PrimFunc:
    """A kernel that asks for shared memory at its launch, beside barriers that it declares."""

    @T.prim_func
    def main(A: T.Buffer((32,), "uint8"), B: T.Buffer((32,), "uint8")):
        S = T.alloc_buffer((size,), "uint8", scope="shared.dyn", align=alignment)
        for _ in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("turn"):
                    v = T.axis.spatial(32, t)
                    T.reads(A[v])
                    T.writes(B[v])
                    T.evaluate(T.create_barriers(barriers))
                    S[v] = A[v]
                    S[size - 32 + v] = A[v]
                    T.tvm_storage_sync("shared")
                    B[v] = S[31 - v] + S[size - 1 - v]

    return main


@pytest.mark.parametrize(
    ("left", "alignment", "barriers", "fits"),
    [
        (0, 16, 0, True),
        (-16, 16, 0, False),
        (16, 16, 2, True),
        (16, 16, 3, False),  # of 8 bytes each
        (1024, 1024, 1, True),
        (512, 1024, 1, False),  # it begins behind a whole multiple of its alignment
    ],
)
def test_dynamic_memory_lies_behind_what_a_kernel_declares(
    left: int, alignment: int, barriers: int, fits: bool
) -> None:
    size = GPU.max_shared_memory_per_block_optin - left
    assert apply(VerifyGPUCode(), Schedule(in_dynamic_memory(size, alignment, barriers))) == fits
