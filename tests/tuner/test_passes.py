"""The tuning passes that the documents list under ``ir.relax.transform``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import database
import ir
from database import MemoryDatabase, open_database
from database.meta_schedule_apply_database import ApplyReport
from ir import relax
from ir.codegen.build import build
from ir.target import Target
from ir.tir import interpreter
from runners import BuilderInput, RunnerResult
from tests.new_process import in_a_new_process
from tests.programs.expressions import matmul
from tuner import TunerError
from tuner.passes import few_shot_tuning
from tuner.scheduler.base import TaskScheduler


@pytest.mark.parametrize("benchmark", [False, True])
def test_few_shot_tuning_schedules_and_keeps_the_meaning(benchmark: bool) -> None:
    mod = ir.IRModule({"product": matmul(48).with_attr("global_symbol", "product")})
    with Target("cpu"):
        tuned = relax.transform.FewShotTuning(valid_count=2, benchmark=benchmark)(mod)
    assert not ir.structural_equal(tuned, mod)
    a, b = (np.random.default_rng(i).standard_normal((48, 48)).astype("float32") for i in range(2))
    out = np.zeros((48, 48), "float32")
    build(tuned, Target("cpu"))["product"](a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)


def test_few_shot_tuning_takes_no_sample_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sample is replaced by a program that writes nothing."""
    mod = ir.IRModule({"product": matmul(48).with_attr("global_symbol", "product")})
    lazy = ir.IRModule(
        {"main": matmul(48).with_attr("global_symbol", "main").replace(body=ir.tir.Evaluate(0))}
    )
    monkeypatch.setattr(few_shot_tuning, "split_module", lambda _mod: lazy)
    with Target("cpu"):
        tuned = relax.transform.FewShotTuning(valid_count=2, benchmark=True)(mod)
    assert ir.structural_equal(tuned, mod)


def test_few_shot_tuning_goes_by_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round of the first sample was fast by chance."""
    times = [[1.0, 9.0, 9.0], [2.0, 2.0, 2.0]]
    asked: list[ir.IRModule] = []

    def measured(inputs: list[BuilderInput], reference: ir.IRModule) -> list[RunnerResult]:
        asked.extend(item.mod for item in inputs)
        return [RunnerResult(own, None) for own in times]

    monkeypatch.setattr(few_shot_tuning, "final_choice", measured)
    mod = ir.IRModule({"product": matmul(48).with_attr("global_symbol", "product")})
    with Target("cpu"):
        tuned = relax.transform.FewShotTuning(valid_count=2, benchmark=True)(mod)
    slow, fast = (item[next(iter(item.functions))] for item in asked)
    assert not ir.structural_equal(slow.body, fast.body)
    assert ir.structural_equal(tuned["product"].body, fast.body)


def test_few_shot_tuning_needs_a_sample_and_a_target() -> None:
    mod = ir.IRModule({"product": matmul(16)})
    with pytest.raises(TunerError, match="at least 1, got 0"), Target("cpu"):
        relax.transform.FewShotTuning(valid_count=0)(mod)
    with pytest.raises(TunerError, match="need a target"):
        relax.transform.FewShotTuning()(mod)


def test_tune_tir_then_apply_database(tmp_path: Path) -> None:
    mod = ir.IRModule({"product": matmul(24)})
    with Target("cpu"):
        same = relax.transform.MetaScheduleTuneTIR(str(tmp_path), 4)(mod)
        assert ir.structural_equal(same, mod)
        assert len(open_database(tmp_path / "tuning.db")) >= 4
        applied = relax.transform.MetaScheduleApplyDatabase(str(tmp_path))(mod)
    assert not ir.structural_equal(applied, mod)
    a, b = (np.random.default_rng(i).integers(-4, 5, (24, 24)).astype("float32") for i in range(2))
    out = np.zeros((24, 24), "float32")
    interpreter.run(applied, a, b, out, name="product")
    np.testing.assert_array_equal(out, a @ b)


def test_an_empty_database_is_one_and_not_that_of_an_enclosing_block(tmp_path: Path) -> None:
    mod = ir.IRModule({"product": matmul(24)})
    with Target("cpu"):
        relax.transform.MetaScheduleTuneTIR(str(tmp_path), 4)(mod)
        scheduling = database.MetaScheduleApplyDatabase(database=MemoryDatabase())
        with open_database(tmp_path / "tuning.db"):
            scheduling(mod)
    (found,) = scheduling.report.kernels
    assert found.source == "default" and "no database" not in found.reason


@pytest.mark.parametrize("name", database.__all__)
def test_all_that_the_package_offers_is_there(name: str) -> None:
    assert getattr(database, name) is not None


def test_many_kernels_get_the_same_schedules_in_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = ir.IRModule({f"product{size}": matmul(size) for size in (8, 12, 16, 20, 24, 32)})

    def applied() -> tuple[ir.IRModule, list[tuple[str, str]]]:
        scheduling = relax.transform.MetaScheduleApplyDatabase()
        with Target("cpu"):
            result = scheduling(mod)
        return result, [(item.name, item.source) for item in scheduling.report.kernels]

    in_several, report = in_a_new_process(applied)
    monkeypatch.setattr(
        "database.meta_schedule_apply_database.forked_map", lambda run, items, **_: [*map(run, items)]
    )
    in_one, expected = applied()
    assert report == expected == [(f"product{size}", "default") for size in (8, 12, 16, 20, 24, 32)]
    ir.assert_structural_equal(in_several, in_one)
    assert not any(ir.structural_equal(in_one[var], func) for var, func in mod.functions.items())


def test_the_trials_of_tune_tir_are_those_of_all_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal kernels are one task, and the budget is that of the module."""
    asked: list[tuple[list[str], int]] = []

    def tune(self: TaskScheduler, tasks: list[Any], *_: object, max_trials_global: int, **__: object) -> None:
        asked.append(([task.task_name for task in tasks], max_trials_global))

    monkeypatch.setattr(TaskScheduler, "tune", tune)
    mod = ir.IRModule({"first": matmul(24), "again": matmul(24), "second": matmul(16)})
    with Target("cpu"):
        relax.transform.MetaScheduleTuneTIR(str(tmp_path), 5)(mod)
        relax.transform.MetaScheduleTuneTIR(str(tmp_path), 5)(ir.IRModule({}))
    assert asked == [(["again", "second"], 5)]


