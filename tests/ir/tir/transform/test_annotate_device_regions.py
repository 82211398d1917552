"""AnnotateDeviceRegions: what threads run is the device's."""

from __future__ import annotations

from ir import IRModule
from ir.script import tir as T
from ir.target import Target
from ir.tir import AttrStmt, PrimFunc, SeqStmt
from ir.tir.transform import AnnotateDeviceRegions

CUDA = Target("nvidia/nvidia-a100", host="llvm")


@T.prim_func
def two_kernels(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    with T.launch_thread("threadIdx.x", 32) as i:
        A[i] = T.float32(1)
    with T.launch_thread("blockIdx.x", 4) as b:
        with T.launch_thread("threadIdx.x", 8) as t:
            B[b * 8 + t] = A[b * 8 + t]


def annotated(func: PrimFunc) -> PrimFunc:
    return AnnotateDeviceRegions()(IRModule({"main": func}))["main"]


def test_each_kernel_is_a_region_of_the_device() -> None:
    body = annotated(two_kernels.with_attr("target", CUDA)).body
    assert isinstance(body, SeqStmt)
    for region, kernel in zip(body.seq, two_kernels.body.seq, strict=True):
        assert isinstance(region, AttrStmt) and region.attr_key == "target"
        assert region.node.kind_name == "cuda" and region.node.host is None
        assert region.body is kernel  # with all of its axes


def test_regions_that_are_marked_are_not_marked_again() -> None:
    once = annotated(two_kernels.with_attr("target", CUDA))
    assert annotated(once).body is once.body


def test_functions_of_one_target_have_no_regions() -> None:
    assert annotated(two_kernels) is two_kernels
    alone = two_kernels.with_attr("target", CUDA.replace(host=None))
    assert annotated(alone) is alone
