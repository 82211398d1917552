"""NarrowKernelIndices: kernels for GPUs count in 32 bits, so that models in 16 bits reach the tensor cores."""

from __future__ import annotations

import numpy as np
import pytest

from ir import relax, structural_equal
from ir.script import ir as I
from ir.script import relax as R
from ir.target import Target
from ir.tir.function import PrimFunc
from ir.tir.interpreter import run


@I.ir_module
class Half:
    @R.function
    def main(
        x: R.Tensor((64, 64), "float16"),
        w: R.Tensor((64, 64), "float16"),
        q: R.Tensor((1, 64, 2, 64), "float16"),
    ):
        with R.dataflow():
            y = R.matmul(x, w, out_dtype="float32")
            z = R.nn.attention(q, q, q)
            R.output(y, z)
        return (y, z)


def _kernel(mod):
    return next(func for func in mod.functions.values() if isinstance(func, PrimFunc))


def test_kernels_of_gpus_alone_are_narrowed() -> None:
    before = relax.transform.LegalizeOps()(Half)
    narrow = relax.transform.NarrowKernelIndices()
    with Target("nvidia/nvidia-a100"):
        after = narrow(before)
    assert {
        str(extent.dtype) for extent in _kernel(after).buffer_map.values().__iter__().__next__().shape
    } == {"int32"}
    with Target("cpu"):
        assert narrow(before) is before
    assert narrow(before) is before


def test_what_has_a_schedule_stays_as_it_is() -> None:
    before = relax.transform.LegalizeOps()(Half)
    functions = {
        var: func.with_attr("tir.is_scheduled", True) if isinstance(func, PrimFunc) else func
        for var, func in before.functions.items()
    }
    before = before.replace(functions=functions)
    with Target("nvidia/nvidia-a100"):
        assert structural_equal(relax.transform.NarrowKernelIndices()(before), before)


def test_kernels_compute_the_same() -> None:
    before = relax.transform.LegalizeOps()(Half)
    with Target("nvidia/nvidia-a100"):
        after = relax.transform.NarrowKernelIndices()(before)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((64, 64)).astype("float16") for _ in range(2))
    found = []
    for mod in (before, after):
        out = np.zeros((64, 64), "float32")
        run(mod["matmul"], x, w, out)
        found.append(out)
    np.testing.assert_array_equal(*found)


def test_models_in_16_bits_reach_the_tensor_cores() -> None:
    pytest.importorskip("nvidia.cuda_nvrtc")
    text = relax.build(Half, "nvidia/nvidia-a100").source("ptx")
    first, second = text.split(".entry")[1:]
    assert "mma.sync" in first and "mma.sync" in second
