"""SplitHostDevice: kernels are functions, which the host calls with what they use."""

from __future__ import annotations

import numpy as np

from ir import IRModule
from ir.script import tir as T
from ir.target import Target
from ir.tir.interpreter import run
from ir.tir.transform import AnnotateDeviceRegions, SplitHostDevice
from ir.transform import Sequential

CUDA = Target("nvidia/nvidia-a100", host="llvm")


@T.prim_func
def scaled(a: T.handle, b: T.handle, n: T.int32, factor: T.float32):
    T.func_attr({"tir.noalias": True})
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    with T.launch_thread("threadIdx.x", n) as i:
        B[i] = A[i] * factor
    with T.launch_thread("threadIdx.x", n) as i:
        B[i] = B[i] + T.float32(1)


def split(name: str = "main") -> IRModule:
    module = IRModule({name: scaled.with_attr("target", CUDA)})
    return Sequential([AnnotateDeviceRegions(), SplitHostDevice()])(module)


def test_kernels_take_what_they_use() -> None:
    module = split()
    first, second = module["main_kernel"], module["main_kernel1"]
    assert sorted(param.name for param in first.params) == ["A", "B", "factor", "n"]
    assert sorted(param.name for param in second.params) == ["B", "n"]
    for kernel in (first, second):
        assert not kernel.buffer_map and kernel.attrs["tir.is_global_func"] and kernel.attrs["tir.noalias"]
        assert kernel.attrs["target"].kind_name == "cuda"


def test_the_rest_is_the_hosts() -> None:
    host = split()["main"]
    assert host.attrs["target"].kind_name == "llvm" and host.params == scaled.params
    assert "launch_thread" not in host.script()


def test_the_module_computes_the_same() -> None:
    given = np.arange(5, dtype="float32")
    before, after = np.zeros(5, "float32"), np.zeros(5, "float32")
    run(scaled, given, before, 5, 3.0)
    run(split(), given, after, 5, 3.0)
    np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(after, given * 3 + 1)


def test_names_of_kernels_are_new() -> None:
    module = IRModule({"main": scaled.with_attr("target", CUDA), "main_kernel": scaled})
    found = Sequential([AnnotateDeviceRegions(), SplitHostDevice()])(module)
    assert {var.name_hint for var in found.functions} == {
        "main",
        "main_kernel",
        "main_kernel1",
        "main_kernel2",
    }


def test_functions_without_regions_stay() -> None:
    module = IRModule({"main": scaled})
    assert SplitHostDevice()(module)["main"] is scaled
