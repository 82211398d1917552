"""The analytical model of GPUs: what it counts, on kernels whose counts are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models import estimate_seconds
from cost_models.feature import PerStoreFeature, skeleton_of_schedule
from cost_models.gpu import Gpu, Kernel, gpu_seconds, kernels_of
from cost_models.gpu_accesses import conflicts, sectors_of
from ir import te, tir
from ir.script import from_source
from ir.target import Target
from ir.target.gpu_facts import WARP
from ir.tir import PrimFunc
from ir.tir import transform as passes
from ir.tir.analysis import verify_gpu_code
from ir.transform import Sequential
from schedules import Schedule
from schedules.population.extraction import Extraction
from schedules.population.skeleton import Access
from schedules.postproc import postprocess
from schedules.space import PostOrderApply
from schedules.tree import tree_of
from tests.programs.expressions import matmul

A100 = Target("nvidia/nvidia-a100")
GPUS = ("nvidia/nvidia-h200", "nvidia/nvidia-a100", "nvidia/geforce-rtx-4090", "nvidia/nvidia-t4")


def elementwise(
    index: Callable[[Any, Any], tuple[Any, Any]], size: int = 1024, dtype: str = "float32"
) -> PrimFunc:
    a = te.placeholder((size, size), dtype, name="A")
    return te.create_prim_func([a, te.compute((size, size), lambda i, j: a[index(i, j)] + 1.0, name="B")])


def kernel_of(sch: Schedule, target: Target = A100) -> Kernel:
    ((_, kernel),) = kernels_of(skeleton_of_schedule(sch), Gpu.of(target))
    return kernel


def by_rows(func: PrimFunc, threads: int = 256, block: str = "B") -> Schedule:
    """A block of threads for some neighbouring elements of a row."""
    sch = Schedule(func)
    i, j = sch.get_loops(block)[:2]
    outer, inner = sch.split(j, [None, threads])
    sch.bind(sch.fuse(i, outer), "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    return sch


@pytest.mark.parametrize(
    ("index", "dtype", "read"),
    [
        (lambda i, j: (i, j), "float32", 4),
        (lambda i, j: (i, j), "float64", 8),
        (lambda i, j: (i, j), "float16", 2),
        (lambda i, j: (j, i), "float32", 32),
        (lambda i, j: (i, j // 2), "float32", 2),
        (lambda i, j: (i, 0), "float32", 1),
    ],
    ids=["rows", "doubles", "halves", "columns", "pairs", "one"],
)
def test_a_warp_asks_for_sectors(index: Any, dtype: str, read: int) -> None:
    """Of 32 bytes: adjacent floats of 32 threads are four, floats of different rows 32."""
    kernel = kernel_of(by_rows(elementwise(index, dtype=dtype)))
    written = 32 * np.dtype(dtype).itemsize / 32
    assert kernel.sectors[0] == 1024 * 1024 / 32 * (read + written)


def shared_reader(stride: int) -> Schedule:
    """A block of threads, each of which reads shared memory at a distance of its neighbours."""
    a = te.placeholder((32 * stride,), name="A")
    copy = te.compute((32 * stride,), lambda i: a[i], name="S")
    func = te.create_prim_func([a, te.compute((64, 32), lambda i, j: copy[j * stride], name="B")])
    sch = Schedule(func)
    sch.set_scope("S", 0, "shared")
    i, j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.compute_at("S", i)
    return sch


def test_banks_of_shared_memory_serve_one_word_at_a_time() -> None:
    """Neighbours at a distance of 32 words are all in one bank; at 33 none are in the same."""

    def cycles(stride: int) -> float:
        nests = skeleton_of_schedule(shared_reader(stride)).nests
        access = next(item for item in nests[-1].accesses if item.scope == "shared")
        return float(conflicts(access, np.ones(1))[0])

    assert [cycles(stride) for stride in (0 + 1, 2, 4, 16, 32, 33)] == [1, 2, 4, 16, 32, 1]


@pytest.mark.parametrize(("padding", "cycles"), [(0, 32), (1, 1), (2, 2)])
def test_a_tile_in_shared_memory_has_rows_of_its_own(padding: int, cycles: int) -> None:
    """Of 32 words, not of the tensor's 96, and of as many more as the copy's alignment asks for: columns of 32 words are one bank."""
    a = te.placeholder((96, 96), name="A")
    sch = Schedule(te.create_prim_func([a, te.compute((96, 96), lambda i, j: a[j, i], name="B")]))
    i, j = sch.get_loops("B")
    (i_out, i_in), (j_out, j_in) = sch.split(i, [3, 32]), sch.split(j, [3, 32])
    sch.reorder(i_out, j_out, i_in, j_in)
    grid = sch.fuse(i_out, j_out)
    threads = sch.fuse(i_in, j_in)
    sch.bind(grid, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    copy = sch.cache_read("B", 0, "shared")
    sch.compute_at(copy, threads)
    if padding:
        sch.storage_align(copy, 0, axis=0, factor=32, offset=padding)
    nests = skeleton_of_schedule(sch).nests
    access = next(item for item in nests[-1].accesses if item.scope == "shared")
    assert conflicts(access, np.ones(1)).tolist() == [cycles]
    assert kernel_of(sch).shared_bytes.tolist() == [32 * (32 + padding) * 4]


def in_vectors(lanes: int) -> Schedule:
    """A copy with an addition, of so many adjacent floats by each thread."""
    sch = Schedule(elementwise(lambda i, j: (i, j)))
    blocks, threads, elements = sch.split(sch.fuse(*sch.get_loops("B")), [None, 128, lanes])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    sch.vectorize(elements)
    return sch


@pytest.mark.parametrize(("lanes", "accesses"), [(1, 2), (2, 1), (4, 0.5), (8, 0.5), (16, 0.5)])
def test_a_vector_takes_one_instruction_for_sixteen_bytes(lanes: int, accesses: float) -> None:
    """Of each element one addition, and a load and a store that four floats share at most."""
    from cost_models.gpu import _work_of

    (nest,) = skeleton_of_schedule(in_vectors(lanes)).nests
    work = _work_of(nest, np.full(1, 128.0), 1, Gpu.of(A100))
    assert work.instructions.tolist() == [lanes * (1 + accesses) * 128 / 32]


def test_vectors_of_shared_memory_cross_sectors_and_banks() -> None:
    """Three floats of each thread, which begin eleven apart in device memory, and side by side in shared memory: 96 words."""
    from cost_models.gpu import _work_of

    a = te.placeholder((64, 352), name="A")
    copy = te.compute((96,), lambda k: a[0, k], name="S")
    value = te.compute((64, 32, 3), lambda i, j, v: a[i, j * 11 + v] + copy[j * 3 + v], name="B")
    sch = Schedule(te.create_prim_func([a, value]))
    sch.set_scope("S", 0, "shared")
    i, j, v = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.vectorize(v)
    sch.compute_at("S", i)
    nest = skeleton_of_schedule(sch).nests[-1]
    work = _work_of(nest, np.full(1, 32.0), 1, Gpu.of(A100))
    read = {(j * 11 + v) * 4 // 32 for j in range(32) for v in range(3)}
    assert work.shared_cycles.tolist() == [3] and work.sectors.tolist() == [len(read) + 96 * 4 // 32]


def test_a_tile_that_data_says_where_to_fill_is_whole() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((16, 32), "float32"), I: T.Buffer((32,), "int32"), B: T.Buffer((16, 32), "float32")):
    S = T.alloc_buffer((16, 32), "float32", scope="shared")
    for b in T.thread_binding(16, "blockIdx.x"):
        for t in T.thread_binding(32, "threadIdx.x"):
            with T.block("S"):
                vb, vt = T.axis.remap("SS", [b, t])
                S[vb, I[vt]] = A[vb, vt]
        for t in T.thread_binding(32, "threadIdx.x"):
            with T.block("B"):
                vb, vt = T.axis.remap("SS", [b, t])
                B[vb, vt] = S[vb, vt]
""")
    ((_, kernel),) = kernels_of(Extraction(tree_of(func.body)).evaluate({}, 1), Gpu.of(A100))
    assert kernel.shared_bytes.tolist() == [32 * 4]


