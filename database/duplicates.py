"""Which records of one candidate a database keeps: its first measurement once, and each second measurement once.

A candidate is a workload, a target and a trace. Two tuners that measured it at the same moment, or two databases that are merged, both come
with a first measurement; it counts as one trial, so the first that comes stands and the other is refused. One that says more, since
it was wrong, ran where the other failed, or was checked where the other was not, is kept as a second measurement.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .record import TuningRecord

FIRST = ""
"""The :func:`measurement_key` of a first measurement: there is one of a candidate."""


def measurement_key(record: TuningRecord) -> str:
    """What tells a record from others of its candidate, at most 32 characters."""
    return key_of_second(record) if record.remeasured else FIRST


def key_of_second(record: TuningRecord) -> str:
    """The :func:`measurement_key` that a record has, or would have, as a second measurement."""
    return key_of_saying(
        record.created_at,
        record.run_secs,
        record.failure_kind,
        verified=record.verified,
        cut=record.cut,
        session_id=record.session_id,
    )


def key_of_saying(
    created_at: float,
    run_secs: Sequence[float] | None,
    failure_kind: str | None,
    *,
    verified: bool,
    cut: bool,
    session_id: str | None,
) -> str:
    """:func:`key_of_second` of a record that says these."""
    says = [created_at, run_secs, failure_kind, verified, cut, session_id]
    return hashlib.sha256(json.dumps(says).encode()).hexdigest()[:32]


@dataclass
class Candidate:
    """What is known of a candidate: as much as decides about the next record of it.

    Attributes:
        has_first: its first measurement is kept.
        rank: of the record that has superseded all others (:attr:`database.TuningRecord.rank`); None where none has.
        second: keys of second measurements.
        grade: the least of its records; see :func:`grade`.
    """

    has_first: bool = False
    rank: tuple[bool, float] | None = None
    second: set[str] = field(default_factory=set)
    grade: int = 9

    def recall(self, measurement: str, grade: int, rank: tuple[bool, float] | None) -> None:
        """Take note of a record that is kept already; ``rank`` is that of the one that has superseded the others."""
        self.grade = min(self.grade, grade)
        self.rank = self.rank if rank is None else rank
        if measurement == FIRST:
            self.has_first = True
        else:
            self.second.add(measurement)

    def admitted(self, record: TuningRecord) -> TuningRecord | None:
        """The record as it is to be kept, which is another object where it becomes a second measurement; None where it is refused."""
        kept = record
        if not record.remeasured and self.has_first:
            if _grade_of(record) >= self.grade:
                return None
            kept = as_second(record)
        return None if kept.remeasured and measurement_key(kept) in self.second else kept

    def keep(self, record: TuningRecord) -> Standing:
        """Take note of a record that was admitted."""
        supersedes = record.is_decisive and (self.rank is None or self.rank <= record.rank)
        self.recall(measurement_key(record), _grade_of(record), record.rank if supersedes else None)
        return Standing(supersedes, is_superseded=self.rank is not None and not supersedes)


class Standing(NamedTuple):
    """How a new record stands among those of its candidate: by the rules of :func:`database.record.standing`."""

    supersedes: bool
    """All records that came before it."""
    is_superseded: bool
    """By one of them."""


def as_second(record: TuningRecord) -> TuningRecord:
    """A copy of a first measurement as a second one."""
    body: dict[str, Any] = {**record.as_json(), "remeasured": True}
    return TuningRecord.from_json(body, record.workload)


def grade(*, is_wrong: bool, ran: bool, verified: bool, cut: bool) -> int:
    """How much a record says of its candidate, the least number the most: a wrong result, a checked time, any time, a failure."""
    if is_wrong:
        return 0
    return 1 + 2 * (not verified) + cut if ran else 5


def _grade_of(record: TuningRecord) -> int:
    return grade(is_wrong=record.is_wrong, ran=record.is_valid(), verified=record.verified, cut=record.cut)
