"""The best candidate of a task, kept as it was built, to be measured again between batches: is the machine still what it was?

Times that lie minutes or days apart are not comparable: clocks change with heat, and neighbours come and go. A batch begins with the best
candidate so far; where its time has moved by more than its repeats differ, the times of that batch are compared with earlier ones
after division by the factor, which is kept with their records.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from database import Workload
from ir.target import Target
from ir.time_interval import TimeInterval
from runners import Builder, BuilderInput, Runner, RunnerInput

from .program import ScheduledProgram

_FRESH_SECONDS = 10.0
"""A machine that was looked at so short a time ago is still the same."""


@dataclass
class Incumbent:
    """The best candidate so far of a task.

    Attributes:
        artifact: what was built of it.
        interval: its time, comparable with those of the task's other records.
        seen_at: when it was measured the last time, in seconds of :func:`time.monotonic`.
        drift: how many times longer it took then.
    """

    artifact: Any
    interval: TimeInterval
    seen_at: float
    drift: float = 1.0

    @staticmethod
    def measured(artifact: Any, run_secs: Sequence[float], drift: float) -> Incumbent:
        """A candidate that has just become the best, on a machine that has drifted so much since the first of its task."""
        return Incumbent(artifact, TimeInterval.of(run_secs).scaled(1.0 / drift), time.monotonic(), drift)

    @staticmethod
    def of_record(
        trace_json: Any, interval: TimeInterval, workload: Workload, target: Target, builder: Builder
    ) -> Incumbent | None:
        """The best candidate of earlier sessions, built again; None if that fails."""
        program = ScheduledProgram(workload.module_json, trace_json)
        (result,) = builder.build([BuilderInput(program, target)])
        if result.artifact is None:
            return None
        return Incumbent(result.artifact, interval, seen_at=-float("inf"))

    def look_again(self, runner: Runner, reference: Any) -> bool:
        """Measure it again, unless that was done a moment ago; whether ``drift`` has changed.

        A measurement that was disturbed itself tells nothing.

        Args:
            runner: the one that measures the task.
            reference: the unscheduled module, from which inputs are made.
        """
        if time.monotonic() - self.seen_at < _FRESH_SECONDS:
            return False
        result = runner.measure_again(RunnerInput(self.artifact, reference=reference))
        self.seen_at = time.monotonic()
        if not result.run_secs or result.metrics.get("disturbance"):
            return False
        before, now = self.drift, TimeInterval.of(result.run_secs)
        self.drift = 1.0 if now.overlaps(self.interval) else now.middle / self.interval.middle
        return self.drift != before
