"""Where a search begins: the best candidates of similar workloads in the database, adapted to the extents at hand.

Workloads are similar when their programs have the same blocks and arguments of the same dtypes, with other extents. A trace of one is
carried over where a sketch has the same steps; each tile becomes the row of the sketch's table that comes closest to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from database import Database, TuningRecord, Workload, by_speed, target_key
from database.workload import WorkloadSummary
from ir.target import Target
from schedules.population import Sketch

_WORKLOADS, _RECORDS = 4, 8
"""The nearest so many workloads are asked, and the best so many records of each are adapted."""


def shape_distance(first: WorkloadSummary, second: WorkloadSummary) -> float:
    """Sum of the doublings between the extents of two workloads; infinite where their programs are not alike.

    >>> a = WorkloadSummary("main", ("C",), (("A", "float32", (64, 64)), ("C", "float32", (64,))))
    >>> b = WorkloadSummary("main", ("C",), (("A", "float32", (32, 64)), ("C", "float32", (32,))))
    >>> shape_distance(a, b)
    2.0
    """
    if len(first.args) != len(second.args) or first.blocks != second.blocks:
        return math.inf
    total = 0.0
    for (_, dtype, shape), (_, other_dtype, other_shape) in zip(first.args, second.args, strict=True):
        if dtype != other_dtype or len(shape) != len(other_shape):
            return math.inf
        for extent, other in zip(shape, other_shape, strict=True):
            if isinstance(extent, int) and isinstance(other, int) and extent > 0 and other > 0:
                total += abs(math.log2(extent / other))
            elif extent != other:
                return math.inf
    return total


def similar_rows(
    database: Database, workload: Workload, target: Target, sketches: Sequence[Sketch]
) -> list[tuple[int, np.ndarray]]:
    """(number of the sketch, row int64 [n_columns]) of adapted candidates, the most promising first.

    The best records of all similar workloads come first, those of the nearest before the others, then their second best, and so on.
    """
    groups: dict[str, list[TuningRecord]] = {}
    distances: dict[str, float] = {}
    key = target_key(target)
    for record in database.get_all_tuning_records():
        shash = record.workload.shash
        if shash == workload.shash or record.place[1] != key or not record.is_valid():
            continue
        if shash not in distances:
            distances[shash] = shape_distance(workload.summary, record.workload.summary)
        if math.isfinite(distances[shash]):
            groups.setdefault(shash, []).append(record)
    nearest = sorted(groups, key=lambda shash: distances[shash])[:_WORKLOADS]
    adapted = [
        [found for record in by_speed(groups[shash])[:_RECORDS] if (found := _adapted(record, sketches))]
        for shash in nearest
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
    for number, sketch in enumerate(sketches):
        row = sketch.adapted_row(trace)
        if row is not None:
            return number, row
    return None
