"""Tuning records in SQL: an SQLite file by default, any SQLAlchemy URL for a team.

Every commit is one short transaction, so that Ctrl-C or ``kill -9`` at any moment loses nothing that was committed and
several tuners may write to one database at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Select, bindparam, delete, func, inspect, or_, select, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as OrmSession

from ir.target import Target

from .arg_info import ArgInfo
from .base import CLAIM_SECONDS, Database, Program, check_top_k
from .claim_owner import ended_among
from .damage import DAMAGE, DamagedRow, sound
from .error import DatabaseError, DatabaseFileError
from .machine_calibration import MachineCalibration
from .record import WRONG_RESULT, Session, TuningRecord, by_speed
from .schema import (
    Base,
    CalibrationRow,
    ClaimRow,
    RecordRow,
    SessionRow,
    TargetRow,
    WorkloadRow,
)
from .sql_connection import Connections
from .target_key import TargetLike, as_target, explicit_target, recorded_key, spellings, target_key
from .workload import Workload, WorkloadSummary, as_module, structural_key

_LOG = logging.getLogger(__name__)
_OWN_TURN = (
    select(WorkloadRow.id)
    .where(WorkloadRow.id == bindparam("own"), WorkloadRow.shash == bindparam("shash"))
    .with_for_update(key_share=True)
)
"""Whoever asks what has come since (get_records) goes by the order of ids, and a server gives an id before the commit: records of one
workload are written one after another, so that none appears before one that is already seen."""


_Row = TypeVar("_Row", bound=Base)
_Item = TypeVar("_Item")


@Database.kinds.register("sql")
class SQLDatabase(Database):
    """Tuning records in an SQL database.

    Safe to use from several threads and processes; after a fork the child opens connections of its own.

    Who only reads changes nothing: the file and the tables are made, and those of an older version are brought up to date, with the
    first thing that is committed.
    """

    def __init__(self, where: str | Path | URL, *, must_exist: bool = False) -> None:
        """
        Args:
            where: path of an SQLite file, or an SQLAlchemy URL.
            must_exist: there must be an SQLite file already.

        Raises:
            DatabaseFileError: missing, not a database, one of another program, in a folder that cannot be written where it is missing,
                or the server cannot be reached.
            SchemaVersionError: a newer loopsmith made it.
        """
        self._connections = Connections(where, must_exist)
        self.url = self._connections.url
        self._session = self._connections.session
        self._workloads: dict[str, tuple[int, Workload]] = {}
        self._by_row: dict[int, Workload] = {}
        self._target_ids: dict[str, int] = {}
        self._targets: dict[int, Target] = {}
        self._older_spellings: dict[str, bool] = {}
        """By key of a target."""
        self._damaged: set[tuple[Any, ...]] = set()
        """Table and key of rows that were named."""
        self._connections.check()

    # -------------------------------------------------------------------------------------- interface

    def has_workload(self, mod: Program) -> bool:
        shash = structural_key(as_module(mod))
        if shash in self._workloads:
            return True
        with self._session() as session:
            return session.scalar(select(WorkloadRow.id).where(WorkloadRow.shash == shash)) is not None

    def commit_workload(self, mod: Program) -> Workload:
        workload = Workload(mod)
        return self._workload_entry(workload)[1]

    def commit_tuning_record(self, record: TuningRecord) -> None:
        workload_id = self._workload_entry(record.workload)[0]
        target_id = None if record.target is None else self._target_id(record.target)
        body = record.as_json()
        row = RecordRow(
            workload_id=workload_id,
            target_id=target_id,
            session_id=record.session_id,
            mean_secs=record.secs if record.is_valid() else None,
            verified=record.verified,
            cut=record.cut,
            remeasured=record.remeasured,
            failure_kind=record.failure_kind,
            created_at=record.created_at,
            trace=body["trace"],
            details={
                "run_secs": body["run_secs"],
                "args_info": body["args_info"],
                "failure_message": _without_nul(record.failure_message),
                "metrics": record.metrics,
                "fingerprint": record.fingerprint,
                "versions": record.versions,
            },
        )
        with self._session(write=True) as session:
            if session.scalar(_OWN_TURN, {"own": workload_id, "shash": record.workload.shash}) is None:
                raise DatabaseFileError(
                    f"{self._connections}: another program has removed {record.workload!r}; the record was not kept. Close the database and"
                    " open it again"
                )
            session.add(row)

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        check_top_k(top_k)
        if top_k == 0:
            return []
        return self._fastest(_of_workload(workload), top_k)

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return self._read(select(RecordRow).order_by(RecordRow.id))

    def get_workloads(self) -> list[Workload]:
        with self._session() as session:
            rows = session.scalars(select(WorkloadRow).order_by(WorkloadRow.id)).all()
            return _all_of(self._made(rows, self._workload_of))

    def get_records(self, workload: Workload, target: TargetLike, skip: int = 0) -> list[TuningRecord]:
        query, key = _of_workload(workload, target).order_by(RecordRow.id), target_key(target)
        # Who asks has counted the records that could be read, and are of this target; the server counts all.
        counts_alike = not self._damaged and not self._has_older_spelling(target)
        found = self._read(query.offset(skip) if counts_alike else query)
        return [record for record in found if record.place[1] == key][0 if counts_alike else skip :]

    def count_trials(self, workload: Workload, target: TargetLike) -> int:
        if self._has_older_spelling(target):
            return super().count_trials(workload, target)
        trials = _of_workload(workload, target).where(RecordRow.remeasured.is_(False)).subquery()
        with self._session() as session:
            return session.scalar(select(func.count()).select_from(trials)) or 0

    def claim(
        self, workload: Workload, target: TargetLike, candidates: Sequence[str], owner: str
    ) -> list[bool]:
        place = self._workload_entry(workload)[0], self._target_id(explicit_target(target))
        self._release_ended()
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
        with self._session(write=True) as session:
            session.execute(delete(ClaimRow).where(ClaimRow.owner == owner))

    def fastest_record(self, mod: Program, target: TargetLike) -> TuningRecord | None:
        found = self._fastest(_of_workload(Workload(mod), target), 1, target_key(target))
        return found[0] if found else None

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
            return _all_of(self._made(rows, _session_of))

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
            return _all_of(self._made(rows, _calibration_of))

    def __len__(self) -> int:
        with self._session() as session:
            return session.scalar(select(func.count()).select_from(RecordRow)) or 0

    def close(self) -> None:
        self._connections.close()
        # What is opened next at this place may be another file, with other numbers for other programs.
        for known in (self._workloads, self._by_row, self._target_ids, self._targets, self._damaged):
            known.clear()

    def __reduce__(self) -> Any:
        return (SQLDatabase, (self.url,))

    def __repr__(self) -> str:
        return f"SQLDatabase({self._connections.name!r})"

    def _has_older_spelling(self, target: TargetLike) -> bool:
        """Whether an older version may have kept records of a target under another key, some of them another machine's."""
        own, *others = spellings(target)
        if own not in self._older_spellings:
            query = select(TargetRow.id).where(TargetRow.key.in_(others)).limit(1)
            with self._session() as session:
                self._older_spellings[own] = session.scalar(query) is not None
        return self._older_spellings[own]

    def _fastest(self, query: Select[Any], top_k: int, key: str | None = None) -> list[TuningRecord]:
        """The best records that stand, of the target with a key where one is given.

        Traces have no order and no equality in SQL. So a few more rows are read than asked for, best first, until enough of
        them are left when those that were measured again, or were wrong, have superseded theirs.
        """
        is_decisive = or_(RecordRow.remeasured, RecordRow.failure_kind == WRONG_RESULT)
        again = _of_target(self._read(query.where(is_decisive).order_by(RecordRow.id)), key)
        first = query.where(RecordRow.mean_secs.is_not(None), RecordRow.remeasured.is_(False))
        first = first.order_by(RecordRow.verified.desc(), RecordRow.cut, RecordRow.mean_secs, RecordRow.id)
        count = top_k + 2 * len(again)
        while True:
            read = self._records(first.limit(count))
            found = _of_target(_all_of(read), key)
            best = by_speed([*found, *again])[:top_k]
            # What was not read is behind all that was: it changes nothing where enough is known.
            is_enough = found and len(best) == top_k and best[-1].merit()[:3] <= found[-1].merit()[:3]
            if len(read) < count or is_enough:
                return best
            count *= 2

    # -------------------------------------------------------------------------------------- rows

    def _workload_entry(self, workload: Workload) -> tuple[int, Workload]:
        """Row number and entry of a workload, inserted when it is new; two writers may race for it."""
        known = self._workloads.get(workload.shash)
        if known is not None:
            return known
        query = select(WorkloadRow).where(WorkloadRow.shash == workload.shash)
        with self._session() as session:
            row = session.scalar(query)
            if row is not None:
                return self._entry_of(row, same_as=workload)
        row = WorkloadRow(
            shash=workload.shash,
            name=workload.summary.name[:256],
            summary=workload.summary.as_json(),
            module=workload.module_json,
            created_at=time.time(),
        )
        try:
            with self._session(write=True, may_conflict=True) as session:
                session.add(row)
                session.flush()
                entry = (row.id, workload)
        except IntegrityError:  # another process inserted it between the look and the insertion
            with self._session() as session:
                return self._entry_of(session.scalars(query).one(), same_as=workload)
        return self._keep(*entry)

    def _workload_of(self, row: WorkloadRow) -> Workload:
        return self._entry_of(row)[1]

    def _entry_of(self, row: WorkloadRow, same_as: Workload | None = None) -> tuple[int, Workload]:
        entry = self._workloads.get(row.shash)
        if entry is None:
            workload = self._stored(row)
            if same_as is not None:
                workload = self._compared(row, workload, same_as)
            entry = self._keep(row.id, workload)
        return entry

    def _keep(self, row_id: int, workload: Workload) -> tuple[int, Workload]:
        entry = self._workloads[workload.shash] = (row_id, workload)
        self._by_row[row_id] = workload
        return entry

    def _stored(self, row: WorkloadRow) -> Workload:
        source = f"row {row.id} of table 'workloads' of {self._connections}"
        try:
            summary = WorkloadSummary.from_json(sound(row.summary))
        except DAMAGE as error:
            workload = Workload.stored(row.shash, row.module, None, source)
            try:
                summary = workload.summary  # of the program itself
            except DatabaseError:
                raise DamagedRow(row, error) from error
        return Workload.stored(row.shash, row.module, summary, source)

    def _compared(self, row: WorkloadRow, workload: Workload, same_as: Workload) -> Workload:
        """The workload of a row that should be that of a program; the program's where the row's cannot be read."""
        try:
            is_same = workload == same_as
        except DatabaseError as error:
            self._name_damage(row, error)
            return same_as
        if not is_same:
            raise DatabaseError(
                f"{self!r} holds another program under the structural hash {row.shash} of {same_as!r}; "
                "it was made by a version that hashes differently: use a new database"
            )
        return workload

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
                self._older_spellings.clear()  # an import may bring records of another machine
            except IntegrityError:  # another process was first
                with self._session() as session:
                    found = session.scalars(query).one()
        self._target_ids[key] = found
        return found

    def _target_of(self, row: TargetRow | None) -> Target:
        if row is None:
            raise ValueError("its target is missing")
        try:
            target = self._targets[row.id] = as_target(sound(row.target))
        except DAMAGE as error:
            raise DamagedRow(row, error) from error
        return target

    def _read(self, query: Select[Any]) -> list[TuningRecord]:
        return _all_of(self._records(query))

    def _records(self, query: Select[Any]) -> list[TuningRecord | None]:
        """The record of each row; None for those that are damaged."""
        with self._session() as session:
            return self._made(session.scalars(query).all(), self._record_of)

    def _made(self, rows: Sequence[_Row], make: Callable[[_Row], _Item]) -> list[_Item | None]:
        """What is made of each row; None for those that are damaged, which are named."""
        made: list[_Item | None] = []
        for row in rows:
            try:
                made.append(make(row))
            except DAMAGE as error:
                self._name_damage(row, error)
                made.append(None)
        return made

    def _name_damage(self, row: Base, error: Exception) -> None:
        """Warn of a row, or of the one that it refers to, once."""
        if isinstance(error, DamagedRow):
            row, error = error.row, error.why
        place = row.__tablename__, *(inspect(row).identity or ())
        if place not in self._damaged:
            self._damaged.add(place)
            _LOG.warning(
                "row %s of table %r of %s is damaged and left out, with all that belongs to it (%s: %s); 'loopsmith db export' writes"
                " what can be read to a file, and 'loopsmith db import' that file into a new database",
                place[-1], place[0], self._connections, type(error).__name__, error,
            )  # fmt: skip

    def _record_of(self, row: RecordRow) -> TuningRecord:
        details = sound(row.details)
        infos = details["args_info"]
        return TuningRecord(
            None,
            self._by_row.get(row.workload_id) or self._workload_of(row.workload),
            details["run_secs"],
            None
            if row.target_id is None
            else self._targets.get(row.target_id) or self._target_of(row.target),
            None if infos is None else [ArgInfo.from_json(info) for info in infos],
            verified=row.verified,
            cut=row.cut,
            remeasured=row.remeasured,
            failure_kind=row.failure_kind,
            failure_message=details["failure_message"],
            metrics=details.get("metrics"),  # records of earlier versions have none
            fingerprint=dict(details["fingerprint"]),
            versions=dict(details["versions"]),
            session_id=row.session_id,
            created_at=row.created_at,
            trace_json=_trace_of(row),
        )


