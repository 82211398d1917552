"""Random schedules of random reductions."""

from __future__ import annotations

from ..kind import KINDS
from ..reductions import scheduled_reduction
from ..schedule_kind import ScheduleKind
from ..schedules import ScheduledKernel


@KINDS.register("reductions")
class Reductions(ScheduleKind):
    """random schedules of reductions whose variables are bound to anything: digits, repeated, late, downwards, under conditions"""

    def scheduled(self, seed: int) -> ScheduledKernel:
        return scheduled_reduction(seed)
