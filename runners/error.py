"""The errors of this package. They work without the compiler, on machines that only run what was built."""

from __future__ import annotations

from .base_error import BaseError


class RunnerError(BaseError):
    """Something cannot be run as asked."""


class DeviceError(RunnerError, ValueError):
    """A device does not exist, or its library is not installed."""


class ProgramError(RunnerError, ValueError):
    """A program that was to be the reference of its candidates is itself wrong."""


class RunnerTypeError(RunnerError, TypeError):
    """An argument is of the wrong kind or dtype, or cannot be written to."""


class WorkerError(RunnerError, RuntimeError):
    """The worker processes cannot be started."""


class RecordedTimeMissing(RunnerError, LookupError):
    """A replaying runner was asked for a candidate of which it has no recorded time."""
