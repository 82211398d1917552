"""The contract of runners: a class that every implementation's tests derive from.

A subclass says how to make a runner (the fixture ``runner``) and an input that it can measure (``good_input``) or not (``bad_input``).
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from runners import ResultKind, Runner, RunnerFuture, RunnerInput, RunnerResult


class RunnerContract:
    @pytest.fixture
    def runner(self) -> Runner:
        raise AssertionError("a subclass provides the fixture `runner`")

    def good_input(self, runner: Runner) -> RunnerInput:
        raise AssertionError("a subclass provides an input that can be measured")

    def bad_input(self, runner: Runner) -> RunnerInput:
        raise AssertionError("a subclass provides an input that fails")

    def test_nothing_to_do(self, runner: Runner) -> None:
        assert runner.run([]) == []

    def test_futures_come_in_order(self, runner: Runner) -> None:
        futures = runner.run([self.good_input(runner), self.bad_input(runner), self.good_input(runner)])
        assert [type(future) for future in futures] == [RunnerFuture] * 3
        kinds = [future.result().kind for future in futures]
        assert kinds[0] is kinds[2] is ResultKind.OK
        assert kinds[1] is not ResultKind.OK

    def test_result_of_a_good_candidate(self, runner: Runner) -> None:
        (future,) = runner.run([self.good_input(runner)])
        result = future.result()
        assert future.done()
        check_invariants(result)
        assert result.run_secs and all(math.isfinite(secs) and secs > 0 for secs in result.run_secs)

    def test_result_of_a_bad_candidate(self, runner: Runner) -> None:
        (future,) = runner.run([self.bad_input(runner)])
        result = future.result()
        check_invariants(result)
        assert result.run_secs is None
        assert result.error_msg

    def test_result_can_be_read_twice(self, runner: Runner) -> None:
        (future,) = runner.run([self.good_input(runner)])
        first: Any = future.result()
        assert future.result() is first


def check_invariants(result: RunnerResult) -> None:
    assert (result.run_secs is None) != (result.error_msg is None)
    assert (result.kind is ResultKind.OK) == (result.run_secs is not None)
    assert not (result.cut and result.run_secs is None)
