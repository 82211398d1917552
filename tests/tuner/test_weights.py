"""How much of its weights a model reads between two calls of a kernel."""

from __future__ import annotations

import pytest

from ir.tir import PrimFunc
from runners import LocalRunner
from tests.programs.expressions import matmul
from tuner import TuneContext, tune_tasks
from tuner.scheduler import GradientBased
from tuner.weights import weight_bytes, weight_distance


def kernel(size: int, free: bool = True) -> PrimFunc:
    func = matmul(size)
    return func.with_attr("layout_free_buffers", [1]) if free else func


def test_bytes_of_weights() -> None:
    assert weight_bytes(kernel(32)) == 32 * 32 * 4
    assert weight_bytes(kernel(32, free=False)) == 0


def test_the_weights_of_all_calls_count() -> None:
    tasks = [
        TuneContext(kernel(32), weight=3.0),
        TuneContext(kernel(16)),
        TuneContext(kernel(64, free=False)),
    ]
    assert weight_distance(tasks) == 3 * 4096 + 1024
    assert weight_distance([]) == 0


@pytest.mark.parametrize("free", [True, False])
def test_a_search_measures_as_the_model_runs(free: bool) -> None:
    asked: list[int] = []

    class Scheduler(GradientBased):
        def tune(self, *args: object, runner: object, **options: object) -> None:  # type: ignore[override]
            assert isinstance(runner, LocalRunner)
            asked.append(runner.evaluator_config.weight_distance)

    tune_tasks(
        tasks=[TuneContext(kernel(32, free))], max_trials_global=1, task_scheduler=Scheduler(), measure_callbacks=[],
        calibrate="never",
    )  # fmt: skip
    assert asked == [4096 if free else 0]
