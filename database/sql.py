"""Tuning records in SQL: an SQLite file by default, any SQLAlchemy URL for a team.

Every commit is one short transaction, so that Ctrl-C or ``kill -9`` at any moment loses nothing that was committed and
several tuners may write to one database at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as OrmSession

from ir.target import Target

from . import sql_queries
from .base import CLAIM_SECONDS, MISFITS_AT_MOST, Database, Program, best_applying, check_top_k
from .claim_owner import ended_among
from .claims import Holders
from .error import DatabaseFileError
from .machine_calibration import MachineCalibration
from .module_equality import ModuleEquality
from .nearest import NearestRecord, find_nearest
from .record import Session, TuningRecord, by_speed
from .schema import CalibrationRow, ClaimRow, FeatureRow, RecordRow, SessionRow, TargetRow, WorkloadRow
from .sql_commit import Offered, add_records, take_turns
from .sql_connection import Connections
from .sql_nearest import workloads_by_differences
from .sql_removal import delete_candidates, delete_unused, give_room_back
from .sql_rows import Rows, all_of, calibration_of, session_of
from .target_key import (
    TargetLike,
    explicit_target,
    recorded_key,
    spellings,
    target_differences,
    target_key,
)
from .workload import Workload, as_module, structural_key
from .workload_features import WorkloadFeatures

_LOG = logging.getLogger(__name__)
_PAGE = 500
"""So many records are read, or committed, in one transaction where there are many."""


@Database.kinds.register("sql")
class SQLDatabase(Database):
    """Tuning records in an SQL database.

    Safe to use from several threads and processes; after a fork the child opens connections of its own.

    Who only reads changes nothing: the file and the tables are made, and those of an older version are brought up to date, with the
    first thing that is committed.
    """

    def __init__(
        self, where: str | Path | URL, *, must_exist: bool = False, module_equality: str = "structural"
    ) -> None:
        """
        Args:
            where: path of an SQLite file, or an SQLAlchemy URL.
            must_exist: there must be an SQLite file already.
            module_equality: a name of :class:`database.module_equality.ModuleEquality`; others than ``structural`` read all workloads.

        Raises:
            DatabaseFileError: missing, not a database, one of another program, in a folder that cannot be written where it is missing,
                or the server cannot be reached.
            SchemaVersionError: a newer loopsmith made it.
        """
        self.module_equality = ModuleEquality(module_equality)
        self._connections = Connections(where, must_exist)
        self.url = self._connections.url
        self._session = self._connections.session
        self._rows = Rows(self._connections)
        self._workload_rows: dict[str, int] = {}
        """By hashes of workloads that were compared with those of the rows."""
        self._target_ids: dict[str, int] = {}
        """By key of a target."""
        self._holders = Holders()
        self._connections.check()

    # -------------------------------------------------------------------------------------- interface

    def has_workload(self, mod: Program) -> bool:
        shash = structural_key(as_module(mod))
        if self._rows.workloads.of_hash(shash) is not None:
            return True
        with self._session() as session:
            found = _workload_id(session, shash)
        return found is not None or bool(self.equal_workloads(mod))

    def commit_workload(self, mod: Program) -> Workload:
        workload = Workload(mod)
        return self._workload_entry(workload)[1]

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self._commit([record])

    def commit_tuning_records(self, records: Iterable[TuningRecord]) -> int:
        waiting, added = iter(records), 0
        while some := list(islice(waiting, _PAGE)):
            added += self._commit(some)
        return added

    def _commit(self, records: Sequence[TuningRecord]) -> int:
        """Keep some records in one transaction; how many were no duplicates."""
        offered = [
            Offered(
                record,
                self._workload_row(record.workload),
                None if record.target is None else self._target_id(record.target),
            )
            for record in records
        ]
        with self._session(write=True) as session:
            there = take_turns(session, (item.workload_id for item in offered))
            for item in offered:
                if there.get(item.workload_id) != item.record.workload.shash:
                    raise DatabaseFileError(
                        f"{self._connections}: another program has removed {item.record.workload!r}; the record was not kept. Close the"
                        " database and open it again"
                    )
            added = add_records(session, offered)
        if due := self._holders.due():
            with self._session(write=True) as session:
                session.execute(
                    update(ClaimRow).where(ClaimRow.owner.in_(due)).values(claimed_at=time.time())
                )
        return added

    def remove_records(self, records: Sequence[TuningRecord]) -> int:
        by_workload: dict[str, list[TuningRecord]] = {}
        for record in records:
            by_workload.setdefault(record.workload.shash, []).append(record)
        removed = 0
        for shash, some in by_workload.items():
            with self._session(write=True) as session:
                row = _workload_id(session, shash)
                if row is not None and take_turns(session, [row]):
                    removed += delete_candidates(session, self._rows, row, some)
        return removed

    def compact(self) -> int:
        with self._session(write=True) as session:
            removed = delete_unused(session)
        self._forget()
        with self._connections.engine(write=True) as engine:
            give_room_back(engine)
        return removed

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        check_top_k(top_k)
        if top_k == 0:
            return []
        with self._session() as session:
            return self._fastest(session, workload.shash, None, top_k)

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return list(self.stream_records())

    def stream_records(self) -> Iterator[TuningRecord]:
        last: int | None = None
        while True:
            query = select(RecordRow).order_by(RecordRow.id).limit(_PAGE)
            with self._session() as session:
                rows = session.scalars(query if last is None else query.where(RecordRow.id > last)).all()
                found = all_of(self._rows.made(rows, self._rows.record))
            yield from found
            if len(rows) < _PAGE:
                return
            last = rows[-1].id

    def pruned_records(self) -> Iterator[TuningRecord]:
        last: int | None = None
        while True:
            query = select(WorkloadRow.id).order_by(WorkloadRow.id).limit(_PAGE)
            with self._session() as session:
                rows = session.scalars(query if last is None else query.where(WorkloadRow.id > last)).all()
            for row in rows:
                yield from self._best_of_places(row)
            if len(rows) < _PAGE:
                return
            last = rows[-1]

    def get_workloads(self) -> list[Workload]:
        with self._session() as session:
            rows = session.scalars(select(WorkloadRow).order_by(WorkloadRow.id)).all()
            return all_of(self._rows.made(rows, self._rows.workload))

    def records_of(self, workload: Workload) -> list[TuningRecord]:
        with self._session() as session:
            return self._read(session, sql_queries.records_of(workload.shash, None))

    def get_records(self, workload: Workload, target: TargetLike, skip: int = 0) -> list[TuningRecord]:
        with self._session() as session:
            targets, is_spelt_as_today = _targets_of(session, target)
            # Who asks has counted the records that could be read, and are of this target; the server counts all.
            counts_alike = not self._rows.damaged and is_spelt_as_today
            question = sql_queries.records_of(workload.shash, targets, skip if counts_alike else 0)
            found = self._read(session, question)
        return _of_target(found, target)[0 if counts_alike else skip :]

    def count_trials(self, workload: Workload, target: TargetLike) -> int:
        with self._session() as session:
            targets, is_spelt_as_today = _targets_of(session, target)
            if is_spelt_as_today:
                return session.scalar(*sql_queries.trials_of(workload.shash, targets)) or 0
        return super().count_trials(workload, target)

    def fastest_record(self, mod: Program, target: TargetLike) -> TuningRecord | None:
        return next(iter(self.fastest_records(Workload(mod), target, 1)), None)

    def fastest_records(
        self, workload: Workload, target: TargetLike, count: int | None = None
    ) -> list[TuningRecord]:
        with self._session() as session:
            targets, _ = _targets_of(session, target)
            return self._fastest(session, workload.shash, target, count, targets)

    def recent_records(
        self,
        target: TargetLike,
        count: int,
        *,
        of: Workload | None = None,
        without: Collection[Workload] = (),
    ) -> list[TuningRecord]:
        with self._session() as session:
            targets, _ = _targets_of(session, target)
            own = None if of is None else _workload_id(session, of.shash)
            left_out = [_workload_id(session, item.shash) for item in without]
            if of is not None and own is None:
                return []
            rows = [row for row in left_out if row is not None]
            return self._enough(
                session, lambda asked: sql_queries.newest(targets, own, rows, asked), count, target
            )

    def similar_workloads(self, workload: Workload, target: TargetLike, count: int) -> list[Workload]:
        features = WorkloadFeatures(workload.summary)
        with self._session() as session:
            targets, _ = _targets_of(session, target)
            question = sql_queries.similar(features, workload.shash, targets, count)
            return all_of(self._rows.made(session.scalars(*question).all(), self._rows.workload))

    def nearest_record(self, mod: Program, target: TargetLike) -> NearestRecord | None:
        wanted = Workload(mod)
        with self._session() as session:
            targets = self._targets_by_differences(session, target)
            for alike in workloads_by_differences(session, wanted):
                if session.scalar(*sql_queries.with_records(alike, None)) is None:
                    continue
                for on in targets:
                    for row in session.scalars(*sql_queries.with_records(alike, on)):
                        found = [self._fastest(session, row, None, 1, [each]) for each in on]
                        if any(found):
                            best = [record for records in found for record in records]
                            if (nearest := find_nearest(wanted, target, best)) is not None:
                                return nearest
        return None

    def claim(
        self, workload: Workload, target: TargetLike, candidates: Sequence[str], owner: str
    ) -> list[bool]:
        place = self._workload_row(workload), self._target_id(explicit_target(target))
        self._release_ended()
        self._holders.add(owner)
        with self._session(write=True) as session:
            # In one order everywhere: of two that wait for each other's rows, a server lets neither go on.
            granted = {item: self._claim(session, place, item, owner) for item in sorted(set(candidates))}
        return [granted[item] for item in candidates]

    def _release_ended(self) -> None:
        """Forget the claims of processes that have ended without giving them up."""
        with self._session() as session:
            ended = ended_among(session.scalars(select(ClaimRow.owner).distinct()))
        if not ended:
            return
        with self._session(write=True) as session:
            # What another process is deleting at this moment is left to that: nobody waits for rows while holding others.
            rows = select(ClaimRow.id).where(ClaimRow.owner.in_(ended)).with_for_update(skip_locked=True)
            session.execute(delete(ClaimRow).where(ClaimRow.id.in_(session.scalars(rows).all())))

    def _claim(self, session: OrmSession, place: tuple[int, int], candidate: str, owner: str) -> bool:
        now = time.time()
        row = ClaimRow(
            workload_id=place[0], target_id=place[1], candidate=candidate, owner=owner, claimed_at=now
        )
        try:
            with session.begin_nested():
                session.add(row)
            return True
        except IntegrityError:  # somebody has it, perhaps this owner, perhaps somebody who was killed
            is_free = or_(ClaimRow.owner == owner, func.abs(ClaimRow.claimed_at - now) > CLAIM_SECONDS)
            taken = session.scalars(
                update(ClaimRow)
                .where(
                    ClaimRow.workload_id == place[0],
                    ClaimRow.target_id == place[1],
                    ClaimRow.candidate == candidate,
                    is_free,
                )
                .values(owner=owner, claimed_at=now)
                .returning(ClaimRow.id)
            )
            return taken.first() is not None

    def release(self, owner: str) -> None:
        self._holders.remove(owner)
        with self._session(write=True) as session:
            session.execute(delete(ClaimRow).where(ClaimRow.owner == owner))

    def commit_session(self, session: Session) -> None:
        with self._session(write=True) as orm:
            orm.merge(
                SessionRow(
                    id=session.id,
                    started_at=session.started_at,
                    finished_at=session.finished_at,
                    description=session.as_json(),
                )
            )

    def get_sessions(self) -> list[Session]:
        with self._session() as orm:
            rows = orm.scalars(select(SessionRow).order_by(SessionRow.started_at)).all()
            return all_of(self._rows.made(rows, session_of))

    def commit_calibration(self, calibration: MachineCalibration) -> None:
        row = CalibrationRow(
            key=calibration.key, created_at=calibration.created_at, description=calibration.as_json()
        )
        try:
            with self._session(write=True, may_conflict=True) as orm:
                orm.merge(row)
        except IntegrityError:  # another process has measured the same machine at the same time
            _LOG.debug("calibration %s was committed by another process", calibration.key)

    def get_calibrations(self) -> list[MachineCalibration]:
        with self._session() as orm:
            rows = orm.scalars(select(CalibrationRow).order_by(CalibrationRow.created_at)).all()
            return all_of(self._rows.made(rows, calibration_of))

    def __len__(self) -> int:
        with self._session() as session:
            return session.scalar(select(func.count()).select_from(RecordRow)) or 0

    def close(self) -> None:
        self._connections.close()
        self._forget()

    def _forget(self) -> None:
        """Forget what was read: what is opened next may be another file, with other numbers for other programs."""
        self._rows.clear()
        self._workload_rows.clear()
        self._target_ids.clear()

    def __reduce__(self) -> Any:
        return (_opened_sql, (self.url, self.module_equality.name))

    def __repr__(self) -> str:
        return f"SQLDatabase({self._connections.name!r})"

    # -------------------------------------------------------------------------------------- rows

    def _read(self, session: OrmSession, question: sql_queries.Question) -> list[TuningRecord]:
        return all_of(self._rows.made(session.scalars(*question).all(), self._rows.record))

    def _fastest(
        self,
        session: OrmSession,
        workload: sql_queries.Row,
        target: TargetLike | None,
        count: int | None,
        targets: sql_queries.Targets | None = None,
    ) -> list[TuningRecord]:
        """The best records of a workload that stand, of some targets or of all; ``target`` is the one that they must be of, if any."""
        found = self._enough(
            session, lambda asked: sql_queries.fastest(workload, targets, asked), count, target
        )
        return by_speed(found)

    def _enough(
        self,
        session: OrmSession,
        question: Callable[[int | None], sql_queries.Question],
        count: int | None,
        target: TargetLike | None,
    ) -> list[TuningRecord]:
        """The first ``count`` records that can be read, and are of a target where one is given; ``question`` asks for so many at most."""
        asked = count
        while True:
            rows = session.scalars(*question(asked)).all()
            found = all_of(self._rows.made(rows, self._rows.record))
            found = found if target is None else _of_target(found, target)
            if count is None or asked is None or len(found) >= count or len(rows) < asked:
                return found[:count]
            asked *= 2

    def _best_of_places(self, workload: int) -> list[TuningRecord]:
        """The best record of a workload on each target of those that apply, or else of all."""
        with self._session() as session:
            targets = session.scalars(*sql_queries.targets_of(workload)).all()
            each = [self._fastest(session, workload, None, MISFITS_AT_MOST, [target]) for target in targets]
        # An older version kept one target under several spellings.
        ranked: dict[tuple[str, str], list[TuningRecord]] = {}
        for record in by_speed([record for records in each for record in records]):
            ranked.setdefault(record.place, []).append(record)
        best = [best_applying(records) for records in ranked.values()]
        return [record for record in best if record is not None]

    def _targets_by_differences(self, session: OrmSession, target: TargetLike) -> list[list[int | None]]:
        """The targets of the database, those together that have as many fields other than a target's, the fewest first."""
        wanted = explicit_target(target)
        rows = session.scalars(select(TargetRow).order_by(TargetRow.id)).all()
        stored = zip(rows, self._rows.made(rows, self._rows.target), strict=True)
        known: list[tuple[int, int | None]] = [
            (len(target_differences(wanted, found)), row.id) for row, found in stored if found is not None
        ]
        known.append((1, None))  # of records without a target it is said that it is not set
        known.sort(key=lambda item: item[0])
        return [[row for _, row in items] for _, items in groupby(known, key=lambda item: item[0])]

    def _workload_row(self, workload: Workload) -> int:
        """Row number of a workload; inserted when it is new."""
        row = self._workload_rows.get(workload.shash)
        if row is None:
            row = self._workload_rows[workload.shash] = self._workload_entry(workload)[0]
        return row

    def _workload_entry(self, workload: Workload) -> tuple[int, Workload]:
        """Row number and entry of a workload, inserted when it is new; two writers may race for it."""
        known = self._rows.workloads.of_hash(workload.shash)
        if known is not None:
            return known
        query = select(WorkloadRow).where(WorkloadRow.shash == workload.shash)
        with self._session() as session:
            row = session.scalar(query)
            if row is not None:
                return self._rows.entry(row, same_as=workload)
        features = WorkloadFeatures(workload.summary)
        row = WorkloadRow(
            shash=workload.shash,
            name=workload.summary.name[:256],
            summary=workload.summary.as_json(),
            module=workload.module_json,
            created_at=time.time(),
            kernel=features.kernel,
            family=features.family,
            arguments=len(workload.summary.args),
        )
        try:
            with self._session(write=True, may_conflict=True) as session:
                session.add(row)
                session.flush()
                # A program that deletes workloads need not know of these, and the number is given again.
                session.execute(delete(FeatureRow).where(FeatureRow.workload_id == row.id))
                session.add_all(_feature_rows(row.id, features))
                entry = (row.id, workload)
        except IntegrityError:  # another process inserted it between the look and the insertion
            with self._session() as session:
                return self._rows.entry(session.scalars(query).one(), same_as=workload)
        return self._rows.workloads.add(*entry)

    def _target_id(self, target: Target) -> int:
        key = recorded_key(target)
        if key in self._target_ids:
            return self._target_ids[key]
        query = select(TargetRow.id).where(TargetRow.key == key)
        with self._session() as session:
            found = session.scalar(query)
        if found is None:
            row = TargetRow(key=key, target=target.export())
            try:
                with self._session(write=True, may_conflict=True) as session:
                    session.add(row)
                    session.flush()
                    found = row.id
            except IntegrityError:  # another process was first
                with self._session() as session:
                    found = session.scalars(query).one()
        self._target_ids[key] = found
        return found