def _all_of(found: Sequence[_Item | None]) -> list[_Item]:
    return [item for item in found if item is not None]


def _of_target(records: list[TuningRecord], key: str | None) -> list[TuningRecord]:
    """Those of the target with a key, or all where there is none."""
    return records if key is None else [record for record in records if record.place[1] == key]


def _trace_of(row: RecordRow) -> Any:
    trace = sound(row.trace)
    if not isinstance(trace, list | None):
        raise TypeError(f"no trace: {trace!r}")
    return trace


def _session_of(row: SessionRow) -> Session:
    found = Session.from_json(sound(row.description))
    if found.id != row.id:
        raise ValueError(f"it describes session {found.id!r}")
    return found


def _calibration_of(row: CalibrationRow) -> MachineCalibration:
    return MachineCalibration.from_json(sound(row.description))


def _of_workload(workload: Workload, target: TargetLike | None = None) -> Select[Any]:
    query = select(RecordRow).join(RecordRow.workload).where(WorkloadRow.shash == workload.shash)
    if target is None:
        return query
    return query.join(RecordRow.target).where(TargetRow.key.in_(spellings(target)))


def _without_nul(text: str | None) -> str | None:
    """PostgreSQL keeps no NUL characters; a crashed candidate's message may have some."""
    return None if text is None else text.replace("\x00", "\\0")
