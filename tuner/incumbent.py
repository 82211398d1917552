"""The best candidate of a task, kept as it was built, to be measured again between batches: is it as fast as it was?

The best of many noisy times is partly luck, and times that lie minutes or days apart are not comparable: clocks change with heat, and
neighbours come and go. A batch begins with the best candidate so far; where its time has moved by more than its repeats differ, the new
time is its time from then on, by which others are judged. Nobody else's is corrected by it: the luck of one candidate says nothing
about the others. One that computes something else this time is wrong for good, and the next best takes its place.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from database import TuningRecord
from ir.time_interval import TimeInterval
from runners import Builder, BuilderInput, ResultKind, Runner, RunnerInput
from runners.runner import require_results

from .program import ScheduledProgram

_FRESH_SECONDS = 10.0
"""A machine that was looked at so short a time ago is still the same."""


@dataclass
class Incumbent:
    """The best candidate so far of a task.

    Attributes:
        artifact: what was built of it; None for one of an earlier session, which is built when it is first measured again.
        record: what the database has of it.
        seen_at: when it was measured the last time, in seconds of :func:`time.monotonic`.
    """

    artifact: Any
    record: TuningRecord
    seen_at: float

    @staticmethod
    def of_record(record: TuningRecord) -> Incumbent:
        """The best candidate that a database knows, which may be of any session."""
        return Incumbent(None, record, -math.inf)

    @property
    def interval(self) -> TimeInterval:
        """Its time."""
        return self.record.interval

    def look_again(self, runner: Runner, builder: Builder, reference: Any) -> TuningRecord | None:
        """Measure it again, unless that was done a moment ago or it cannot be built any more.

        A measurement that was disturbed tells nothing, and one that failed is left to the final choice, unless the outputs were wrong.

        Args:
            runner: the one that measures the task.
            builder: the one that builds its candidates.
            reference: the unscheduled module, from which inputs are made.

        Returns:
            the record of a measurement that takes the place of the one before, since that was disturbed or another time, or since the
            outputs are wrong now; mostly there is none.
        """
        if time.monotonic() - self.seen_at < _FRESH_SECONDS:
            return None
        if self.artifact is None and not self._build(builder):
            self.seen_at = math.inf  # it is never looked at
            return None
        target = self.record.target
        device = "cpu" if target is None else target.device_type
        found = runner.measure_again(RunnerInput(self.artifact, device, reference=reference))
        (result,) = require_results(found, 1, f"{type(runner).__name__}.measure_again")
        self.seen_at = time.monotonic()
        if result.kind is ResultKind.WRONG_RESULT:
            wrong = self.record.measured_again(None, failure_kind=str(result.kind))
            wrong.failure_message = f"{result.error_msg}, when it was measured again as the best so far"
            return wrong
        if not result.run_secs or result.metrics.get("disturbance"):
            return None
        if not self.record.metrics.get("disturbance") and TimeInterval.of(result.run_secs).overlaps(
            self.interval
        ):
            return None
        self.record = self.record.measured_again(result.run_secs)
        return self.record

    def _build(self, builder: Builder) -> bool:
        program = ScheduledProgram(self.record.workload.module_json, self.record.trace_json)
        (result,) = builder.build([BuilderInput(program, self.record.target)])
        self.artifact = result.artifact
        return self.artifact is not None
