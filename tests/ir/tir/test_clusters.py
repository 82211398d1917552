"""Clusters of blocks: from an attribute of a function to its kernels, their source and their launches."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, tir
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.errors import LaunchError
from ir.codegen.cuda.program import build_cuda
from ir.codegen.error import CodegenError
from ir.error import IRValueError
from ir.script import from_source
from ir.target import Target
from ir.tir.interpreter import InterpreterError, run
from ir.tir.kernel_launch import is_kernel, kernel_launch
from ir.tir.lower import lower

HOPPER = Target("nvidia/nvidia-h200")


def program(dims: str, blocks: str = "8", shape: str = "64") -> tir.PrimFunc:
    return from_source(
        f"""
from ir.script import tir as T

@T.prim_func
def main(a: T.handle, n: T.int32):
    T.func_attr({{"tir.cluster_dims": {dims}}})
    A = T.match_buffer(a, ({shape},), "int32")
    bx = T.launch_thread("blockIdx.x", {blocks})
    tx = T.launch_thread("threadIdx.x", 8)
    A[bx * 8 + tx] = bx % 2 + tx
"""
    )


def test_kernels_have_the_attribute_of_their_function() -> None:
    lowered = lower(program("[2, 1, 1]"), HOPPER)
    (kernel,) = [func for func in lowered.functions.values() if is_kernel(func)]
    assert kernel_launch(kernel).cluster == (2, 1, 1)
    source = build_cuda(program("[2, 1, 1]"), HOPPER).source()
    assert "__launch_bounds__(8) __cluster_dims__(2, 1, 1) main_kernel(" in source
    assert "cluster" not in build_cuda(program("[1, 1, 1]"), HOPPER).source()


@pytest.mark.parametrize(
    ("dims", "blocks", "told"),
    [
        ("[3, 1, 1]", "8", "8 blocks along x are no whole clusters of 3"),
        ("[2, 2, 1]", "8", "1 blocks along y are no whole clusters of 2"),
        ("[16, 1, 1]", "16", "of 8 together at most"),
        ("[2, 1]", "8", "three numbers"),
        ("[0, 1, 1]", "8", "three numbers"),
    ],
)
def test_refusals(dims: str, blocks: str, told: str) -> None:
    with pytest.raises(IRValueError, match=told):
        lower(program(dims, blocks), HOPPER)


def test_targets_without_clusters_refuse_them() -> None:
    with pytest.raises(CodegenError, match="sm_80 has no clusters"):
        build_cuda(program("[2, 1, 1]"), Target("nvidia/nvidia-a100"))


def test_launches_are_of_whole_clusters() -> None:
    built = build_cuda(program("[4, 1, 1]", "n"), HOPPER)
    assert isinstance(built.module, IRModule)
    found = np.full(64, -1, "int32")
    run(built.module, found, 8)
    assert (found == np.arange(64) // 8 % 2 + np.arange(64) % 8).all()
    with pytest.raises(InterpreterError, match="6 blocks along x are no whole clusters of 4"):
        run(built.module, found, 6)


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
def test_the_emulation_runs_them() -> None:
    emulated = build_cuda(program("[4, 1, 1]", "n"), HOPPER).emulate()
    found = np.full(64, -1, "int32")
    emulated(found, 8)
    assert (found == np.arange(64) // 8 % 2 + np.arange(64) % 8).all()
    with pytest.raises(LaunchError, match="no whole clusters of 4"):
        emulated(found, 6)
