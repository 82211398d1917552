"""Programs of a report: what the best record makes of a kernel, beside what a build without records does."""

from __future__ import annotations

from collections.abc import Sequence

from database import DatabaseError
from ir.error import IRError
from ir.target import Target

from ..compile import default_of_builds
from .numbers import Kernel, Program

_MOST_LINES = 400
"""Of a program that a page shows; unrolled ones have thousands."""


def programs_of(kernels: Sequence[Kernel], count: int) -> list[Program]:
    """The programs of the first ``count`` kernels that have a best record.

    A default schedule takes up to some seconds for each.
    """
    found = [kernel for kernel in kernels if kernel.best is not None][:count]
    return [Program(kernel.name, _best_text(kernel), _default_text(kernel)) for kernel in found]


def _best_text(kernel: Kernel) -> str:
    assert kernel.best is not None
    try:
        return _shortened(kernel.best.schedule_of(kernel.name).mod.script())
    except DatabaseError as error:
        return f"The best record does not apply any more: {error}"


def _default_text(kernel: Kernel) -> str:
    try:
        return _shortened(default_of_builds(kernel.workload.mod, kernel.target or Target("cpu")).mod.script())
    except IRError as error:
        return f"There is no default schedule: {error}"


def _shortened(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= _MOST_LINES:
        return text
    return "\n".join([*lines[:_MOST_LINES], f"# ... and {len(lines) - _MOST_LINES} lines more"])