def test_tune_irmod_keeps_to_the_named_operators(tmp_path: Path) -> None:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((8, 16), "float32"))
    w = relax.Var("w", relax.TensorStructInfo((16, 8), "float32"))
    with bb.function("main", [x, w]):
        with bb.dataflow():
            product = bb.emit(relax.op.matmul(x, w))
            out = bb.emit_output(relax.op.nn.softmax(product))
        bb.emit_func_output(out)
    mod = relax.transform.LegalizeOps()(bb.finalize())
    with Target("cpu"):
        relax.transform.MetaScheduleTuneIRMod({}, str(tmp_path), 3, op_names=["matmul"])(mod)
    assert len(open_database(tmp_path / "tuning.db").get_workloads()) == 1


def _ctrl_c(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["MetaScheduleTuneTIR", "MetaScheduleTuneIRMod"])
def test_ctrl_c_ends_a_pass_that_tunes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The passes that would follow are not run as if the kernels had been tuned."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((8, 8), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            result = bb.emit_output(relax.op.nn.relu(x))
        bb.emit_func_output(result)
    mod = relax.transform.LegalizeOps()(bb.finalize())
    monkeypatch.setattr(TaskScheduler, "_loop", _ctrl_c)
    followed = []

    @ir.transform.module_pass
    def follow(mod: ir.IRModule, ctx: object) -> ir.IRModule:
        followed.append(mod)
        return mod

    tuning = getattr(relax.transform, name)(work_dir=str(tmp_path), max_trials_global=2)
    with pytest.raises(KeyboardInterrupt), Target("cpu"):
        ir.transform.Sequential([tuning, follow])(mod)
    assert followed == []


def test_kernels_of_symbolic_shape_have_default_schedules_on_gpus_only() -> None:
    """A GPU runs nothing that is bound to no threads; a CPU runs plain loops."""
    n = ir.tir.SizeVar("n", "int64")
    x = ir.te.placeholder((n, 8), "float32", "x")
    func = ir.te.create_prim_func([x, ir.te.compute(x.shape, lambda i, j: x[i, j] * 2.0, name="y")])
    mod = ir.IRModule({"main": func})
    for target, source in (("nvidia/nvidia-a100", "default"), ("cpu", "unscheduled")):
        report = ApplyReport()
        with Target(target):
            applied = relax.transform.MetaScheduleApplyDatabase(database=MemoryDatabase(), report=report)(mod)
        (kernel,) = report.kernels
        assert kernel.source == source and "symbolic shape" in kernel.reason
        assert ("threadIdx.x" in applied["main"].script()) == (source == "default")
    with Target("nvidia/nvidia-a100"):
        kept = relax.transform.MetaScheduleApplyDatabase(database=MemoryDatabase(), fallback=None)(mod)
    assert kept["main"] is func