def test_a_tile_that_two_blocks_write_is_there_once() -> None:
    a = te.placeholder((16, 32, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    sums = te.compute((16, 32), lambda i, j: te.sum(a[i, j, k], axis=k), name="S")
    sch = Schedule(te.create_prim_func([a, te.compute((16, 32), lambda i, j: sums[i, 31 - j], name="B")]))
    sch.set_scope("S", 0, "shared")
    i, j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.compute_at("S", i)
    sch.decompose_reduction("S", sch.get_loops("S")[1])
    assert kernel_of(sch).shared_bytes.tolist() == [32 * 4]


def test_a_vector_is_one_access() -> None:
    """Four adjacent floats of each thread ask for the sectors that single ones ask for; of eight, either half for all of them."""

    def kernel(lanes: int) -> Kernel:
        return kernel_of(in_vectors(lanes))

    assert kernel(4).sectors[0] == kernel(1).sectors[0] == kernel(8).sectors[0] / 2
    strided = Schedule(elementwise(lambda i, j: (j, i)))
    blocks, threads, elements = strided.split(strided.fuse(*strided.get_loops("B")), [None, 128, 4])
    strided.bind(blocks, "blockIdx.x")
    strided.bind(threads, "threadIdx.x")
    strided.vectorize(elements)
    assert kernel_of(strided).sectors[0] > 4 * kernel(4).sectors[0]  # what no vector reads at once


@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8])
@pytest.mark.parametrize("step", [0, 1, 2, 3, 4, 11, 16, 33])
def test_words_and_sectors_of_wide_accesses(step: int, element_bytes: int) -> None:
    """Of all bytes that the threads of a warp ask for at once: words that banks serve one after the other, and sectors."""
    lengths = [length for length in (1, 2, 3, 4, 8, 16) if length * element_bytes <= 32]
    ones = [np.ones(len(lengths), dtype=np.int64)]
    threads = np.tile(np.arange(WARP) * step, (len(lengths), 1))
    still = np.zeros((1, len(lengths)), dtype=np.int64)
    access = Access(0, "A", "shared", False, element_bytes, ones, still, still[None], warp=threads)
    words, sectors = [], []
    for length in lengths:
        first = np.arange(WARP) * step * element_bytes
        asked = {int(byte) for begin in first for byte in range(begin, begin + length * element_bytes)}
        banks = [word % 32 for word in {byte // 4 for byte in asked}]
        words.append(max(banks.count(bank) for bank in set(banks)))
        sectors.append(len({byte // 32 for byte in asked}))
    at_once = np.array(lengths, dtype=np.float64)
    assert conflicts(access, at_once).tolist() == words
    assert sectors_of(access, at_once).tolist() == sectors


def test_equal_words_are_read_once() -> None:
    a = te.placeholder((64,), name="A")
    copy = te.compute((64,), lambda i: a[i], name="S")
    sch = Schedule(te.create_prim_func([a, te.compute((64, 32), lambda i, j: copy[i] * 2.0, name="B")]))
    sch.set_scope("S", 0, "shared")
    i, j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    access = next(item for item in skeleton_of_schedule(sch).nests[-1].accesses if item.scope == "shared")
    assert conflicts(access, np.ones(1)).tolist() == [1]


@pytest.mark.parametrize(("threads", "blocks"), [(32, 32), (128, 16), (256, 8), (1024, 2)])
def test_occupancy_by_threads(threads: int, blocks: int) -> None:
    """An A100 holds 2,048 threads and 32 blocks on a multiprocessor."""
    kernel = kernel_of(by_rows(elementwise(lambda i, j: (i, j)), threads))
    assert kernel.occupancy.tolist() == [blocks] and kernel.threads.tolist() == [threads]


def test_occupancy_by_shared_memory() -> None:
    """164 KiB hold three blocks of 48 KiB."""
    a = te.placeholder((256, 96, 128), name="A")
    copy = te.compute((256, 96, 128), lambda b, i, j: a[b, i, j], name="S")
    func = te.create_prim_func([a, te.compute((256, 96, 128), lambda b, i, j: copy[b, 95 - i, j], name="B")])
    sch = Schedule(func)
    sch.set_scope("S", 0, "shared")
    b, i, j = sch.get_loops("B")
    sch.bind(b, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.compute_at("S", b)
    kernel = kernel_of(sch)
    assert kernel.shared_bytes.tolist() == [96 * 128 * 4] and kernel.occupancy.tolist() == [3]


@pytest.mark.parametrize("by_threads", [True, False])
def test_threads_and_loops_of_its_own_fill_a_tile(by_threads: bool) -> None:
    """Of 40 rows, whichever loops run a little beyond them, and of the columns that each thread fills for itself."""
    a = te.placeholder((16, 40, 128), name="A")
    copy = te.compute((16, 40, 128), lambda b, i, j: a[b, i, j], name="S")
    func = te.create_prim_func([a, te.compute((16, 40, 128), lambda b, i, j: copy[b, 39 - i, j], name="B")])
    sch = Schedule(func)
    b, i, j = sch.get_loops("B")
    sch.reorder(b, j, i)
    sch.bind(b, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.compute_at("S", j if by_threads else b)
    sch.set_scope("S", 0, "shared")
    rows = sch.get_loops("S")[2 if by_threads else 1]
    sch.split(rows, [None, 32])
    assert kernel_of(sch).shared_bytes.tolist() == [40 * 128 * 4]


@pytest.mark.parametrize(("results", "occupancy"), [(16, 5), (64, 2), (512, 1)])
def test_occupancy_by_registers(results: int, occupancy: int) -> None:
    """256 threads that keep so many results beside 32 addresses and operands, of 65,536 registers; no thread has more than 255."""
    a = te.placeholder((64, 256 * results), name="A")
    sch = Schedule(
        te.create_prim_func([a, te.compute((64, 256 * results), lambda i, j: a[i, j] + 1.0, name="B")])
    )
    copy = sch.cache_write("B", 0, "local")
    row, column = sch.get_loops("B")
    thread, _ = sch.split(column, [256, results])
    sch.bind(row, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.reverse_compute_at(copy, thread)
    kernel = kernel_of(sch)
    assert kernel.registers.tolist() == [32 + results] and kernel.occupancy.tolist() == [occupancy]


def test_a_wave_that_is_hardly_begun_takes_as_long_as_a_full_one() -> None:
    def seconds(blocks: int) -> float:
        a = te.placeholder((blocks, 1024), name="A")

        def chain(i: Any, j: Any) -> Any:
            value = a[i, j]
            for _ in range(60):
                value = tir.exp(value)
            return value

        func = te.create_prim_func([a, te.compute((blocks, 1024), chain, name="B")])
        return float(kernel_of(by_rows(func, 1024)).seconds[0])

    processors = A100.multi_processor_count
    less, full, more = (seconds(count) for count in (processors // 2, processors * 8, processors * 8 + 1))
    assert less < full and more > 1.03 * full


def test_blocks_that_wait_for_memory_wait_once_for_each_wave() -> None:
    """Each thread adds up the same numbers one by one: a block more than fit at a time waits for all of them again."""

    def seconds(blocks: int) -> float:
        a, k = te.placeholder((4096,), name="A"), te.reduce_axis((0, 4096), "k")
        func = te.create_prim_func([a, te.compute((blocks, 32), lambda b, t: te.sum(a[k], axis=k), name="B")])
        kernel = kernel_of(by_rows(func, 32))
        assert kernel.occupancy.tolist() == [32]
        return float(kernel.seconds[0])

    full = 32 * A100.multi_processor_count
    assert seconds(full + 1) > 1.5 * seconds(full)
    assert seconds(2 * full) < 1.5 * seconds(full + 1)


def test_results_beyond_the_registers_of_a_thread_go_to_memory_and_back() -> None:
    def seconds(results: int) -> float:
        """Of the same number of exponentials, so many for each thread."""
        rows = A100.multi_processor_count * 1024 // results
        a = te.placeholder((rows, 256 * results), name="A")

        def chain(i: Any, j: Any) -> Any:
            value = a[i, j]
            for _ in range(300):
                value = tir.exp(value)
            return value

        sch = Schedule(te.create_prim_func([a, te.compute((rows, 256 * results), chain, name="B")]))
        copy = sch.cache_write("B", 0, "local")
        row, column = sch.get_loops("B")
        thread, _ = sch.split(column, [256, results])
        sch.bind(row, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
        sch.reverse_compute_at(copy, thread)
        kernel = kernel_of(sch)
        assert kernel.occupancy.tolist() == [1]
        return float(kernel.seconds[0])

    assert seconds(512) > 3 * seconds(128)


def test_what_does_not_fit_the_second_cache_comes_again_from_memory() -> None:
    def seconds(index: Callable[[Any, Any], tuple[Any, Any]], l2_bytes: float) -> float:
        skeleton = skeleton_of_schedule(by_rows(elementwise(index, 4096)))
        ((_, kernel),) = kernels_of(skeleton, replace(Gpu.of(A100), l2_bytes=l2_bytes))
        return float(kernel.seconds[0])

    small, large = 1e6, 1e9
    # Each sector of a column is asked for by eight rows of threads; rows are asked for once.
    assert seconds(lambda i, j: (j, i), small) > 1.5 * seconds(lambda i, j: (j, i), large)
    assert seconds(lambda i, j: (i, j), small) == seconds(lambda i, j: (i, j), large)


def test_special_functions_have_fewer_units() -> None:
    def seconds(function: Callable[[Any], Any]) -> float:
        a = te.placeholder((64, 1024), name="A")

        def chain(i: Any, j: Any) -> Any:
            value = a[i, j]
            for _ in range(300):
                value = function(value)
            return value

        return float(
            kernel_of(by_rows(te.create_prim_func([a, te.compute((64, 1024), chain, name="B")]))).seconds[0]
        )

    assert seconds(tir.exp) > 2 * seconds(lambda value: value * 1.5)


@pytest.mark.parametrize("name", GPUS)
def test_arrays_and_programs_agree(name: str) -> None:
    """The estimate of a candidate as a row and as a program."""
    target = Target(name)
    func = matmul(256)
    sketch, *_ = PostOrderApply().generate_sketches(func, target)
    rows = sketch.sample(5, np.random.default_rng(0))
    found = estimate_seconds(sketch.skeleton(rows), target)
    for row, seconds in zip(rows, found, strict=True):
        program = skeleton_of_schedule(sketch.materialize(func, row))
        assert estimate_seconds(program, target) == pytest.approx([seconds])
    features = PerStoreFeature().features_of(sketch.skeleton(rows), target)
    np.testing.assert_allclose(features.prior_seconds(), found, rtol=1e-4)


@pytest.mark.parametrize("func", [matmul(256), elementwise(lambda i, j: (j, i), 192)])
def test_shared_memory_is_what_lowering_allocates(func: PrimFunc) -> None:
    """Of products, which keep tiles of both operands there, and of padded tiles of a transposition."""
    compacted = Sequential(
        [
            passes.LowerInitBlock(),
            passes.PlanAndUpdateBufferAllocationLocation(),
            passes.ConvertBlocksToOpaque(),
            passes.CompactBufferAllocation(),
        ]
    )
    target = Target(
        {**A100.export(), "max_shared_memory_per_block_optin": 48 << 10}
    )  # tiles of which threads copy even shares
    sketches = PostOrderApply().generate_sketches(func, target)
    sketch = [item for item in sketches if "RFactor" not in str(item.trace.as_json())][-1]
    rows = sketch.sample(8, np.random.default_rng(0))
    ((_, kernel),) = kernels_of(sketch.skeleton(rows), Gpu.of(A100))
    for row, expected in zip(rows, kernel.shared_bytes.tolist(), strict=True):
        sch = sketch.materialize(func, row)
        assert postprocess(sch, A100)
        lowered = compacted(sch.mod)
        assert expected > 0 and verify_gpu_code(lowered, {"max_shared_memory_per_block": int(expected)})
        assert not verify_gpu_code(lowered, {"max_shared_memory_per_block": int(expected) - 1})


@pytest.mark.parametrize("name", GPUS)
def test_products_are_tiled_for_reuse(name: str) -> None:
    """The best candidates ask the second-level cache for a fraction of what a quarter does, and come near the arithmetic units' limit."""
    target = Target(name)
    # The others leave the tiles of the last wave to all multiprocessors.
    sketch, *_ = PostOrderApply().generate_sketches(matmul(1024), target)
    assert "SeparateRest" not in str(sketch.trace.as_json())
    gpu = Gpu.of(target)
    rows = sketch.sample(2000, np.random.default_rng(0))
    ((_, kernel),) = kernels_of(sketch.skeleton(rows), gpu)
    best = np.argsort(kernel.seconds)[:20]
    assert np.median(kernel.sectors[best]) < 0.6 * np.quantile(kernel.sectors, 0.75)
    assert kernel.seconds[best].max() < np.median(kernel.seconds) / 2
    assert (kernel.threads[best] >= 32).all() and (kernel.blocks[best] >= gpu.multiprocessors / 4).all()
    least = 1024**3 / (gpu.multiprocessors * gpu.each.float32_lanes * gpu.hertz)
    assert least < kernel.seconds[best[0]] < 8 * least


def test_names_of_loops_mean_nothing() -> None:
    gpu = Gpu.of(A100)
    sketch = PostOrderApply().generate_sketches(matmul(64), A100)[0]
    apart = sketch.skeleton(sketch.sample(8, np.random.default_rng(0)))
    nests = [replace(nest, loops=[replace(loop, name="k") for loop in nest.loops]) for nest in apart.nests]
    alike = replace(apart, nests=nests)
    np.testing.assert_array_equal(sum(gpu_seconds(alike, gpu)), sum(gpu_seconds(apart, gpu)))


def test_what_nobody_binds_runs_on_one_thread() -> None:
    func = elementwise(lambda i, j: (i, j), 256)
    alone = sum(gpu_seconds(skeleton_of_schedule(Schedule(func)), Gpu.of(A100)))
    assert alone[0] > 20 * kernel_of(by_rows(func)).seconds[0]  # type: ignore[index]


def test_a_card_says_what_it_has() -> None:
    gpu = Gpu.of(Target("nvidia/geforce-rtx-4090"))
    assert (gpu.multiprocessors, gpu.each.float32_lanes, gpu.each.threads) == (128, 128, 1536)
    assert gpu.memory_bytes_per_second == 1008e9 and gpu.l2_bytes == 72 << 20
    assert Gpu.of(Target({"kind": "cuda", "multi_processor_count": 7, "clock_mhz": 900})).hertz == 9e8
