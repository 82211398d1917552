"""Runners, builders, cost models and arguments that are not what they should be: the search goes on, or says whose answer is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cost_models import CostModel, CostModelError, PyCostModel
from database import TuningRecord
from ir import IRModule
from ir.error import IRError
from ir.target import Target
from runners import (
    Builder,
    BuilderResult,
    LocalBuilder,
    MeasureRequest,
    MeasureResult,
    ReplayBuilder,
    ReplayRunner,
    ResultKind,
    Runner,
    RunnerError,
    RunnerFuture,
    RunnerResult,
    measure_candidates,
)
from schedules.space import PostOrderApply
from tests.programs.expressions import matmul
from tuner import EvolutionarySearch, MeasureCallback, TunerError, tune_tir
from tuner.search.schedule_model import checked_scores


class _Runner(Runner):
    """Answers what a function says."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._answer = run

    def run(self, runner_inputs: Any) -> Any:
        return self._answer(runner_inputs)


class _Builder(ReplayBuilder):
    """Answers what a function makes of right results."""

    def __init__(self, build: Callable[[list[Any]], Any]) -> None:
        self._answer = build

    def build(self, build_inputs: Any) -> Any:
        return self._answer(super().build(build_inputs))

    def unbuilt(self, build_input: Any) -> Any:
        return build_input


def _future(result: Any) -> RunnerFuture:
    return RunnerFuture(lambda: True, lambda: result)


def tuned(trials: Any = 4, **options: Any) -> list[TuningRecord]:
    """The records of a search that measures nothing."""
    options = {"builder": ReplayBuilder(), "runner": ReplayRunner(lambda _: 1e-3), **options}
    store = tune_tir(matmul(16), "cpu", None, trials, measure_callbacks=[], calibrate="never", **options)
    return store.get_all_tuning_records()


def measured(runner: Runner, builder: Builder | None = None) -> MeasureResult:
    """What comes of one candidate."""
    requests = [MeasureRequest(IRModule({"main": matmul(16)}), Target("cpu"))]
    ((_, result),) = measure_candidates(requests, builder or ReplayBuilder(), runner)
    return result


# ---- runners -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "times", [np.array([1e-3, 3e-3]), 2e-3, np.float64(2e-3), np.array([2e-3], "float32")]
)
def test_times_may_be_an_array_or_one_number(times: Any) -> None:
    assert measured(_Runner(lambda _: [_future(RunnerResult(times, None))])).secs == pytest.approx(2e-3)


@pytest.mark.parametrize(
    "times", ["1e-3", ["fast"], [None], [[1e-3, 1e-3]], {"mean": 1e-3}, (item for item in [1e-3])]
)
def test_what_is_no_number_is_a_failure(times: Any) -> None:
    result = RunnerResult(times, None)
    assert result.kind is ResultKind.RUN_ERROR and "the runner gave no time" in (result.error_msg or "")


@pytest.mark.parametrize("metrics", [{"energy": math.nan}, {"energy": -1.0}, {"energy": "much"}, None])
def test_measures_that_are_none_are_a_failure(metrics: Any) -> None:
    result = measured(_Runner(lambda _: [_future(RunnerResult([1e-3], None, metrics=metrics))]))
    assert result.kind is ResultKind.RUN_ERROR and "the runner gave no measures" in (result.error_msg or "")


def test_a_result_has_no_times_and_a_failure() -> None:
    with pytest.raises(RunnerError, match="times, or a message and the kind of failure"):
        RunnerResult([1e-3], None, ResultKind.CRASH)


@pytest.mark.parametrize(
    "answer",
    [None, [], [_future(RunnerResult([1e-3], None))] * 2, [RunnerResult([1e-3], None)], [_future(None)]],
)
def test_what_is_no_result_for_each_candidate_names_the_runner(answer: Any) -> None:
    with pytest.raises(RunnerError, match=r"_Runner\.run gives a Runner"):
        measured(_Runner(lambda _: answer))


