"""How much of its weights a model reads between two calls of a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from ir.tir import PrimFunc
from runners import EvaluatorConfig, LocalBuilder, LocalRunner, WorkerPool
from tests.programs.expressions import matmul
from tuner import OptunaSearch, TuneContext, TunerError, tune_tasks
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


class _Asks(GradientBased):
    """Tunes nothing, and tells with which builder and runner it would."""

    def tune(self, *args: object, builder: Any, runner: Any, **options: object) -> None:  # type: ignore[override]
        assert isinstance(runner, LocalRunner) and isinstance(builder, LocalBuilder)
        self.distance, self.ratio = runner.evaluator_config.weight_distance, runner.cut_ratio
        self.pools = builder.pool, runner.pool


def asked(free: bool = True, **options: Any) -> _Asks:
    """What a search of one kernel begins with."""
    found = _Asks()
    tune_tasks(
        tasks=[TuneContext(kernel(32, free))], max_trials_global=1, task_scheduler=found, measure_callbacks=[], calibrate="never",
        **options,
    )  # fmt: skip
    return found


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize(
    "make", [lambda: "local", LocalRunner, lambda: LocalRunner(5.0, EvaluatorConfig(repeat=3))]
)
def test_a_search_measures_as_the_model_runs(free: bool, make: Callable[[], Any]) -> None:
    """Also with a runner of the user's, which is what it was afterwards."""
    runner = make()
    assert asked(free, runner=runner).distance == (4096 if free else 0)
    if isinstance(runner, LocalRunner):
        assert runner.evaluator_config.weight_distance is None


def test_what_a_runner_was_told_is_not_changed() -> None:
    warm = LocalRunner(evaluator_config=EvaluatorConfig(weight_distance=0), cut_ratio=2.0)
    front = OptunaSearch("nsga2", objectives=("time", "code_size"))
    found = asked(runner=warm, strategy=front)
    assert found.distance == 0 and found.ratio == 2.0
    assert asked(runner=LocalRunner(), strategy=front).ratio == asked(strategy=front).ratio == math.inf
    assert asked(runner=LocalRunner()).ratio == asked().ratio == LocalRunner().cut_ratio < math.inf


def test_builder_and_runner_share_a_pool() -> None:
    """With a pool each, everything would be built twice."""
    with WorkerPool(1) as own, WorkerPool(1) as other:
        for options in (
            {},
            {"runner": LocalRunner()},
            {"builder": LocalBuilder()},
            {"builder": LocalBuilder(), "runner": LocalRunner()},
            {"runner": LocalRunner(pool=own)},
            {"builder": LocalBuilder(pool=own), "runner": LocalRunner()},
        ):
            building, running = asked(**options).pools
            assert building is running
            assert (building is own) == any(part.own_pool is own for part in options.values())
        with pytest.raises(TunerError, match="a worker pool each, so that everything would be built twice"):
            asked(builder=LocalBuilder(pool=own), runner=LocalRunner(pool=other))
