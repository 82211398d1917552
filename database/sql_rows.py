"""What rows of the tables mean: workloads, targets and records of them, and what becomes of rows that are damaged."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import inspect

from ir.target import Target

from .arg_info import ArgInfo
from .damage import DAMAGE, DamagedRow, sound
from .duplicates import measurement_key
from .error import DatabaseError
from .machine_calibration import MachineCalibration
from .record import Session, TuningRecord, check_record_fields
from .schema import Base, CalibrationRow, RecordRow, SessionRow, TargetRow, WorkloadRow
from .sql_connection import Connections
from .target_key import as_target
from .workload import Workload, WorkloadSummary

_LOG = logging.getLogger(__name__)
_KEPT = 512
"""So many workloads are remembered with their programs: those of a search, of a model, but not those of a large database."""

_Row = TypeVar("_Row", bound=Base)
_Item = TypeVar("_Item")


class RecentWorkloads:
    """The workloads that were asked for last, by the numbers of their rows and by their hashes; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_hash: OrderedDict[str, tuple[int, Workload]] = OrderedDict()
        self._hashes: dict[int, str] = {}

    def of_hash(self, shash: str) -> tuple[int, Workload] | None:
        """Row and workload."""
        with self._lock:
            found = self._by_hash.get(shash)
            if found is not None:
                self._by_hash.move_to_end(shash)
            return found

    def of_row(self, row: int) -> Workload | None:
        """The workload of a row."""
        shash = self._hashes.get(row)
        found = None if shash is None else self.of_hash(shash)
        return None if found is None else found[1]

    def add(self, row: int, workload: Workload) -> tuple[int, Workload]:
        """Remember one, and forget what was not asked for for the longest time; the one that is remembered, which may be an equal one."""
        with self._lock:
            entry = self._by_hash.setdefault(workload.shash, (row, workload))
            self._hashes[row] = workload.shash
            while len(self._by_hash) > _KEPT:
                gone, _ = self._by_hash.popitem(last=False)[1]
                self._hashes.pop(gone, None)
            return entry

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._by_hash.clear()
            self._hashes.clear()


class Rows:
    """Makes of rows what they stand for. One that is damaged is named in a warning, once, and left out."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.workloads = RecentWorkloads()
        self._targets: dict[int, Target] = {}
        self.damaged: set[tuple[Any, ...]] = set()
        """Table and key of rows that were named."""

    def clear(self) -> None:
        """Forget what was read: what is opened next may be another file, with other numbers for other programs."""
        self.workloads.clear()
        self._targets.clear()
        self.damaged.clear()

    def made(self, rows: Sequence[_Row], make: Callable[[_Row], _Item]) -> list[_Item | None]:
        """What is made of each row; None for those that are damaged."""
        made: list[_Item | None] = []
        for row in rows:
            try:
                made.append(make(row))
            except DAMAGE as error:
                self._name_damage(row, error)
                made.append(None)
        return made

    def workload(self, row: WorkloadRow) -> Workload:
        """The workload of a row."""
        return self.entry(row)[1]

    def entry(self, row: WorkloadRow, same_as: Workload | None = None) -> tuple[int, Workload]:
        """Number and workload of a row; ``same_as`` is the program that it should be.

        Raises:
            DatabaseError: it is another.
        """
        entry = self.workloads.of_hash(row.shash)
        if entry is None:
            workload = self._stored(row)
            if same_as is not None:
                workload = self._compared(row, workload, same_as)
            entry = self.workloads.add(row.id, workload)
        return entry

    def record(self, row: RecordRow) -> TuningRecord:
        """The record of a row."""
        details = sound(row.details)
        infos = details["args_info"]
        said = {
            "verified": row.verified,
            "cut": row.cut,
            "remeasured": row.remeasured,
            "failure_kind": row.failure_kind,
            "failure_message": details["failure_message"],
            "metrics": details.get("metrics"),  # records of earlier versions have none
            "fingerprint": dict(details["fingerprint"]),
            "versions": dict(details["versions"]),
            "session_id": row.session_id,
            "created_at": row.created_at,
        }
        check_record_fields({**said, "trace": sound(row.trace), "run_secs": details["run_secs"]})
        return TuningRecord(
            None,
            self.workloads.of_row(row.workload_id) or self.workload(row.workload),
            details["run_secs"],
            None if row.target_id is None else self._targets.get(row.target_id) or self._target(row.target),
            None if infos is None else [ArgInfo.from_json(info) for info in infos],
            trace_json=row.trace,
            **said,
        )

    def _stored(self, row: WorkloadRow) -> Workload:
        if not isinstance(row.shash, str) or not isinstance(
            row.module, str
        ):  # SQLite's columns take anything
            raise DamagedRow(row, TypeError(f"no hash and program: {row.shash!r:.40}, {row.module!r:.40}"))
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
                f"SQLDatabase({self._connections.name!r}) holds another program under the structural hash {row.shash} of {same_as!r}; "
                "it was made by a version that hashes differently: use a new database"
            )
        return workload

    def _target(self, row: TargetRow | None) -> Target:
        if row is None:
            raise ValueError("its target is missing")
        try:
            target = self._targets[row.id] = as_target(sound(row.target))
        except DAMAGE as error:
            raise DamagedRow(row, error) from error
        return target

    def target(self, row: TargetRow) -> Target:
        """The target of a row."""
        return self._targets.get(row.id) or self._target(row)

    def _name_damage(self, row: Base, error: Exception) -> None:
        """Warn of a row, or of the one that it refers to, once."""
        if isinstance(error, DamagedRow):
            row, error = error.row, error.why
        place = row.__tablename__, *(inspect(row).identity or ())
        if place not in self.damaged:
            self.damaged.add(place)
            _LOG.warning(
                "row %s of table %r of %s is damaged and left out, with all that belongs to it (%s: %s); 'loopsmith db export' writes"
                " what can be read to a file, and 'loopsmith db import' that file into a new database",
                place[-1], place[0], self._connections, type(error).__name__, error,
            )  # fmt: skip


def all_of(found: Sequence[_Item | None]) -> list[_Item]:
    """Those that could be made."""
    return [item for item in found if item is not None]


def session_of(row: SessionRow) -> Session:
    """The session of a row."""
    found = Session.from_json(sound(row.description))
    if found.id != row.id:
        raise ValueError(f"it describes session {found.id!r}")
    return found


def calibration_of(row: CalibrationRow) -> MachineCalibration:
    """The calibration of a row."""
    return MachineCalibration.from_json(sound(row.description))


def values_of(record: TuningRecord, workload_id: int, target_id: int | None) -> dict[str, Any]:
    """The columns of a record."""
    return {
        "workload_id": workload_id,
        "target_id": target_id,
        "session_id": record.session_id,
        "mean_secs": record.secs if record.is_valid() else None,
        "verified": record.verified,
        "cut": record.cut,
        "remeasured": record.remeasured,
        "failure_kind": record.failure_kind,
        "created_at": record.created_at,
        "trace": record.trace_json,
        "trace_hash": record.trace_hash,
        "measurement": measurement_key(record),
        "details": {
            "run_secs": record.run_secs,
            "args_info": None if record.args_info is None else [info.as_json() for info in record.args_info],
            "failure_message": _without_nul(record.failure_message),
            "metrics": record.metrics,
            "fingerprint": record.fingerprint,
            "versions": record.versions,
        },
    }


def _without_nul(text: str | None) -> str | None:
    """PostgreSQL keeps no NUL characters; a crashed candidate's message may have some."""
    return None if text is None else text.replace("\x00", "\\0")
