"""Arguments and launches, through a kernel that is written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ir.script import from_source
from runners import array, cuda, empty
from runners.cuda.context import context
from runners.cuda.driver import CudaError
from runners.cuda.module import build_module
from tests.runners.cuda import programs


def _noting(dtype: str):
    """A program that fills an array with a number that it is given."""
    return from_source(f"""
@T.prim_func
def note(A: T.Buffer((4,), "{dtype}"), value: T.{dtype}):
    for i in T.thread_binding(4, "threadIdx.x"):
        with T.block("note"):
            vi = T.axis.spatial(4, i)
            A[vi] = value
""")


@pytest.mark.parametrize(
    "dtype, value",
    [("int32", -7), ("int32", 2**31 - 1), ("int64", 2**40), ("uint8", 255), ("bool", True)],
)
def test_integers_are_passed_in_their_own_dtype(dtype, value):
    a = empty((4,), dtype, cuda(0))
    build_module(_noting(dtype), programs.TARGET)["note"](a, value)
    np.testing.assert_array_equal(a.numpy(), [value] * 4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "float32"])
def test_floats_are_passed_in_their_own_dtype(dtype):
    a = empty((4,), dtype, cuda(0))
    build_module(_noting(dtype), programs.TARGET)["note"](a, 1.5)
    np.testing.assert_array_equal(a.numpy().astype("float32"), [1.5] * 4)


def test_a_launch_that_the_driver_refuses_names_the_kernel():
    module = build_module(programs.bound(programs.turned, "twice", "turn"), programs.TARGET)
    kernel = module.kernels_on(context(0))["main_kernel"]
    a = array(np.zeros(128, np.float32), cuda(0))
    assert kernel.launch((a.ptr, a.ptr, 0, 32)) is None  # no blocks
    launch = kernel.launch((a.ptr, a.ptr, 1, 2048))
    with pytest.raises(
        CudaError, match="launch of kernel main_kernel: CUDA_ERROR_INVALID_VALUE; the driver does not accept"
    ):
        launch.start(context(0), context(0).stream.handle)
    np.testing.assert_array_equal(a.numpy(), 0)  # the device can still be used


def test_launches_are_of_whole_clusters():
    program = from_source("""
@T.prim_func
def note(A: T.Buffer((64,), "int32"), n: T.int32):
    T.func_attr({"tir.cluster_dims": [4, 1, 1]})
    bx = T.launch_thread("blockIdx.x", n)
    tx = T.launch_thread("threadIdx.x", 8)
    A[bx * 8 + tx] = bx
""")
    module, a = build_module(program, "nvidia/nvidia-h200", compiled=False), empty((64,), "int32", cuda(0))
    module["note"](a, 8)
    np.testing.assert_array_equal(a.numpy(), np.arange(64) // 8)
    with pytest.raises(CudaError, match="kernel note_kernel: 6 blocks along x are no whole clusters of 4"):
        module["note"](a, 6)
