"""What stored records teach a cost model: the sketch and the decisions behind each trace, and the features of those.

The records of the tuned workload are taken over by the strategy; those of other workloads on the same target give the model a
start, since its features mean the same for every program.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cost_models import CostModel
from database import Database, DatabaseError, TuningRecord, Workload, standing
from database.damage import FAULTS
from ir import structural_hash
from schedules.population import Sketch
from schedules.space import Structures

from ..context import TuneContext

_LOG = logging.getLogger(__name__)

_ALIKE = 4
"""So many workloads that are most like one that is tuned teach the model first."""


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
        try:
            found = None if trace is None else structures.explaining(trace)
        except FAULTS as error:
            _LOG.warning("left out %r, whose decisions are none: %s", record, error)
            continue
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
    ran: dict[int, list[MeasuredRow]] = {}
    for item in rows:
        if np.isfinite(item.secs):
            ran.setdefault(item.number, []).append(item)
    for number, chosen in sorted(ran.items()):
        features = context.features(sketches[number], np.stack([item.row for item in chosen]))
        seconds, noise = np.array([(item.secs, item.noise) for item in chosen]).T
        model.update_arrays(features, seconds, group, noise)


def pretrain(
    model: CostModel, database: Database, contexts: Sequence[TuneContext], max_records: int = 600
) -> int:
    """Teach a model what the database knows of other workloads than those to be tuned.

    Half of it are the newest records of the workloads most like them, if there are any, the rest are the newest of all.

    Returns:
        how many records it learnt from.
    """
    if not model.learns or not contexts:
        return 0
    context = contexts[0]
    taken = 0
    for records in _lessons(database, contexts, max_records):
        try:
            mod = records[0].workload.mod
        except DatabaseError as error:
            _LOG.warning("left out: %s", error)
            continue
        try:
            structures = context.space_generator.structures(mod, context.target)
        except Exception:  # today's rules refuse a program of an earlier release; a user's function is written for another one
            continue
        rows = measured_rows(list(reversed(records)), structures)
        learn(model, structures.known, rows, context, str(structural_hash(mod)))
        taken += len(rows)
    return taken


def _lessons(
    database: Database, contexts: Sequence[TuneContext], max_records: int
) -> list[list[TuningRecord]]:
    """Records of other workloads, by workload, the newest of each first."""
    target = contexts[0].target
    own = [Workload(item.mod) for item in contexts]
    hashes = {item.shash for item in own}
    alike = {other.shash: other for item in own for other in database.similar_workloads(item, target, _ALIKE)}
    others = [other for shash, other in alike.items() if shash not in hashes]
    chosen: dict[tuple[str, str, float], TuningRecord] = {}
    for other in others:
        for record in database.recent_records(target, max(1, max_records // 2 // len(others)), of=other):
            chosen[_which(record)] = record
    for record in database.recent_records(target, max_records, without=own):
        if len(chosen) < max_records:
            chosen.setdefault(_which(record), record)
    found: dict[str, list[TuningRecord]] = {}
    for record in chosen.values():
        found.setdefault(record.workload.shash, []).append(record)
    return list(found.values())


def _which(record: TuningRecord) -> tuple[str, str, float]:
    """What tells a record of a target from others."""
    return record.workload.shash, record.trace_hash, record.created_at
