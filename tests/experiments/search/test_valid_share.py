"""The share of valid candidates, and of those that a multiprocessor could run."""

from __future__ import annotations

import pytest

from experiments.search.valid_share import _page, is_launchable, valid_share
from ir import IRModule
from ir.codegen.cuda.toolkit import CudaToolkitError, toolkit
from ir.script import tir as T
from ir.target import Target

A100 = Target("nvidia/nvidia-a100")


@T.prim_func
def shared(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("copy"):
            vi = T.axis.spatial(64, i)
            S = T.alloc_buffer((64, 512), "float32", scope="shared")
            S[vi, vi * 8] = A[vi]
            B[vi] = S[63 - vi, 504 - vi * 8]


@pytest.fixture(autouse=True)
def nvrtc() -> None:
    try:
        toolkit()
    except CudaToolkitError:
        pytest.skip("needs NVRTC")


def test_candidates_are_made_judged_and_compiled() -> None:
    found = valid_share("softmax", (32, 64), A100, 4, compiled=3)
    assert found["structures"] >= 1 and found["valid"] == found["candidates"] >= 4
    assert found["compiled"] == found["launchable"] == 3
    page = _page({"softmax 32x64": {"a100": found, "cpu": {"candidates": 4, "valid": 3}}})
    assert "3 of 3" in page and "75.00%" in page and "100.00%, 100.00%" in page


def test_what_no_multiprocessor_holds_is_not_launchable() -> None:
    large = IRModule({"main": shared.with_attr("global_symbol", "main")})
    assert is_launchable(large, A100)  # which has 163 KiB for a block
    assert not is_launchable(large, Target("nvidia/nvidia-t4"))
