"""A database in two append-only text files, as MetaSchedule keeps it: workloads, and records by workload."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

from .base import Database
from .claims import ClaimFile
from .error import DatabaseError, DatabaseFileError, cannot_look
from .file_id import FileId, file_id
from .jsonl import Item, append_lines, check_same, line_of, parse_lines
from .machine_calibration import MachineCalibration
from .memory import MemoryDatabase
from .record import Session, TuningRecord
from .workload import Workload


@Database.kinds.register("json")
class JSONDatabase(MemoryDatabase):
    """Reads both files when opened, keeps them in memory, and appends what is committed.

    Lines are those of :mod:`database.jsonl`; several processes may append to the same files, each seeing what was there
    when it opened them and what it wrote itself.
    """

    def __init__(
        self,
        path_workload: str | Path | None = None,
        path_tuning_record: str | Path | None = None,
        *,
        work_dir: str | Path | None = None,
        allow_missing: bool = True,
    ) -> None:
        """
        Args:
            path_workload: file of workloads; ``database_workload.json`` in ``work_dir`` by default.
            path_tuning_record: file of records; ``database_tuning_record.json`` in ``work_dir`` by default.
            work_dir: folder for the default names; made when missing.
            allow_missing: make the files when they are missing.

        Raises:
            DatabaseFileError: a file is missing, broken, or cannot be made.
            SchemaVersionError: a file was written by a newer version.
        """
        super().__init__()
        if work_dir is not None:
            path_workload = path_workload or Path(work_dir) / "database_workload.json"
            path_tuning_record = path_tuning_record or Path(work_dir) / "database_tuning_record.json"
        if path_workload is None or path_tuning_record is None:
            raise DatabaseError("JSONDatabase needs path_workload and path_tuning_record, or work_dir")
        self.path_workload = Path(path_workload)
        self.path_tuning_record = Path(path_tuning_record)
        for path in (self.path_workload, self.path_tuning_record):
            try:
                exists = path.exists()
            except OSError as error:
                raise cannot_look(path, error) from error
            if exists:
                continue
            if not allow_missing:
                raise DatabaseFileError(
                    f"database file {str(path)!r} does not exist; check the path, or tune first"
                )
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            except OSError as error:
                raise DatabaseFileError(
                    f"cannot make database file {str(path)!r}: {error.strerror}"
                ) from error
        self._opened = {path: self._held(path) for path in (self.path_workload, self.path_tuning_record)}
        named: dict[str, Workload] = {}
        for item in parse_lines(self.path_workload, named):
            if isinstance(item, Workload):
                super()._keep_workload(item)
        for item in parse_lines(self.path_tuning_record, named):
            if isinstance(item, TuningRecord):
                super().commit_tuning_record(item)
            elif isinstance(item, Session):
                super().commit_session(item)
            elif isinstance(item, MachineCalibration):
                super().commit_calibration(item)
        self._claims = ClaimFile(self.path_tuning_record.with_suffix(".claims"))
        self._loaded = True

    def commit_tuning_record(self, record: TuningRecord) -> None:
        with self._lock:
            self._keep_workload(record.workload)
            self._append(self.path_tuning_record, record)
            super().commit_tuning_record(record)

    def commit_session(self, session: Session) -> None:
        with self._lock:
            self._append(self.path_tuning_record, session)
            super().commit_session(session)

    def commit_calibration(self, calibration: MachineCalibration) -> None:
        with self._lock:
            self._append(self.path_tuning_record, calibration)
            super().commit_calibration(calibration)

    def _keep_workload(self, workload: Workload) -> Workload:
        with self._lock:
            if workload.shash not in self._workloads and getattr(self, "_loaded", False):
                self._append(self.path_workload, workload)
            return super()._keep_workload(workload)

    def _held(self, path: Path) -> FileId | None:
        """What tells a file from others; it is held open, since the system gives the numbers of removed files to new ones."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None  # who reads it says why
        weakref.finalize(self, os.close, handle)
        return file_id(handle)

    def _append(self, path: Path, item: Item) -> None:
        # A record is lost without its workload's line, which is in the other file.
        for other in self._opened.keys() - {path}:
            check_same(other, self._opened[other])
        append_lines(path, [line_of(item)], self._opened[path])

    def __reduce__(self) -> Any:
        return (JSONDatabase, (self.path_workload, self.path_tuning_record))