@pytest.mark.parametrize("count", [1, 5])
def test_a_final_choice_has_a_result_for_each_candidate(count: int) -> None:
    class Short(ReplayRunner):
        def final_choice(self, artifacts: Any, reference: Any = None, confirmed: Any = ()) -> Any:
            return [RunnerResult([1e-3], None)] * count

    with pytest.raises(
        RunnerError, match=r"Short\.final_choice gives a RunnerResult for each candidate, 4 here"
    ):
        tuned(builder=_Builder(lambda built: built), runner=Short(lambda _: 1e-3))


def test_a_second_measurement_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(ReplayRunner):
        measures_again = True

        def measure_again(self, item: Any) -> Any:
            return None

    monkeypatch.setattr("tuner.incumbent._FRESH_SECONDS", -1.0)
    with pytest.raises(RunnerError, match=r"Silent\.measure_again gives a RunnerResult"):
        tuned(runner=Silent(lambda _: 1e-3), num_trials_per_iter=2)


# ---- design spaces -------------------------------------------------------------------------------------------------


def _broken(*_: object) -> None:
    raise RuntimeError("no such luck")


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace", "optuna:random"])
@pytest.mark.parametrize("space", [_broken, PostOrderApply(sch_rules=[_broken])], ids=["function", "rule"])
def test_what_a_space_raises_is_what_the_search_raises(strategy: str, space: Any) -> None:
    """The strategy that has not begun has nothing to end."""
    with pytest.raises(RuntimeError, match="no such luck"):
        tuned(strategy=strategy, space=space)


# ---- builders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [lambda built: built[1:], lambda built: [*built, *built], lambda _: [None]]
)
def test_what_is_no_build_of_each_candidate_names_the_builder(change: Callable[[list[Any]], Any]) -> None:
    """With one result too few the others would be taken for those of the candidates before them."""
    with pytest.raises(RunnerError, match=r"_Builder\.build gives a BuilderResult for each candidate"):
        measured(ReplayRunner(lambda _: 1e-3), _Builder(change))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (BuilderResult(None, None), "neither an artifact nor a message"),
        (BuilderResult(None, "no compiler"), "no compiler"),
        (BuilderResult(1, None, metrics={"code_size": math.nan}), "the builder gave no measures"),
    ],
)
def test_a_build_without_an_artifact_is_a_failure(result: BuilderResult, message: str) -> None:
    found = measured(ReplayRunner(lambda _: 1e-3), _Builder(lambda _: [result]))
    assert found.kind is ResultKind.BUILD_ERROR and message in (found.error_msg or "")


def test_a_build_function_of_a_notebook_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def f_build(mod: Any, target: Any) -> Any: ...

    monkeypatch.setattr(f_build, "__module__", "__main__")
    with pytest.raises(RunnerError, match="cannot import f_build='f_build' of a script or a notebook"):
        LocalBuilder(f_build=f_build)


# ---- cost models ---------------------------------------------------------------------------------------------------


class _Model(CostModel):
    """Scores are what a function makes of their number."""

    def __init__(self, scores: Callable[[int], Any]) -> None:
        self._scores = scores

    def load(self, path: Any) -> None: ...

    def save(self, path: Any) -> None: ...

    def update_arrays(self, features: Any, seconds: Any, group: str = "", noise: Any = None) -> None: ...

    def predict_arrays(self, features: Any) -> Any:
        return self._scores(len(features))


class _ModelOnSchedules(PyCostModel):
    def __init__(self, scores: Callable[[int], Any]) -> None:
        super().__init__()
        self._scores = scores

    def load(self, path: Any) -> None: ...

    def save(self, path: Any) -> None: ...

    def update(self, context: Any, candidates: Any, results: Any) -> None: ...

    def predict(self, context: Any, candidates: Any) -> Any:
        return self._scores(len(candidates))


def _searched(model: CostModel) -> int:
    store = tune_tir(
        matmul(64), "cpu", None, 4, builder=ReplayBuilder(), runner=ReplayRunner(lambda _: 1e-3), cost_model=model,
        strategy=EvolutionarySearch(population_size=64), num_trials_per_iter=2, measure_callbacks=[], calibrate="never",
    )  # fmt: skip
    return len(store)


