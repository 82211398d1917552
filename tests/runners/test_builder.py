"""What a call that did not return says: which kind of failure it is, and whose."""

from __future__ import annotations

import pytest

from runners import ResultKind
from runners.builder import failure_kind, message_of
from runners.candidate import REFERENCE_PHASE
from runners.pool import Outcome


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
