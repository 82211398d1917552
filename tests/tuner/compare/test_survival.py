"""A call that would end this process ends a child, and an error says so."""

from __future__ import annotations

import os
import signal

import pytest

from tuner.compare.survival import EndsProcessError, require_survives


def test_a_call_that_ends_its_process_is_told_from_one_that_does_not() -> None:
    with pytest.raises(EndsProcessError, match="SIGFPE"):
        require_survives(lambda: os.kill(os.getpid(), signal.SIGFPE))
    require_survives(lambda: None)


def test_an_error_is_left_to_the_caller() -> None:
    def call() -> None:
        raise ValueError

    require_survives(call)
