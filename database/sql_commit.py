"""How records get into the tables: many in one transaction, none twice, and each told from those that it supersedes.

Writers of one workload take turns, so that nothing comes between the look at what is known of a candidate and the record of it. The
unique index of the table holds against whoever does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, insert, or_, select, update
from sqlalchemy.orm import Session as OrmSession

from .duplicates import FIRST, Candidate, grade, key_of_second
from .record import WRONG_RESULT, TuningRecord
from .schema import RecordRow, WorkloadRow
from .sql_rows import values_of

_TOGETHER = 200
"""So many hashes a statement names: databases bound the number of parameters."""


_Place = tuple[int, int | None]
"""Rows of a workload and of a target."""
_Key = tuple[int, int | None, str]
"""A place and the hash of a trace."""


@dataclass(frozen=True)
class Offered:
    """A record and the rows of its workload and target."""

    record: TuningRecord
    workload_id: int
    target_id: int | None

    @property
    def place(self) -> _Place:
        """What it competes for."""
        return self.workload_id, self.target_id

    @cached_property
    def key(self) -> _Key:
        """Its candidate."""
        return *self.place, self.record.trace_hash


def take_turns(session: OrmSession, workloads: Iterable[int]) -> dict[int, str]:
    """Wait until no other transaction writes records of some workloads, and keep others waiting to the end of this one.

    Whoever asks what has come since (get_records) goes by the order of ids, and a server gives an id before the commit: records of one
    workload are written one after another, so that none appears before one that is already seen.

    Returns:
        the hash of each workload that is there.
    """
    rows = select(WorkloadRow.id, WorkloadRow.shash).where(WorkloadRow.id.in_(sorted(set(workloads))))
    # In one order everywhere: of two that wait for each other, a server lets neither go on.
    locked = rows.order_by(WorkloadRow.id).with_for_update(key_share=True)
    return {row: shash for row, shash in session.execute(locked)}


def add_records(session: OrmSession, offered: Sequence[Offered]) -> int:
    """Add those of some records that are no duplicates, in their order; how many. Their workloads' turn is this transaction's."""
    candidates = _known_candidates(session, offered)
    added: dict[_Key, list[dict[str, Any]]] = {}
    ordered: list[dict[str, Any]] = []
    for item in offered:
        candidate = candidates[item.key]
        record = candidate.admitted(item.record)
        if record is None:
            continue
        standing = candidate.keep(record)
        rows = added.setdefault(item.key, [])
        if standing.supersedes:
            for earlier in rows:
                earlier["superseded"] = True
            session.execute(
                update(RecordRow)
                .where(
                    _of_place(item.place),
                    RecordRow.trace_hash == item.key[2],
                    RecordRow.superseded.is_(False),
                )
                .values(superseded=True)
            )
        rows.append({**values_of(record, *item.place), "superseded": standing.is_superseded})
        ordered.append(rows[-1])
    if ordered:
        session.execute(insert(RecordRow), ordered)
    return len(ordered)


def _known_candidates(session: OrmSession, offered: Sequence[Offered]) -> dict[_Key, Candidate]:
    """What the table has of the candidates of some records."""
    found: dict[_Key, Candidate] = {}
    by_place: dict[_Place, list[Offered]] = {}
    for item in offered:
        found[item.key] = Candidate()
        by_place.setdefault(item.place, []).append(item)
    for place, items in by_place.items():
        for begin in range(0, len(items), _TOGETHER):
            some = items[begin : begin + _TOGETHER]
            for row in session.execute(_known_rows(place, [item.record for item in some])):
                is_wrong = row.failure_kind == WRONG_RESULT
                grade_of_row = grade(
                    is_wrong=is_wrong, ran=row.mean_secs is not None, verified=row.verified, cut=row.cut
                )
                stands = (row.remeasured or is_wrong) and not row.superseded
                rank = (is_wrong, row.created_at) if stands else None
                found[(*place, row.trace_hash)].recall(row.measurement, grade_of_row, rank)
    return found


def _known_rows(place: _Place, records: Sequence[TuningRecord]) -> Select[*tuple[Any, ...]]:
    """The rows that decide about records of one workload and target, without what is long in them."""
    seconds = {key_of_second(record) for record in records}
    return select(
        RecordRow.trace_hash,
        RecordRow.measurement,
        RecordRow.remeasured,
        RecordRow.superseded,
        RecordRow.verified,
        RecordRow.cut,
        RecordRow.failure_kind,
        RecordRow.mean_secs,
        RecordRow.created_at,
    ).where(
        _of_place(place),
        RecordRow.trace_hash.in_({record.trace_hash for record in records}),
        or_(RecordRow.superseded.is_(False), RecordRow.measurement.in_({FIRST, *seconds})),
    )


def _of_place(place: _Place) -> ColumnElement[bool]:
    workload, target = place
    return and_(
        RecordRow.workload_id == workload,
        RecordRow.target_id.is_(None) if target is None else RecordRow.target_id == target,
    )
