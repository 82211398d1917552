"""Measure callbacks: told of every trial and batch; progress displays, logs and reports are callbacks."""

from __future__ import annotations

from collections.abc import Sequence

from runners.measure import MeasureResult

from ..search.base import MeasureCandidate
from ..state import TaskState, TuningRun


class MeasureCallback:
    """Override what you want to hear of; an exception in a callback ends the tuning with all results kept."""

    def notice(self, text: str) -> None:
        """Something that the user may want to know, as one line; before or after :meth:`start`."""

    def start(self, task_scheduler: TuningRun) -> None:
        """The tasks are there, nothing has been measured yet."""

    def trial(self, task_scheduler: TuningRun, task: TaskState, result: MeasureResult) -> None:
        """One candidate has its result, which is committed."""

    def apply(
        self,
        task_scheduler: TuningRun,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        results: Sequence[MeasureResult],
    ) -> None:
        """A batch of a task is complete, and the search has learned from it."""

    def finish(self, task_scheduler: TuningRun) -> None:
        """Tuning has ended, by budget, exhaustion or Ctrl-C."""
