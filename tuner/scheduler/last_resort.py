"""The last resort of a task none of whose trials ran and was right: what a build takes without tuning, and the kernel as it was given.

Without it a build from the database would take an unchecked default schedule, perhaps one that the check has just refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from database import TuningRecord, key_of_trace
from schedules import Schedule
from schedules.population import Sketch, SketchSchedule

from ..context import TuneContext
from ..search.base import MeasureCandidate


def last_resorts(context: TuneContext, tried: list[TuningRecord]) -> Iterator[MeasureCandidate]:
    """Candidates that need no search, the fastest first, but for those that were tried."""
    known = {record.trace_key for record in tried}
    structure = Sketch(SketchSchedule(context.mod, seed=0), "last resort")
    for schedule in _schedules(context):
        assert schedule.trace is not None
        if key_of_trace(schedule.trace.as_json()) not in known:
            yield MeasureCandidate(structure, np.empty(0, dtype=np.int64), _schedule=schedule)


def _schedules(context: TuneContext) -> Iterator[Schedule]:
    if context.default is not None:
        yield context.default
    yield Schedule(context.mod, seed=0, error_render_level="none")
