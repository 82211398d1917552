"""Our types as messages, and messages that make no sense."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners import EvaluatorConfig, ResultKind
from runners.candidate import RunSettings
from runners.rpc.messages import (
    MessageError,
    arguments_message,
    arguments_of,
    best_of,
    result_message,
    result_of,
    settings_message,
    settings_of,
)
from runners.rpc.proto import device_pb2 as pb
from runners.runner import RunnerResult

whole = st.integers(1, 10_000)
secs = st.floats(1e-3, 1e4)


@given(
    st.builds(EvaluatorConfig, whole, whole, st.integers(0, 1000), st.booleans(), st.integers(0, 1 << 40)),
    secs,
    st.floats(1.0, 100.0) | st.just(math.inf),
    st.floats(0.0, 10.0),
    secs,
    st.booleans(),
)
def test_settings(config, timeout, ratio, cooldown, reference_timeout, energy) -> None:
    settings = RunSettings(config, timeout, ratio, cooldown, reference_timeout, energy)
    assert settings_of(settings_message(settings)) == settings


def _settings(**changes: object) -> pb.Settings:
    evaluator = pb.Evaluator(number=1, repeat=1)
    told = {"timeout_sec": 1.0, "cut_ratio": 2.0, "reference_timeout_sec": 1.0, "evaluator": evaluator}
    return pb.Settings(**{**told, **changes})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"timeout_sec": 0.0}, "timeout_sec is between"),
        ({"timeout_sec": math.nan}, "timeout_sec is between"),
        ({"timeout_sec": math.inf}, "timeout_sec is between"),
        ({"timeout_sec": -1.0}, "timeout_sec is between"),
        ({"cooldown_sec": 1e9}, "cooldown_sec is between"),
        ({"reference_timeout_sec": math.nan}, "reference_timeout_sec is between"),
        ({"cut_ratio": 0.5}, "cut_ratio is at least 1"),
        ({"cut_ratio": math.nan}, "cut_ratio is at least 1"),
        ({"evaluator": pb.Evaluator(number=0, repeat=1)}, "number is between"),
        ({"evaluator": pb.Evaluator(number=1, repeat=4_000_000_000)}, "repeat is between"),
        ({"evaluator": None}, "number is between"),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, object], says: str) -> None:
    with pytest.raises(MessageError, match=says):
        settings_of(_settings(**changes))


@pytest.mark.parametrize("best", [0.0, -1.0, math.nan, math.inf])
def test_a_best_time_is_a_time(best: float) -> None:
    with pytest.raises(MessageError, match="best time"):
        best_of(pb.MeasureRequest(best_secs=best, best_noise=0.1))
    with pytest.raises(MessageError, match="best time"):
        best_of(pb.MeasureRequest(best_secs=1.0, best_noise=-best - 1 if best > -1 else math.nan))
    assert best_of(pb.MeasureRequest()) is None
    assert best_of(pb.MeasureRequest(best_secs=2.0, best_noise=0.1)).middle == pytest.approx(2.0)


RESULTS = [
    RunnerResult(
        (1.0, 2.0), None, verified=True, baseline_secs=3.0, check="18", check_secs=0.5, confirmed=True
    ),
    RunnerResult((1.0,), None, cut=True, metrics={"energy": 2.5}),
    *[RunnerResult(None, "why", kind) for kind in ResultKind if kind is not ResultKind.OK],
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda item: str(item.kind))
def test_results(result: RunnerResult) -> None:
    assert result_of(result_message(result)) == result


def test_a_check_that_is_left_can_be_asked_for() -> None:
    def confirm() -> RunnerResult:
        return RESULTS[0]

    told = result_message(RunnerResult((1.0,), None, confirm=confirm))
    assert result_of(told, confirm).confirm is confirm
    assert result_of(result_message(RESULTS[0]), confirm).confirm is None


@pytest.mark.parametrize(
    "message",
    [pb.MeasureReply(), pb.MeasureReply(kind="splendid", run_secs=[1.0])],
)
def test_results_of_unknown_kinds(message: pb.MeasureReply) -> None:
    with pytest.raises(MessageError, match="unknown kind"):
        result_of(message)


@pytest.mark.parametrize("times", [[], [0.0], [-1.0], [math.nan], [math.inf, 1.0]])
def test_times_that_are_none_are_failures(times: list[float]) -> None:
    result = result_of(pb.MeasureReply(kind="ok", run_secs=times))
    assert result.kind is ResultKind.RUN_ERROR and result.run_secs is None


def test_arguments() -> None:
    class Told:
        dtype, shape = "float32", (2, 3)

    request = pb.MeasureRequest(args_info=arguments_message([Told()]), has_args_info=True)
    (found,) = arguments_of(request) or []
    assert (found.dtype, found.shape) == ("float32", (2, 3))
    assert arguments_of(pb.MeasureRequest()) is None
    assert arguments_of(pb.MeasureRequest(has_args_info=True)) == []
