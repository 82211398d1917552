"""``ir.build`` for CUDA: source, code and emulation of one program."""

from __future__ import annotations

import numpy as np
import pytest

import ir
from ir import IRModule, te
from ir.codegen.build import build as build_for_cpu
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.program import CudaProgram
from ir.codegen.error import CodegenError
from ir.error import IRTypeError
from ir.script import tir as T
from ir.target import Target
from schedules import Schedule

A100 = Target("nvidia/nvidia-a100")


@T.prim_func
def sums(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    with T.block("root"):
        total = T.alloc_buffer((4,))
        for i in T.thread_binding(4, thread="blockIdx.x"):
            for k in T.thread_binding(64, thread="threadIdx.x"):
                with T.block("total"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        total[vi] = T.float32(0)
                    total[vi] = total[vi] + A[vi, vk]
        for i in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = total[vi] * B[vi]


def test_a_function_becomes_a_program_of_kernels_and_a_host() -> None:
    program = ir.build(sums, A100)
    assert isinstance(program, CudaProgram)
    assert list(program.kernels.kernels) == ["sums_kernel", "sums_kernel1"]
    assert [var.name_hint for var in program.hosts.functions] == ["sums"]
    source = program.source()
    assert "__shfl" in source and 'extern "C" __global__ void __launch_bounds__(64) sums_kernel(' in source
    with pytest.raises(ValueError, match='"cuda" and "ptx"'):
        program.source("sass")


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
@pytest.mark.parametrize("seed", [0, 7])
def test_the_program_runs_on_the_cpu(seed: int) -> None:
    a, b = np.random.default_rng(0).integers(-9, 9, (4, 64)).astype("float32"), np.arange(4, dtype="float32")
    found = np.zeros(4, "float32")
    ir.build(sums, A100).emulate()(a, b, found, name="sums", seed=seed)
    np.testing.assert_array_equal(found, a.sum(1) * b)


def test_code_of_an_architecture() -> None:
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    program = ir.build(sums, A100)
    assert ".target sm_80" in program.source("ptx")
    usage = program.resources["sums_kernel"]
    assert usage.spill_store_bytes == 0 and usage.registers > 0 and not program.code.warnings


def test_the_target_in_force_decides() -> None:
    with A100:
        assert isinstance(ir.build(sums), CudaProgram)
    with pytest.raises(IRTypeError, match="no option 'unroll'"):
        ir.build(sums, A100, unroll=False)


def test_the_build_for_cpus_says_where_to_go() -> None:
    with pytest.raises(CodegenError, match=r"ir\.build\(func, target\) builds for CUDA"):
        build_for_cpu(sums, A100)


def test_of_a_schedule_the_program_is_built() -> None:
    with pytest.raises(IRTypeError, match="got Schedule; its program is .mod"):
        ir.build(Schedule(sums), A100)  # type: ignore[arg-type]


def _doubled(extent: int, inner: int, blocks: str, threads: str) -> IRModule:
    x = te.placeholder((extent,), name="x")
    sch = Schedule(te.create_prim_func([x, te.compute((extent,), lambda i: x[i] + x[i], name="y")]))
    outer, rest = sch.split(sch.get_loops("y")[0], [None, inner])
    sch.bind(outer, blocks)
    sch.bind(rest, threads)
    return sch.mod


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((8192, 128, "blockIdx.x", "threadIdx.z"), "128 iterations is bound to threadIdx.z, .* at most 64; .* threadIdx.x"),
        ((65536 * 32, 32, "blockIdx.y", "threadIdx.x"), "65536 iterations is bound to blockIdx.y, .* at most 65535"),
        ((65536 * 32, 32, "blockIdx.z", "threadIdx.x"), "65536 iterations is bound to blockIdx.z, .* at most 65535"),
    ],
)  # fmt: skip
def test_what_no_launch_starts_is_refused(arguments: tuple[int, int, str, str], says: str) -> None:
    """The driver says of it only that it does not accept an argument."""
    with pytest.raises(CodegenError, match=f"kernel main_kernel: .*{says}"):
        ir.build(_doubled(*arguments), A100)
    ir.build(_doubled(65535 * 64, 64, "blockIdx.y", "threadIdx.z"), A100)


def test_more_shared_memory_than_the_target_has_is_refused() -> None:
    x, y = (te.placeholder((n, 256), name=name) for n, name in ((64, "x"), (256, "y")))
    k = te.reduce_axis((0, 256), "k")
    product = te.compute((64, 256), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="z")
    sch = Schedule(te.create_prim_func([x, y, product]))
    i, j, _ = sch.get_loops("z")
    copy = sch.cache_read("z", 1, "shared")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.compute_at(copy, i)
    sch.bind(sch.split(sch.fuse(*sch.get_loops(copy)[1:]), [None, 256])[1], "threadIdx.x")
    with pytest.raises(
        CodegenError, match="has 262144 bytes of shared memory, the target's have at most 166912"
    ):
        ir.build(sch.mod, A100)


def test_a_program_that_is_bound_to_no_threads_is_refused() -> None:
    """Its source was an empty text."""
    x = te.placeholder((64,), name="x")
    func = te.create_prim_func([x, te.compute((64,), lambda i: x[i] + 1.0, name="y")])
    with pytest.raises(
        CodegenError, match="accesses y, which lies on the device; bind the loops .* blockIdx.x"
    ):
        ir.build(func, A100)
