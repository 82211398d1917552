"""Random schedules of small kernels."""

from __future__ import annotations

from ..kind import KINDS
from ..schedule_kind import ScheduleKind
from ..schedules import ScheduledKernel, scheduled_kernel


@KINDS.register("schedules")
class Schedules(ScheduleKind):
    """random schedules of small kernels: a primitive is refused or leaves the meaning as it was"""

    def scheduled(self, seed: int) -> ScheduledKernel:
        return scheduled_kernel(seed)
