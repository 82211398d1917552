"""Building with what tuning found: what it is not for is refused, and what comes before building works for every target."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

from database import MemoryDatabase, TuningRecord
from database.meta_schedule_apply_database import AppliedKernel, ApplyReport
from ir import IRModule
from ir.codegen.error import CodegenError
from ir.script import ir as I
from ir.script import relax as R
from ir.target import Target
from tuner import compile as building
from tuner.compare.builds import compare_builds
from tuner.model import Model
from tuner.task import extract_tasks

GPU = Target("nvidia/nvidia-a100")


@I.ir_module
class Open:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            y = R.nn.softmax(x)
            R.output(y)
        return y


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
        pytest.raises(CodegenError, match="kind 'opencl' is not generated yet"),
    ):
        building.compile_relax(Layer, "opencl")


def test_a_build_of_open_shapes_claims_no_records() -> None:
    """None of the work is known, of which records could cover all."""
    report = ApplyReport()
    building.compile_relax(Open, "cpu", report=report)
    assert {item.flops for item in report.kernels} == {None} and report.coverage == 0.0
    count = len(report.kernels)
    assert f"records cover 0 of {count} kernels" in str(report) and "100" not in str(report)
    known = AppliedKernel("known", "record", "1 ms", 8e6)
    assert str(ApplyReport([known])).endswith("records cover 100.0% of the floating-point operations")
    both = ApplyReport([known, *report.kernels])
    assert str(both).endswith(f"of the floating-point operations, beside {count} kernels of open shape")


class Asked(MemoryDatabase):
    """Counts what is looked up in it."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0

    def query_tuning_record(self, *arguments: Any) -> TuningRecord | None:
        self.times += 1
        return super().query_tuning_record(*arguments)


def test_a_build_asks_the_database_that_is_named_or_else_that_of_the_block() -> None:
    named, around, outer = Asked(), Asked(), Asked()
    with outer, around:
        building.compile_relax(Layer, "cpu")
        assert (named.times, around.times, outer.times) == (0, 2, 0)
        building.compile_relax(Layer, "cpu", database=named)
    assert (named.times, around.times, outer.times) == (2, 2, 0)


def test_what_a_tuned_build_is_compared_with_has_no_records() -> None:
    weights = {"w": np.ones((8, 8), "float32")}
    model = Model("layer", Layer, weights, lambda: {"x": np.ones((4, 8), "float32")})
    with Asked() as around:
        compare_builds(model, Target("cpu"), MemoryDatabase())
    assert around.times == 0


def test_tasks_of_a_gpu_are_extracted_and_constants_folded_on_this_machine() -> None:
    weights = {"w": np.arange(64, dtype="float32").reshape(8, 8)}
    prepared = building.prepare(Layer, GPU, weights)
    assert isinstance(prepared, IRModule) and "permute_dims" not in prepared["main"].script()
    tasks = extract_tasks(Layer, GPU, weights)
    assert [task.target.kind.name for task in tasks] == ["cuda"] * len(tasks) and len(tasks) == 1
