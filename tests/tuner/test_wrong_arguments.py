"""Arguments of the wrong kind, given from Python: each is an error of ours that names the place and the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from database import MemoryDatabase, MetaScheduleApplyDatabase
from ir import IRModule
from ir.error import IRError
from ir.target import Target
from runners import EvaluatorConfig, LocalBuilder, LocalRunner
from tests.programs.expressions import matmul
from tests.tuner.test_compile import Layer
from tuner import TuneContext, compile_relax, extract_tasks, tune_relax, tune_tir
from tuner.tune import tune_tasks

_QUIET: dict[str, Any] = {"measure_callbacks": [], "calibrate": "never"}


def refused(call: Callable[[], object], says: str) -> None:
    with pytest.raises(IRError, match=says):
        call()


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nonsense", "unknown target kind 'nonsense'; there are: cpu"),
        ("llvm -num-cores 0", "-num-cores .* must be at least 1, got 0"),
        ("llvm -num-cores -3", "-num-cores .* must be at least 1, got -3"),
        ("llvm -num-cores 99999999999", "-num-cores .* must be at most 65536, got 99999999999"),
        ({"kind": "llvm", "num-cores": True}, "-num-cores .* takes int, got True"),
        ("llvm -opt-level 9", "-opt-level .* must be at most 3, got 9"),
        (3, "a target is a string, a dict or a Target, got int"),
    ],
)
def test_what_is_no_target_is_refused_everywhere(target: Any, says: str) -> None:
    refused(lambda: Target(target), says)
    refused(lambda: compile_relax(Layer, target), says)
    refused(lambda: tune_relax(Layer, None, target, None, 1, **_QUIET), says)
    refused(lambda: tune_tir(matmul(4), target, None, 1, **_QUIET), says)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("llvm -mcpu=nonsense", "'nonsense' is not a recognized processor"),
        ("llvm -mcpu=skylak", "did you mean 'skylake'"),
        ("llvm -mattr=+nonsense", "'\\+nonsense' is not a recognized feature"),
        ("llvm -mattr=avx2", "'avx2' has none: \\+avx2 switches it on"),
        ("llvm -mtriple=nonsense", "LLVM has no target for triple 'nonsense'"),
    ],
)
def test_what_llvm_does_not_know_is_refused_before_a_search_and_by_builds(target: str, says: str) -> None:
    refused(lambda: compile_relax(Layer, target), says)
    refused(lambda: tune_tir(matmul(4), target, None, 1, **_QUIET), says)


def test_another_machines_target_is_built_and_not_tuned() -> None:
    assert compile_relax(Layer, "llvm -mtriple=aarch64-linux-gnu") is not None
    refused(
        lambda: tune_tir(matmul(4), "llvm -mtriple=aarch64-linux-gnu", None, 1, **_QUIET),
        "code for aarch64 processors does not run on this one",
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: EvaluatorConfig(number="3"), "EvaluatorConfig: number is a whole number.*'3'"),  # type: ignore[arg-type]
        (lambda: EvaluatorConfig(repeat=2.5), "EvaluatorConfig: repeat .*2.5"),  # type: ignore[arg-type]
        (lambda: EvaluatorConfig(number=True), "EvaluatorConfig: number .*True"),
        (lambda: EvaluatorConfig(min_repeat_ms=None), "EvaluatorConfig: min_repeat_ms .*None"),  # type: ignore[arg-type]
        (lambda: EvaluatorConfig(enable_cpu_cache_flush="yes"), "is True or False, got 'yes'"),  # type: ignore[arg-type]
        (lambda: LocalRunner(evaluator_config={"number": 3}), "evaluator_config is an EvaluatorConfig"),  # type: ignore[arg-type]
        (lambda: LocalRunner(timeout_sec="long"), "LocalRunner: timeout_sec is a number of seconds.*'long'"),  # type: ignore[arg-type]
        (lambda: LocalRunner(cooldown_sec=-1), "LocalRunner: cooldown_sec .*-1"),
        (lambda: LocalBuilder(timeout_sec=None), "LocalBuilder: timeout_sec .*None"),  # type: ignore[arg-type]
        (lambda: LocalBuilder(max_workers=0), "LocalBuilder: max_workers .*0"),
        (lambda: tune_tir(matmul(4), "cpu", 3, 1, **_QUIET), "work_dir is the path of a folder, got 3"),  # type: ignore[arg-type]
    ],
)
def test_settings_of_another_type_are_named(make: Callable[[], object], says: str) -> None:
    refused(make, says)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: compile_relax(matmul(4)), "a model is an IRModule of .*, got PrimFunc; .*ir.build"),  # type: ignore[arg-type]
        (lambda: compile_relax({"w": np.ones(3)}), "a model is an IRModule of .*, got dict; .*from_onnx"),  # type: ignore[arg-type]
        (
            lambda: compile_relax(Layer, {"w": np.ones(3)}),
            "second argument .* is the target.*weights .* params=",
        ),
        (lambda: compile_relax(MemoryDatabase(), Layer), "first argument .* is the model.*database="),  # type: ignore[arg-type]
        (lambda: compile_relax(Layer, "cpu", Layer), "given by name.*got IRModule"),
        (lambda: compile_relax(Layer, "cpu", [np.ones(3)]), "given by name.*got list"),  # type: ignore[arg-type]
        (lambda: tune_relax(Layer, "cpu"), "given by name.*got str; the target is target="),  # type: ignore[arg-type]
        (lambda: extract_tasks(Layer, "cpu", Layer), "given by name.*got IRModule"),
        (lambda: extract_tasks(matmul(4), "cpu"), "a model is an IRModule of .*, got PrimFunc; tune_tir"),  # type: ignore[arg-type]
        (lambda: tune_relax(matmul(4)), "a model is an IRModule of .*, got PrimFunc; tune_tir"),  # type: ignore[arg-type]
        (lambda: tune_relax("model.onnx"), "a model is an IRModule of .*, got str; .*from_onnx"),  # type: ignore[arg-type]
        (lambda: tune_relax(IRModule({"main": matmul(4)})), "has none; tune_tir tunes a kernel"),
        (
            lambda: tune_relax(Layer, trials=4),
            "tune_relax takes no option 'trials'; did you mean 'max_trials_global'",
        ),
        (
            lambda: tune_tir(matmul(4), "cpu", datbase="t.db"),
            "tune_tir takes no option 'datbase'; did you mean 'database'",
        ),
        (
            lambda: tune_tir(matmul(4), "cpu", xyz=1),
            "tune_tir takes no option 'xyz'; there are .*max_trials_global",
        ),
        (lambda: tune_tir(Layer, "cpu"), "the module has none; tune_relax tunes a model"),
        (lambda: TuneContext(Layer), "the module has none; tune_relax tunes a model"),
        (
            lambda: tune_tir(IRModule({"main": matmul(4), "other": matmul(8)}), "cpu"),
            r"the module has 2: main, other; tune each by itself, as in tune_tir\(mod\['main'\], ...\)",
        ),
        (
            lambda: TuneContext(IRModule({"a": matmul(4), "b": matmul(8)})),
            "the module has 2: a, b; tune each",
        ),
        (lambda: tune_tir({"w": 1}, "cpu"), "a PrimFunc or an IRModule, got dict"),  # type: ignore[arg-type]
        (
            lambda: tune_tasks(tasks=Layer, max_trials_global=1),
            "list of TuneContexts, got IRModule; .*tune_relax takes a model",
        ),  # type: ignore[arg-type]
        (
            lambda: tune_tasks(tasks=extract_tasks(Layer, "cpu"), max_trials_global=1),  # type: ignore[arg-type]
            "list of TuneContexts, got ExtractedTask; .*contexts_of",
        ),
    ],
)
def test_modules_and_parameters_in_each_others_place_are_named(call: Callable[[], object], says: str) -> None:
    refused(call, says)


def test_a_pass_takes_the_path_of_a_database() -> None:
    with Target("cpu"):
        refused(
            lambda: MetaScheduleApplyDatabase(database="missing.db")(IRModule({"main": matmul(4)})),
            "missing.db' does not exist",
        )
