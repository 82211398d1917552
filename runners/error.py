"""The errors of this package. They work without the compiler, on machines that only run what was built."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ir.error import IRError as _Base
else:
    try:
        from ir.error import IRError as _Base
    except ModuleNotFoundError:  # a machine with numpy and this folder only
        _Base = Exception


class RunnerError(_Base):
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
