"""What a call that did not return says: which kind of failure it is, and whose."""

from __future__ import annotations

from typing import Any

import pytest

from ir.target import Target
from runners import ResultKind, RunnerError
from runners.builder import failure_kind, message_of
from runners.candidate import REFERENCE_PHASE, build_candidate
from runners.outcome import Outcome
from tests.programs.nodes import matmul


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome("died", error="SIGFPE", phase=REFERENCE_PHASE), ResultKind.PROGRAM_ERROR),
        (Outcome("timeout", phase=REFERENCE_PHASE), ResultKind.PROGRAM_ERROR),
        (Outcome("raised", error="ProgramError", phase="run"), ResultKind.PROGRAM_ERROR),
        (Outcome("died", error="SIGKILL", phase=REFERENCE_PHASE), ResultKind.OUT_OF_MEMORY),
        (Outcome("died", error="SIGFPE", phase="run"), ResultKind.CRASH),
        (Outcome("timeout", phase="run"), ResultKind.RUN_TIMEOUT),
    ],
)
def test_failures_of_the_program_are_not_those_of_a_candidate(outcome: Outcome, kind: ResultKind) -> None:
    assert failure_kind(outcome, in_build=False) is kind
    assert ("the program itself" in message_of(outcome)) == (kind is ResultKind.PROGRAM_ERROR)


@pytest.mark.parametrize("phase", ["request", "schedule", "build"])
def test_a_build_that_takes_too_long_is_that_in_every_phase(phase: str) -> None:
    assert failure_kind(Outcome("timeout", phase=phase), in_build=True) is ResultKind.BUILD_TIMEOUT
    expected = ResultKind.RUN_TIMEOUT if phase == "request" else ResultKind.BUILD_TIMEOUT
    assert failure_kind(Outcome("timeout", phase=phase), in_build=False) is expected


def builds_nothing(mod: object, target: object) -> Any:
    """A build function that forgets to return what it has built."""


def test_a_build_function_that_returns_no_function_is_named() -> None:
    """It was taken for an error of the program."""
    with pytest.raises(
        RunnerError, match="f_build='builds_nothing' gives a function of numpy arrays, got NoneType"
    ):
        build_candidate(0, matmul(), Target("cpu"), builds_nothing, 1.0)
