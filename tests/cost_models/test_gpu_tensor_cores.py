"""The analytical model of GPUs on tensor cores, on engines that copy, and on opaque blocks with loops of threads."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from cost_models import estimate_seconds
from cost_models.feature import skeleton_of_schedule
from cost_models.gpu import Gpu, Kernel, _work_of, kernels_of
from ir import te, topi
from ir.target import Target
from ir.target.tensor_core import TF32
from ir.tir import PrimFunc
from ir.tir.intrinsic.rounding import round_to_tf32
from schedules.population.skeleton import Nest, Skeleton
from schedules.population.sketch import Sketch
from schedules.space import PostOrderApply

H200, A100 = Target("nvidia/nvidia-h200"), Target("nvidia/nvidia-a100")
T4, RTX_4090 = Target("nvidia/nvidia-t4"), Target("nvidia/geforce-rtx-4090")
SUMS = {"float16": "float32", "bfloat16": "float32", TF32: "float32", "int8": "int32"}


def product(size: int, operand: str, index: str | None = None) -> PrimFunc:
    """Of a matrix and a transposed one."""
    dtype, sums = "float32" if operand == TF32 else operand, SUMS[operand]
    a, b = (te.placeholder((size, size), dtype, name=name) for name in "AB")
    k = te.reduce_axis((0, size), "k")

    def factor(value: Any) -> Any:
        return round_to_tf32(value) if operand == TF32 else value.astype(sums)

    c = te.compute((size, size), lambda i, j: te.sum(factor(a[i, k]) * factor(b[j, k]), axis=k), name="C")
    return te.create_prim_func([a, b, c], index_dtype_override=index)


@lru_cache(maxsize=8)
def sketches(size: int, operand: str, target: Target) -> list[Sketch]:
    return PostOrderApply().generate_sketches(product(size, operand), target)


def unit_of(skeleton: Skeleton) -> str:
    """What multiplies: "mma", "wmma", "wgmma", or "" for the arithmetic units."""
    return next((nest.tile.instruction for nest in skeleton.nests if nest.tile is not None), "")


@lru_cache(maxsize=8)
def best_seconds(size: int, operand: str, target: Target, rows: int = 200) -> dict[str, float]:
    """By what multiplies, of some candidates of each structure."""
    found: dict[str, float] = {}
    for sketch in sketches(size, operand, target):
        skeleton = sketch.skeleton(sketch.sample(rows, np.random.default_rng(0)))
        unit = unit_of(skeleton)
        found[unit] = min(found.get(unit, np.inf), float(estimate_seconds(skeleton, target).min()))
    return found


def least_seconds(size: int, operand: str, target: Target, unit: str) -> float:
    """By the peak of what multiplies, and by what matrices have to be moved."""
    each = target.multiprocessor
    rate = target.tensor_core_rate(operand, SUMS[operand], unit) if unit else each.float32_lanes
    bytes_moved = (
        size * size * (2 * (4 if operand == TF32 else np.dtype(operand.replace("b", "")).itemsize) + 4)
    )
    computed = size**3 / (target.multi_processor_count * target.clock_mhz * 1e6 * rate)
    return max(computed, bytes_moved / (target.memory_gb_per_s * 1e9))


@pytest.mark.parametrize(
    ("operand", "target", "size"),
    [
        ("float16", H200, 4096),
        ("int8", H200, 2048),
        ("float16", A100, 2048),
        (TF32, A100, 2048),
        ("float16", T4, 1024),
        ("bfloat16", RTX_4090, 2048),
    ],
    ids=lambda value: str(value.attrs.get("tag", value.arch)) if isinstance(value, Target) else str(value),
)
def test_tensor_cores_are_faster_by_what_their_peak_is_higher(
    operand: str, target: Target, size: int
) -> None:
    found = best_seconds(size, operand, target)
    peak = max(target.tensor_core_rate(operand, SUMS[operand], unit) for unit in ("mma", "wmma", "wgmma"))
    faster = found[""] / min(seconds for unit, seconds in found.items() if unit)
    more = peak / target.multiprocessor.float32_lanes
    assert more / 2 < faster < more * 6  # few candidates of the other units come near their peak
    for unit, seconds in found.items():
        assert seconds > least_seconds(size, operand, target, unit), unit


def test_groups_of_warps_are_the_best_on_hopper_for_what_fills_it() -> None:
    found = best_seconds(4096, "float16", H200)
    assert set(found) == {"", "wmma", "mma", "wgmma"}
    assert found["wgmma"] < min(found["mma"], found["wmma"]) / 1.2
    least = least_seconds(4096, "float16", H200, "wgmma")
    assert least < found["wgmma"] < 2.5 * least


def one_of(unit: str, size: int = 2048, operand: str = "float16", target: Target = H200) -> Skeleton:
    """A candidate that is multiplied so."""
    for sketch in sketches(size, operand, target):
        skeleton = sketch.skeleton(sketch.sample(1, np.random.default_rng(0)))
        if unit_of(skeleton) == unit:
            return skeleton
    raise AssertionError(f"no structure multiplies by {unit}")


def kernel_of(skeleton: Skeleton, target: Target = H200) -> Kernel:
    ((_, kernel),) = kernels_of(skeleton, Gpu.of(target))
    return kernel


def works(skeleton: Skeleton, target: Target = H200) -> list[tuple[Nest, Any]]:
    kernel = kernel_of(skeleton, target)
    gpu = Gpu.of(target)
    return [(nest, _work_of(nest, kernel.threads, skeleton.size, gpu)) for nest in skeleton.nests]


@pytest.mark.parametrize(
    ("unit", "count"), [("mma", "products"), ("wmma", "products"), ("wgmma", "group_products")]
)
def test_all_products_are_those_of_the_matrices(unit: str, count: str) -> None:
    """Each of them once, whichever tiles, warps and instructions there are."""
    skeleton = one_of(unit)
    blocks = kernel_of(skeleton).blocks[0]
    cycles = sum(getattr(work, count)[0] for _, work in works(skeleton))
    rate = H200.tensor_core_rate("float16", "float32", unit)
    assert cycles * blocks * rate == pytest.approx(2048**3)
    assert sum(work.arithmetic[0] for _, work in works(skeleton)) < 0.1 * cycles


@pytest.mark.parametrize("unit", ["mma", "wmma", "wgmma"])
def test_blocks_bring_both_operands_and_take_the_result_away(unit: str) -> None:
    """A block of m by n results asks for m rows, n columns and its results."""
    skeleton = one_of(unit)
    kernel = kernel_of(skeleton)
    found = kernel.sectors[0] * 32 - 2048 * 2048 * 4
    blocks = kernel.blocks[0]
    # m + n >= 2 * sqrt(m * n)
    assert found / blocks >= 2 * (2048 * 2048 / blocks) ** 0.5 * 2048 * 2 * 0.99
    assert kernel.unique_bytes[0] == 2048 * 2048 * (2 + 2 + 4)


@pytest.mark.parametrize("unit", ["mma", "wmma"])
def test_a_loop_over_warps_has_all_their_threads(unit: str) -> None:
    skeleton = one_of(unit)
    warps = {
        int(loop.extent[0]) for nest in skeleton.nests for loop in nest.loops if loop.mark == "threadIdx.y"
    }
    assert kernel_of(skeleton).threads[0] == 32 * max(warps)


def test_sums_of_a_group_of_warps_are_in_its_registers() -> None:
    """64 rows of n sums for 128 threads."""
    (nest,) = (nest for nest in one_of("wgmma").nests if nest.tile is not None)
    columns = int(nest.loops[-2].extent[0])
    assert kernel_of(one_of("wgmma")).registers[0] == 32 + columns / 2


def test_padded_rows_are_loaded_without_conflicts() -> None:
    """Eight rows of 16 bytes at a time are a cycle where rows begin in different banks, eight where they do not."""
    skeleton = one_of("mma", 2048, "float16", A100)
    loads = [(nest, work) for nest, work in works(skeleton, A100) if nest.tile and nest.tile.role == "load"]
    assert len(loads) == 2
    for nest, work in loads:
        loaded = float(nest.iterations()[0]) / kernel_of(skeleton, A100).blocks[0]
        assert work.shared_cycles[0] == pytest.approx(loaded * 2 / 128)
        (access,) = (item for item in nest.accesses if item.scope == "shared")
        assert access.warp is not None
        rows = np.arange(32)[None] // 4
        apart = replace(access, warp=access.warp - access.warp[:, 4:5] * rows + 64 * rows)
        crossed = replace(nest, accesses=[apart if item is access else item for item in nest.accesses])
        worse = _work_of(crossed, kernel_of(skeleton, A100).threads, 1, Gpu.of(A100))
        assert worse.shared_cycles[0] == pytest.approx(8 * work.shared_cycles[0])


def test_copies_that_are_begun_ahead_stop_nobody() -> None:
    """The same tiles, with asynchronous copies and without, where the stages' memory leaves as many blocks on a multiprocessor."""
    for sketch in sketches(2048, "float16", A100):
        skeleton = sketch.skeleton(sketch.sample(1000, np.random.default_rng(0)))
        if any(np.any(loop.ahead) for nest in skeleton.nests for loop in nest.loops):
            break
    else:
        raise AssertionError("no structure copies ahead")
    stopped = replace(
        skeleton,
        nests=[
            replace(nest, loops=[replace(loop, ahead=0) for loop in nest.loops]) for nest in skeleton.nests
        ],
    )
    kernels = [kernel_of(item, A100) for item in (skeleton, stopped)]
    same = kernels[0].occupancy == kernels[1].occupancy
    assert same.sum() > 20
    ahead, waiting = (kernel.seconds[same] for kernel in kernels)
    assert (ahead < waiting).all()
    alone = kernels[0].occupancy[same] == 1
    assert (waiting / ahead)[alone].max() > (waiting / ahead)[~alone].min()


