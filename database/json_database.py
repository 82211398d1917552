"""A database in two append-only text files, as MetaSchedule keeps it: workloads, and records by workload."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .base import Database
from .claims import ClaimFile
from .error import DatabaseError, DatabaseFileError, cannot_look
from .file_id import FileId, file_id
from .jsonl import Item, append_lines, check_same, line_of, locked, parse_lines, replace_lines
from .machine_calibration import MachineCalibration
from .memory import MemoryDatabase
from .record import Session, TuningRecord
from .target_key import TargetLike
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
        module_equality: str = "structural",
    ) -> None:
        """
        Args:
            path_workload: file of workloads; ``database_workload.json`` in ``work_dir`` by default.
            path_tuning_record: file of records; ``database_tuning_record.json`` in ``work_dir`` by default.
            work_dir: folder for the default names.
            allow_missing: files that are missing are made with the first commit.
            module_equality: a name of :class:`database.module_equality.ModuleEquality`.

        Raises:
            DatabaseFileError: a file is missing or broken.
            SchemaVersionError: a file was written by a newer version.
        """
        super().__init__(module_equality)
        if work_dir is not None:
            path_workload = path_workload or Path(work_dir) / "database_workload.json"
            path_tuning_record = path_tuning_record or Path(work_dir) / "database_tuning_record.json"
        if path_workload is None or path_tuning_record is None:
            raise DatabaseError("JSONDatabase needs path_workload and path_tuning_record, or work_dir")
        self.path_workload = Path(path_workload)
        self.path_tuning_record = Path(path_tuning_record)
        missing = [path for path in self._paths if not self._exists(path)]
        if missing and not allow_missing:
            raise DatabaseFileError(
                f"database file {str(missing[0])!r} does not exist; check the path, or tune first"
            )
        self._opened = {path: self._held(path) for path in self._paths if path not in missing}
        self._read()
        self._claims = ClaimFile(self.path_tuning_record.with_suffix(".claims"))

    def _read(self) -> None:
        """Keep in memory what is in the files, and nothing else."""
        named: dict[str, Workload] = {}
        found = [item for path in self._opened for item in parse_lines(path, named)]
        self._loaded = False
        self._workloads.clear()
        self._sessions.clear()
        self._calibrations.clear()
        self._forget_records()
        for item in found:
            if isinstance(item, Workload):
                super()._keep_workload(item)
            elif isinstance(item, TuningRecord):
                super().commit_tuning_record(item)
            elif isinstance(item, Session):
                super().commit_session(item)
            elif isinstance(item, MachineCalibration):
                super().commit_calibration(item)
        self._loaded = True

    @property
    def _paths(self) -> tuple[Path, Path]:
        """Both files, the one whose lines the other's refer to first."""
        return self.path_workload, self.path_tuning_record

    def _store(self, record: TuningRecord) -> None:
        if self._loaded:
            self._append(self.path_tuning_record, record)
        super()._store(record)

    def commit_session(self, session: Session) -> None:
        with self._lock:
            self._append(self.path_tuning_record, session)
            super().commit_session(session)

    def commit_calibration(self, calibration: MachineCalibration) -> None:
        with self._lock:
            self._append(self.path_tuning_record, calibration)
            super().commit_calibration(calibration)

    def remove_records(self, records: Sequence[TuningRecord]) -> int:
        with self._rewriting():
            return super().remove_records(records)

    def compact(self) -> int:
        with self._rewriting():
            return super().compact()

    @contextmanager
    def _rewriting(self) -> Iterator[None]:
        """Both files are written anew behind the block, with what is kept then: all that was in them at its begin, as far as it could be
        read. Whoever else has them open is told to open them again when it commits."""
        with self._lock, ExitStack() as stack:
            for path, opened in self._opened.items():
                stack.enter_context(locked(path, opened))
            self._read()
            yield
            # The records first: whoever is killed in between leaves programs without records, not records without programs.
            for path in reversed(self._opened):
                replace_lines(path, map(line_of, self._items_of(path)))
                self._opened[path] = self._held(path)

    def _items_of(self, path: Path) -> Sequence[Item]:
        """What is kept in one of the files."""
        if path == self.path_workload:
            return self.get_workloads()
        return [*self.get_sessions(), *self.get_calibrations(), *self.get_all_tuning_records()]

    def claim(
        self, workload: Workload, target: TargetLike, candidates: Sequence[str], owner: str
    ) -> list[bool]:
        with self._lock:
            self._make_missing()
        return super().claim(workload, target, candidates, owner)

    def release(self, owner: str) -> None:
        if self.path_tuning_record in self._opened:  # else there is no folder for claims
            super().release(owner)

    def _keep_workload(self, workload: Workload) -> Workload:
        with self._lock:
            if workload.shash not in self._workloads and self._loaded:
                self._append(self.path_workload, workload)
            return super()._keep_workload(workload)

    @staticmethod
    def _exists(path: Path) -> bool:
        try:
            return path.exists()
        except OSError as error:
            raise cannot_look(path, error) from error

    def _make_missing(self) -> None:
        """Make the files that were missing when the database was opened."""
        for path in self._paths:
            if path in self._opened:
                continue
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            except OSError as error:
                raise DatabaseFileError(
                    f"cannot make database file {str(path)!r}: {error.strerror}; choose another place, or make it one that can be written"
                ) from error
            self._opened[path] = self._held(path)

    def _held(self, path: Path) -> FileId | None:
        """What tells a file from others; it is held open, since the system gives the numbers of removed files to new ones."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None  # who reads it says why
        weakref.finalize(self, os.close, handle)
        return file_id(handle)

    def _append(self, path: Path, item: Item) -> None:
        self._make_missing()
        # A record is lost without its workload's line, which is in the other file.
        for other in self._opened.keys() - {path}:
            check_same(other, self._opened[other])
        append_lines(path, [line_of(item)], self._opened[path])

    def __reduce__(self) -> Any:
        return (_opened_json, (self.path_workload, self.path_tuning_record, self.module_equality.name))


def _opened_json(path_workload: Path, path_tuning_record: Path, module_equality: str) -> JSONDatabase:
    """What is unpickled."""
    return JSONDatabase(path_workload, path_tuning_record, module_equality=module_equality)