@pytest.mark.parametrize(
    "scores", [np.zeros(3), np.zeros((4, 1)), np.array(["a"] * 4), None, 0.0, [[0.0]] * 3]
)
def test_scores_that_are_none_name_the_model(scores: Any) -> None:
    with pytest.raises(
        CostModelError, match=r"_Model\.predict gives one number for each candidate, float64 \[4\]"
    ):
        checked_scores(_Model(lambda _: None), scores, 4, "predict")


def test_scores_without_a_number_are_the_worst() -> None:
    found = checked_scores(_Model(lambda _: None), [np.nan, 1, -np.inf, np.inf], 4, "predict")
    assert np.isfinite(found).all() and found.argmax() == 3 and found[0] == found[2] < found[1]


@pytest.mark.parametrize("make", [_Model, _ModelOnSchedules])
def test_a_search_says_whose_scores_are_wrong(make: Callable[..., CostModel]) -> None:
    with pytest.raises(CostModelError, match=f"{make.__name__}.*one number for each candidate"):
        _searched(make(lambda count: np.zeros((count, 1))))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", [_Model, _ModelOnSchedules])
def test_a_search_goes_on_without_scores(make: Callable[..., CostModel]) -> None:
    assert _searched(make(lambda count: np.where(np.arange(count) % 2, np.nan, -np.inf))) == 4


def test_a_model_may_answer_with_a_list_of_integers() -> None:
    assert _searched(_Model(lambda count: list(range(count)))) == 4


# ---- arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": "4"}, "number of trials must be a whole number, got '4'"),
        ({"trials": 2.5}, "number of trials must be a whole number"),
        ({"trials": None}, "number of trials must be a whole number"),
        ({"num_trials_per_iter": 0}, "num_trials_per_iter must be at least 1"),
        ({"num_trials_per_iter": 2.5}, "num_trials_per_iter must be a whole number"),
        ({"max_trials_per_task": 0}, "max_trials_per_task must be at least 1"),
        ({"max_seconds": math.nan}, "time budget must be positive, got nan"),
        ({"max_seconds": "30m"}, "time budget must be a number of seconds, got '30m'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"strategy": None}, "a search strategy is given by its name or as an instance, got None"),
        (
            {"runner": ReplayRunner},
            "a runner is given by its name or as an instance, got the class ReplayRunner",
        ),
        ({"builder": None}, "a builder is given by its name or as an instance"),
        ({"cost_model": _Model}, "a cost model is given by its name or as an instance, got the class _Model"),
        ({"task_scheduler": None}, "a task scheduler is given by its name or as an instance"),
        ({"space": None}, "a space generator is given by its name or as an instance"),
    ],
)
def test_arguments_that_are_none_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(IRError, match=message):
        tuned(**options)


@pytest.mark.parametrize("callbacks", [MeasureCallback(), [print]])
def test_callbacks_are_a_list_of_callbacks(callbacks: Any) -> None:
    with pytest.raises(TunerError, match="measure_callbacks is a list of instances of MeasureCallback"):
        tune_tir(matmul(16), "cpu", None, 1, measure_callbacks=callbacks)


@pytest.mark.parametrize(
    "options",
    [
        {"population_size": -5},
        {"population_size": 0},
        {"genetic_num_iters": 1.5},
        {"exhaustive_limit": -1},
        {"genetic_mutate_prob": 2.0},
        {"init_measured_ratio": -1.0},
        {"diversity": math.nan},
        {"diversity": "wide"},
        {"seed_share": "some"},
        {"learn_failures": "no"},
        {"from_default": 3},
    ],
)
def test_numbers_of_a_search_that_are_none_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(TunerError, match=next(iter(options))):
        EvolutionarySearch(**options)


def test_numbers_of_numpy_are_numbers() -> None:
    assert len(tuned(np.int64(2), seed=np.int64(3), max_seconds=np.float32(60.0))) == 2
