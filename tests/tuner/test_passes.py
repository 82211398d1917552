"""Tuning passes, found under the names that the documents give them."""

from __future__ import annotations

import numpy as np
import pytest

import runners
import tuner.passes
from ir import relax
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.target import Target
from ir.tir import PrimFunc
from tuner.error import TunerError


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32")) -> R.Tensor((16, 16), "float32"):
        with R.dataflow():
            lv = R.matmul(x, w)
            gv = R.nn.relu(lv)
            R.output(gv)
        return gv


@pytest.fixture
def fused():
    return relax.get_pipeline("zero")(Module)


def test_names_are_found_in_the_documents_place():
    assert transform.FewShotTuning is tuner.passes.FewShotTuning
    assert transform.MetaScheduleTuneTIR is tuner.passes.MetaScheduleTuneTIR


@pytest.mark.parametrize("benchmark", [False, True])
def test_few_shot_tuning(fused, benchmark):
    with Target("llvm"):
        scheduled = transform.FewShotTuning(valid_count=2, benchmark=benchmark)(fused)
    (kernel,) = [func for func in scheduled.functions.values() if isinstance(func, PrimFunc)]
    assert kernel.attrs["tir.is_scheduled"]
    x, w = (np.random.default_rng(i).standard_normal((16, 16)).astype("float32") for i in range(2))
    vm = runners.VirtualMachine(relax.build(scheduled, "llvm", pipeline=None), runners.cpu())
    np.testing.assert_allclose(vm["main"](x, w).numpy(), np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)


def test_tuning_passes_leave_records(fused, tmp_path):
    with Target("llvm"):
        assert transform.MetaScheduleTuneTIR(str(tmp_path / "a"), 2)(fused) is fused
        assert transform.MetaScheduleTuneIRMod({}, str(tmp_path / "b"), 2, op_names=["matmul"])(fused) is fused
        report = transform.MetaScheduleApplyDatabase(work_dir=str(tmp_path / "a"))
        report(fused)
    assert report.report.coverage > 0


def test_requests_that_cannot_be_met(fused, tmp_path):
    with pytest.raises(TunerError, match="needs a target"):
        transform.FewShotTuning()(fused)
    with Target("llvm"):
        with pytest.raises(TunerError, match="no kernel's name contains any of conv"):
            transform.MetaScheduleTuneIRMod({}, str(tmp_path), 2, op_names=["conv"])(fused)
        with pytest.raises(TunerError, match="at least 1"):
            transform.FewShotTuning(valid_count=0)(fused)
