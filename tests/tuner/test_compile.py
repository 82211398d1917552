"""Building with what tuning found: what it is not for is refused, and what comes before building works for every target."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from ir import IRModule
from ir.codegen.llvm.compile import CodegenError
from ir.script import ir as I
from ir.script import relax as R
from ir.target import Target
from tuner import compile as building
from tuner.task import extract_tasks

GPU = Target("nvidia/nvidia-a100")


@I.ir_module
class Layer:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            t = R.permute_dims(w)
            y = R.matmul(x, t)
            R.output(y)
        return y


def test_a_target_without_code_generation_is_refused_at_once() -> None:
    with (
        mock.patch.object(building, "prepare", side_effect=AssertionError("minutes of passes")),
        pytest.raises(CodegenError, match="kind 'cuda' is not generated yet"),
    ):
        building.compile_relax(Layer, GPU)


def test_tasks_of_a_gpu_are_extracted_and_constants_folded_on_this_machine() -> None:
    weights = {"w": np.arange(64, dtype="float32").reshape(8, 8)}
    prepared = building.prepare(Layer, GPU, weights)
    assert isinstance(prepared, IRModule) and "permute_dims" not in prepared["main"].script()
    tasks = extract_tasks(Layer, GPU, weights)
    assert [task.target.kind.name for task in tasks] == ["cuda"] * len(tasks) and len(tasks) == 1
