"""UseDynamicSharedMemory: what a kernel may not declare is asked for at the launch."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, assert_structural_equal
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.kernel_launch import is_kernel, kernel_launch
from ir.tir.lower import lower
from ir.tir.transform import UseDynamicSharedMemory

KERNEL = """
@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    a = T.allocate([{count}], "float32", "{scope}")
    b = T.allocate([32], "float32", "{scope}")
    S = T.Buffer(({count},), "float32", data=a, scope="{scope}")
    R = T.Buffer((32,), "float32", data=b, scope="{scope}")
    S[tx] = A[tx]
    R[tx] = S[tx]
    B[tx] = R[tx]
"""


def kernel(count: int, scope: str) -> PrimFunc:
    return from_source(KERNEL.format(count=count, scope=scope))


def changed(func: PrimFunc, most_bytes: int = 1024) -> PrimFunc:
    found = UseDynamicSharedMemory(most_bytes)(IRModule({"main": func}))["main"]
    assert isinstance(found, PrimFunc)
    return found


def test_more_than_may_be_declared_is_dynamic() -> None:
    assert_structural_equal(changed(kernel(225, "shared")), kernel(225, "shared.dyn"), map_free_vars=True)


def test_what_may_be_declared_stays() -> None:
    func = kernel(224, "shared")
    assert changed(func) is func


def test_each_kernel_is_counted_by_itself() -> None:
    source = """
@T.prim_func
def main(A: T.Buffer((32,), "float32")):
    with T.launch_thread("threadIdx.x", 32) as tx:
        a = T.allocate([200], "float32", "shared")
        S = T.Buffer((200,), "float32", data=a, scope="shared")
        S[tx] = A[tx]
    with T.launch_thread("threadIdx.x", 32) as ty:
        b = T.allocate([300], "float32", "shared")
        R = T.Buffer((300,), "float32", data=b, scope="shared")
        R[ty] = A[ty]
"""
    script = changed(from_source(source)).script()
    assert 'T.allocate([200], "float32", "shared")' in script
    assert 'T.allocate([300], "float32", "shared.dyn")' in script


STAGED = """
@T.prim_func
def main(A: T.Buffer((4, 64, 128), "float32"), B: T.Buffer((4, 128, 64), "float32")):
    with T.block("root"):
        tile = T.alloc_buffer((4, 64, 128), scope="shared")
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(64, thread="threadIdx.x"):
                for j in range(128):
                    with T.block("fill"):
                        vb, vi, vj = T.axis.remap("SSS", [b, t, j])
                        tile[vb, vi, vj] = A[vb, vi, vj]
            for t in T.thread_binding(64, thread="threadIdx.x"):
                for i in range(128):
                    with T.block("turn"):
                        vb, vi, vj = T.axis.remap("SSS", [b, i, t])
                        B[vb, vi, vj] = tile[vb, vj, vi] + T.float32(1)
"""


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
@pytest.mark.parametrize(("declared", "expected"), [(48 << 10, None), (16 << 10, 64 * 128 * 4)])
def test_kernels_compute_the_same(declared: int, expected: int | None) -> None:
    limits = {"max_shared_memory_per_block": declared, "max_shared_memory_per_block_optin": 160 << 10}
    target = Target({**Target("nvidia/nvidia-a100").export(), **limits})
    lowered = lower(IRModule({"main": from_source(STAGED)}), target)
    (device,) = [func for func in lowered.functions.values() if is_kernel(func)]
    asked = kernel_launch(device).dynamic_bytes
    assert (None if asked is None else int(asked)) == expected
    given = np.random.default_rng(0).random((4, 64, 128), "float32")
    for compute in (EmulatedProgram(lowered, generate(lowered)), lambda *arrays: run(lowered, *arrays)):
        found = np.zeros((4, 128, 64), "float32")
        compute(given, found)
        np.testing.assert_array_equal(found, given.transpose(0, 2, 1) + 1)


def test_no_block_declares_more_than_cuda_lets_it() -> None:
    target = Target({**Target("nvidia/nvidia-a100").export(), "max_shared_memory_per_block": 160 << 10})
    (device,) = [
        func
        for func in lower(
            IRModule({"main": from_source(STAGED.replace("128", "256"))}), target
        ).functions.values()
        if is_kernel(func)
    ]
    assert int(kernel_launch(device).dynamic_bytes) == 64 * 256 * 4
