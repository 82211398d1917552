"""RoundRobin: every task gets a batch in turn."""

from __future__ import annotations

from collections.abc import Sequence

from ..callback.base import MeasureCallback
from .base import TaskScheduler


@TaskScheduler.kinds.register("round-robin")
class RoundRobin(TaskScheduler):
    """Takes turns among unfinished tasks."""

    def __init__(self, measure_callbacks: Sequence[MeasureCallback] = ()) -> None:
        super().__init__(measure_callbacks)
        self._last = -1

    def next_task_id(self) -> int:
        for step in range(1, len(self.tasks) + 1):
            candidate = (self._last + step) % len(self.tasks)
            if not self.tasks[candidate].finished:
                self._last = candidate
                return candidate
        return -1