def _workload_id(session: OrmSession, shash: str) -> int | None:
    return session.scalar(select(WorkloadRow.id).where(WorkloadRow.shash == shash))


def _opened_sql(url: URL, module_equality: str) -> SQLDatabase:
    """What is unpickled."""
    return SQLDatabase(url, module_equality=module_equality)


def _targets_of(session: OrmSession, target: TargetLike) -> tuple[sql_queries.Targets, bool]:
    """The rows that may have records of a target; and whether no older version has kept records under another key, some of which may be
    another machine's."""
    own, *others = spellings(target)
    if not others:
        return [own], True
    query = select(TargetRow.id, TargetRow.key).where(TargetRow.key.in_([own, *others]))
    found = {row: key for row, key in session.execute(query)}
    return list(found) or [own], all(key == own for key in found.values())


def _feature_rows(workload: int, features: WorkloadFeatures) -> list[FeatureRow]:
    return [
        *(FeatureRow(workload_id=workload, name=name, text=text) for name, text in features.fields.items()),
        *(
            FeatureRow(workload_id=workload, name=name, number=number)
            for name, number in features.doublings.items()
        ),
    ]


def _of_target(records: list[TuningRecord], target: TargetLike) -> list[TuningRecord]:
    """Those of a target."""
    key = target_key(target)
    return [record for record in records if record.place[1] == key]
