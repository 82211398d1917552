"""The one exception that means "this schedule step is illegal here"; a search catches it and nothing else."""

from __future__ import annotations

from ir.error import IRError


class ScheduleError(IRError, ValueError):
    """A schedule primitive cannot be applied: the message names the primitive, the block or loop, and the reason."""


class RuleError(IRError, TypeError):
    """A rule, schedule function or postprocessor of the user's returned what it must not: a mistake in it, and no illegal step."""


class TraceError(ScheduleError):
    """A trace cannot be read or replayed."""
