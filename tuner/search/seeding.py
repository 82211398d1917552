"""Where a search begins: the best candidates of similar workloads in the database, adapted to the extents at hand.

Workloads are similar when their programs have the same blocks and arguments of the same dtypes, with other extents. A trace of one is
carried over where a sketch has the same steps; each tile becomes the row of the sketch's table that comes closest to it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from database import Database, TuningRecord, Workload
from database.damage import FAULTS
from ir.target import Target
from schedules.population import Sketch

_LOG = logging.getLogger(__name__)

_WORKLOADS, _RECORDS = 4, 8
"""The nearest so many workloads are asked, and the best so many records of each are adapted."""


def similar_rows(
    database: Database, workload: Workload, target: Target, sketches: Sequence[Sketch]
) -> list[tuple[int, np.ndarray]]:
    """(number of the sketch, row int64 [n_columns]) of adapted candidates, the most promising first.

    The best records of all similar workloads come first, those of the nearest before the others, then their second best, and so on.
    """
    adapted = [
        [
            found
            for record in database.fastest_records(other, target, _RECORDS)
            if (found := _adapted(record, sketches))
        ]
        for other in database.similar_workloads(workload, target, _WORKLOADS)
    ]
    ordered = [item[place] for place in range(_RECORDS) for item in adapted if place < len(item)]
    unique: dict[tuple[int, bytes], tuple[int, np.ndarray]] = {}
    for number, row in ordered:
        unique.setdefault((number, row.tobytes()), (number, row))
    return list(unique.values())


def _adapted(record: TuningRecord, sketches: Sequence[Sketch]) -> tuple[int, np.ndarray] | None:
    trace = record.readable_trace
    if trace is None:
        return None
    try:
        for number, sketch in enumerate(sketches):
            row = sketch.adapted_row(trace)
            if row is not None:
                return number, row
    except FAULTS as error:
        _LOG.warning("left out %r, whose decisions are none: %s", record, error)
    return None
