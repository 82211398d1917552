"""ReplayRunner answers from records."""

from __future__ import annotations

import math

import pytest

from ir import structural_hash
from runners import BuilderInput, ReplayBuilder, ReplayRunner, ResultKind, Runner, RunnerInput, RunnerResult
from tests.programs.nodes import matmul, scaled
from tests.runners.contract import RunnerContract


class TestContract(RunnerContract):
    @pytest.fixture
    def runner(self) -> Runner:
        return ReplayRunner(
            {str(structural_hash(matmul())): 1e-3, str(structural_hash(scaled())): ResultKind.CRASH}
        )

    def good_input(self, runner: Runner) -> RunnerInput:
        return RunnerInput(matmul(), reference=matmul())

    def bad_input(self, runner: Runner) -> RunnerInput:
        return RunnerInput(scaled())


def test_forms_of_times() -> None:
    answers = {1: 0.5, 2: [0.25, 0.75], 3: RunnerResult([2.0], None, cut=True), 4: ResultKind.WRONG_RESULT}
    runner = ReplayRunner(answers, key=lambda artifact: artifact)
    results = [future.result() for future in runner.run([RunnerInput(i) for i in range(1, 6)])]
    assert [result.run_secs for result in results] == [[0.5], [0.25, 0.75], [2.0], None, None]
    assert results[2].cut and results[3].kind is ResultKind.WRONG_RESULT
    assert "no recorded time for candidate 5" in (results[4].error_msg or "")
    assert runner.count == 5
    (future,) = ReplayRunner(lambda artifact: artifact * 2.0).run([RunnerInput(3)])
    assert future.result().run_secs == [6.0]


@pytest.mark.parametrize("secs", [[], [0.0], [1.0, -1.0], [math.nan], [1.0, math.inf]])
def test_what_is_no_time_is_a_failure(secs: list[float]) -> None:
    """Of a runner that somebody has written, say."""
    result = RunnerResult(secs, None, cut=True, verified=True)
    assert result.kind is ResultKind.RUN_ERROR and result.run_secs is None and not result.cut
    assert result.error_msg is not None and result.error_msg.endswith(f"positive, finite seconds, got {secs}")


def test_builder_passes_programs_through() -> None:
    mod = matmul()

    def refuse() -> None:
        raise ValueError("no such loop")

    first, second, third = ReplayBuilder().build([BuilderInput(m, "cpu") for m in (mod, lambda: mod, refuse)])
    assert first.artifact is second.artifact is mod
    assert third.kind is ResultKind.ILLEGAL_SCHEDULE and "no such loop" in (third.error_msg or "")
