"""What stored records teach a cost model: the sketch and the decisions behind each trace, and the features of those.

The records of the tuned workload are taken over by the strategy; those of other workloads on the same target give the model a
start, since its features mean the same for every program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cost_models import CostModel
from database import Database, TuningRecord, Workload, standing, target_key
from ir import structural_hash
from schedules.population import Sketch
from schedules.space import Structures

from ..context import TuneContext


class MeasuredRow(NamedTuple):
    """What is known of one candidate.

    Attributes:
        number: of the sketch.
        row: decisions, int64 [n_columns].
        secs: seconds, infinite for a failure.
        noise: how certain they are (:func:`ir.time_interval.noise_of`).
        again: whether it takes the place of what was known of the candidate before.
    """

    number: int
    row: np.ndarray
    secs: float
    noise: float
    again: bool = False


def measured_rows(records: Sequence[TuningRecord], structures: Structures) -> list[MeasuredRow]:
    """The records whose traces one of the structures explains."""
    return [
        MeasuredRow(number, row, record.secs, record.interval.noise, record.is_decisive)
        if record.is_valid()
        else MeasuredRow(number, row, float("inf"), 0.0, record.is_decisive)
        for record, number, row in explained(standing(records), structures)
    ]


def explained(
    records: Sequence[TuningRecord], structures: Structures
) -> Iterator[tuple[TuningRecord, int, np.ndarray]]:
    """Each record whose trace one of the structures explains, with that one's number and the decisions int64 [n_columns].

    A peer of a newer version may have made some that this one cannot read: they are left out.
    """
    for record in records:
        trace = record.readable_trace
        found = None if trace is None else structures.explaining(trace)
        if found is not None:
            yield record, *found


def learn(
    model: CostModel,
    sketches: Sequence[Sketch],
    rows: Sequence[MeasuredRow],
    context: TuneContext,
    group: str,
) -> None:
    """Update a model with those of the rows that ran, on the machine of a context; ``group`` names the workload."""
    for number, sketch in enumerate(sketches):
        chosen = [item for item in rows if item.number == number and np.isfinite(item.secs)]
        if chosen:
            features = context.features(sketch, np.stack([item.row for item in chosen]))
            seconds, noise = np.array([(item.secs, item.noise) for item in chosen]).T
            model.update_arrays(features, seconds, group, noise)


def pretrain(
    model: CostModel, database: Database, contexts: Sequence[TuneContext], max_records: int = 600
) -> int:
    """Teach a model what the database knows of other workloads than those to be tuned, the newest first.

    Returns:
        how many records it learnt from.
    """
    if not model.learns or not contexts:
        return 0
    context = contexts[0]
    own = {Workload(item.mod).shash for item in contexts}
    key = target_key(context.target)
    by_workload: dict[str, list[TuningRecord]] = {}
    for record in reversed(database.get_all_tuning_records()):
        if record.workload.shash not in own and record.place[1] == key:
            by_workload.setdefault(record.workload.shash, []).append(record)
    taken = 0
    for records in by_workload.values():
        if taken >= max_records:
            break
        mod = records[0].workload.mod
        try:
            structures = context.space_generator.structures(mod, context.target)
        except Exception:  # today's rules refuse a program of an earlier release; a user's function is written for another one
            continue
        rows = measured_rows(list(reversed(records)), structures)
        learn(model, structures.known, rows, context, str(structural_hash(mod)))
        taken += len(rows)
    return taken
