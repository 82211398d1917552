"""LowerDeviceKernelLaunch: calls of kernels say how many threads run."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule
from ir.error import IRValueError
from ir.script import from_source
from ir.target import Target
from ir.tir.interpreter import run
from ir.tir.kernel_launch import is_kernel, kernel_launch
from ir.tir.transform import AnnotateDeviceRegions, LowerDeviceKernelLaunch, SplitHostDevice
from ir.transform import Sequential

CUDA = Target("nvidia/nvidia-a100", host="llvm")
PASSES = Sequential([AnnotateDeviceRegions(), SplitHostDevice(), LowerDeviceKernelLaunch()])
PROGRAM = """
    @T.prim_func
    def main(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n * 4,), "int32")
        with T.launch_thread("{outer}", 4) as t:
            with T.launch_thread("blockIdx.x", n) as b:
                {body}
"""
PLAIN = "A[b * 4 + t] = b * 4 + t"


def launched(body: str = PLAIN, outer: str = "threadIdx.x") -> IRModule:
    func = from_source(PROGRAM.format(body=body, outer=outer))
    return PASSES(IRModule({"main": func.with_attr("target", CUDA)}))


def test_extents_follow_the_arguments_in_the_order_of_a_launch() -> None:
    module = launched()
    kernel = module["main_kernel"]
    assert is_kernel(kernel) and not is_kernel(module["main"])
    assert list(kernel.attrs["tir.kernel_launch_params"]) == ["blockIdx.x", "threadIdx.x"]
    names = ", ".join("A.data" if param.name == "A" else param.name for param in kernel.params)
    assert f'T.call_packed("main_kernel", {names}, n, 4)' in module["main"].script()


def test_the_lowered_module_computes_the_same() -> None:
    found = np.zeros(12, "int32")
    run(launched(), found, 3)
    np.testing.assert_array_equal(found, np.arange(12))


def test_dynamic_shared_memory_is_told_last() -> None:
    module = launched('S = T.allocate([8], "float32", "shared.dyn")\n                A[b * 4 + t] = 1')
    launch = kernel_launch(module["main_kernel"])
    assert launch.params[-1] == "tir.use_dyn_shared_memory" and int(launch.dynamic_bytes.value) == 32
    assert "n, 4, 32)" in module["main"].script()


def test_two_dynamic_allocations_are_refused() -> None:
    body = "\n                ".join(
        [
            'S = T.allocate([8], "float32", "shared.dyn")',
            'R = T.allocate([8], "float32", "shared.dyn")',
            "A[b * 4 + t] = 1",
        ]
    )
    with pytest.raises(IRValueError, match="MergeSharedMemoryAllocations first"):
        launched(body)


def test_an_axis_that_no_device_has_is_refused() -> None:
    with pytest.raises(IRValueError, match="launched along 'threadIdx.w'"):
        launched(outer="threadIdx.w")
