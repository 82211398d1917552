"""``ir.build`` for CUDA: source, code and emulation of one program."""

from __future__ import annotations

import numpy as np
import pytest

import ir
from ir.codegen.build import build as build_for_cpu
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.program import CudaProgram
from ir.codegen.error import CodegenError
from ir.error import IRTypeError
from ir.script import tir as T
from ir.target import Target

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