def assert_rows_are_programs(sketch: Sketch, func: PrimFunc, rows: int) -> None:
    sampled = sketch.sample(rows, np.random.default_rng(0))
    found = estimate_seconds(sketch.skeleton(sampled), H200)
    for row, seconds in zip(sampled, found, strict=True):
        program = skeleton_of_schedule(sketch.materialize(func, row))
        assert estimate_seconds(program, H200) == pytest.approx([seconds])


def test_arrays_and_programs_agree() -> None:
    """Of all structures of a product."""
    for sketch in sketches(2048, "float16", H200):
        assert_rows_are_programs(sketch, product(2048, "float16"), 1)


def test_arrays_and_programs_of_wide_loops_agree() -> None:
    """Decisions are of int32, loops of int64."""
    func = product(256, "float16", "int64")
    for sketch in PostOrderApply().generate_sketches(func, H200):
        assert_rows_are_programs(sketch, func, 2)


def rows_of(kind: str) -> tuple[PrimFunc, int]:
    """A function of 128 rows of 4096 numbers, and the rows' bytes."""
    a = te.placeholder((128, 4096), "float32", name="A")
    result = topi.cumsum(a, 1) if kind == "cumsum" else topi.topk(a, 64, 1, "indices", False, "int32")
    return te.create_prim_func([a, result]), 128 * 4096 * 4


def by_threads(kind: str) -> list[tuple[Kernel, float]]:
    func, _ = rows_of(kind)
    found = []
    for sketch in PostOrderApply().generate_sketches(func, H200):
        skeleton = sketch.skeleton(
            np.zeros((1, 0), "int64") if kind == "topk" else sketch.sample(1, np.random.default_rng(0))
        )
        kernels = kernels_of(skeleton, Gpu.of(H200))
        if len(kernels) == 1 and kernels[0][1].blocks[0] == 128 and kernels[0][1].threads[0] >= 32:
            found.append((kernels[0][1], float(estimate_seconds(skeleton, H200)[0])))
    return found


@pytest.mark.parametrize("kind", ["cumsum", "topk"])
def test_threads_of_an_opaque_block_share_its_rows(kind: str) -> None:
    """No loop of a row counts as one around another; each element is read once, and it takes more than that takes, not a thousand times."""
    _, size = rows_of(kind)
    found = by_threads(kind)
    assert len(found) > 3
    least = size / (H200.memory_gb_per_s * 1e9)
    for _, seconds in found:
        assert least < seconds < 200e-6
    assert min(kernel.sectors[0] * 32 for kernel, _ in found) >= size
    assert len({kernel.threads[0] for kernel, _ in found}) > 1
