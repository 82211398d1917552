"""What can come of one candidate: a kind for each way in which building, running or checking ends."""

from __future__ import annotations

from enum import StrEnum


class ResultKind(StrEnum):
    """How a candidate ended; everything but ``OK`` is a failure that costs one worker process at most."""

    OK = "ok"
    ILLEGAL_SCHEDULE = "illegal_schedule"
    """Its trace or postprocessors do not apply: it should never have been proposed."""
    BUILD_ERROR = "build_error"
    BUILD_TIMEOUT = "build_timeout"
    CRASH = "crash"
    """The process died, as from a memory access out of bounds."""
    RUN_TIMEOUT = "run_timeout"
    RUN_ERROR = "run_error"
    """Running raised an error, as for arguments that do not fit."""
    OUT_OF_MEMORY = "out_of_memory"
    WRONG_RESULT = "wrong_result"
    PROGRAM_ERROR = "program_error"
    """The program itself, before any schedule, is wrong or ended its process: no candidate of it can be judged."""
