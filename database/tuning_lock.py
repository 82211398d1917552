"""Lock files: the record of each kernel of a model, pinned in a text that is kept with the model's sources.

A build with a lock takes nothing but what is in it, so it needs no database and gives the same code wherever versions and target are
those of the lock. The text is JSON with a kernel after the other and an instruction of a trace a line, so that a change reads as one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from ir import IRModule
from ir.error import IRError
from ir.target import Target
from ir.time_interval import median_secs, milliseconds
from schedules import Schedule, ScheduleError

from .base import Database, Program
from .error import DatabaseError, DatabaseFileError, SchemaVersionError
from .fingerprint import software_versions
from .meta_schedule_apply_database import ApplyReport, DefaultSchedule, ModelKernel
from .record import TuningRecord
from .target_key import TargetLike, explicit_target, target_differences, target_key
from .workload import Workload, as_module, structural_key

FORMAT = 1
"""Version of the form; a lock of another one is refused with both numbers."""
_MOST_BYTES = 1 << 28
_NAME = "loopsmith_lock"
"""What every lock file says."""
_SOURCES = ("record", "default", "unscheduled")
_VERSIONS = ("loopsmith", "llvmlite")
"""The software that decides what code a schedule becomes."""


class LockError(DatabaseError):
    """A lock file is damaged, or does not fit what is built."""


@dataclass(frozen=True)
class LockedKernel:
    """What a lock says of one kernel.

    Attributes:
        names: the functions of the model that it is, in order.
        workload: its hash, by which it is found.
        target: what it is for, spelled out.
        source: ``record``, ``default`` or ``unscheduled``, as in :class:`~database.meta_schedule_apply_database.AppliedKernel`.
        record: the pinned record as plain data (``id``, its digest in the database that it came from; ``created_at``, ``run_secs``,
            ``verified``, ``versions``, ``trace``); None for other sources.
    """

    names: tuple[str, ...]
    workload: str
    target: Target
    source: str
    record: dict[str, Any] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What it is known by: its workload, and the key of its target."""
        return self.workload, target_key(self.target)

    @property
    def described(self) -> str:
        """Its names, for messages."""
        return ", ".join(self.names)

    @property
    def time_text(self) -> str:
        """The record's time for people, or what stands in its place."""
        if self.record is None:
            return self.source
        times = self.record["run_secs"]
        return f"{milliseconds(median_secs(times))} ms" if times else "no time"

    def record_of(self, mod: Program) -> TuningRecord | None:
        """The pinned record, of the program whose hash this is."""
        if self.record is None:
            return None
        return _PinnedRecord(
            self.record["id"],
            Workload(mod),
            self.record["run_secs"] or None,
            self.target,
            trace_json=self.record["trace"],
            verified=self.record["verified"],
            versions=self.record["versions"],
            created_at=self.record["created_at"],
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data, in the order of the text."""
        return {
            "names": list(self.names),
            "workload": self.workload,
            "target": self.target.export(),
            "source": self.source,
            **({} if self.record is None else {"record": self.record}),
        }

    @staticmethod
    def from_json(entry: Any) -> LockedKernel:
        """The kernel that :meth:`as_json` described.

        Raises:
            TypeError, ValueError, KeyError, AttributeError: it is something else.
            IRError: its target is none, or its times are no times.
        """
        names, workload, source = entry["names"], entry["workload"], entry["source"]
        if not names or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{names!r:.80} are no names of functions")
        if not isinstance(workload, str) or source not in _SOURCES:
            raise ValueError(f"{workload!r:.80} from {source!r:.80} is no kernel")
        record = entry.get("record")
        if (record is not None) != (source == "record"):
            raise ValueError(f"{names[0]!r:.80} has the source {source!r}, which does not fit its record")
        if record is not None:
            _require_record(record)
        return LockedKernel(tuple(names), workload, Target(dict(entry["target"])), source, record)


def _require_record(record: Any) -> None:
    times = record["run_secs"]
    if not isinstance(record["id"], str) or not isinstance(record["verified"], bool):
        raise TypeError("a record has an id and says whether it was verified")
    if type(record["created_at"]) not in (int, float) or not math.isfinite(record["created_at"]):
        raise TypeError("a record says when it was measured, in seconds")
    if not isinstance(times, list) or not all(
        type(item) in (int, float) and 0 < item < math.inf for item in times
    ):
        raise ValueError(f"{times!r:.80} are no times")
    if not all(isinstance(item, str) for pair in record["versions"].items() for item in pair):
        raise TypeError("versions are texts by name")
    if not isinstance(record["trace"], list):
        raise TypeError("a trace is a list")


@dataclass(frozen=True)
class TuningLock:
    """The kernels of a model with their records, for a target.

    Attributes:
        target: of the model, spelled out.
        versions: of the software that the lock was written with.
        kernels: in order of their names.
    """

    target: Target
    versions: dict[str, str]
    kernels: tuple[LockedKernel, ...]

    # ---- making and storing ---------------------------------------------------------------------------------

    @staticmethod
    def of_report(report: ApplyReport, target: TargetLike) -> TuningLock:
        """What a build has applied to each kernel."""
        by_key: dict[tuple[str, str], LockedKernel] = {}
        for item in report.kernels:
            assert item.target is not None
            found = LockedKernel(
                (item.name,), item.workload, explicit_target(item.target), item.source, _pinned(item.record)
            )
            known = by_key.get(found.key)
            names = (item.name,) if known is None else tuple(sorted({*known.names, item.name}))
            by_key[found.key] = LockedKernel(names, found.workload, found.target, found.source, found.record)
        kernels = tuple(sorted(by_key.values(), key=lambda kernel: (kernel.names, *kernel.key)))
        return TuningLock(explicit_target(target), _own_versions(), kernels)

    def _document(self) -> dict[str, Any]:
        return {
            _NAME: FORMAT,
            "target": self.target.export(),
            "versions": self.versions,
            "kernels": [kernel.as_json() for kernel in self.kernels],
        }

    @cached_property
    def checksum(self) -> str:
        """``sha256:`` and the hexadecimal digits of the checksum of all that it says."""
        return _checksum(self._document())

    def as_text(self) -> str:
        """The text of the lock file; equal locks have equal texts."""
        return _lines({"checksum": self.checksum, **self._document()}, 0, "") + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the lock file, in the place of one that is there, damaged or not.

        Raises:
            DatabaseFileError: it cannot be written.
            LockError: there is another file of that name.
        """
        where = Path(os.path.realpath(path))  # a link stays one
        TuningLock.require_place(where)
        try:
            with tempfile.TemporaryDirectory(prefix=".loopsmith-", dir=where.parent) as folder:
                made = Path(folder, where.name)
                made.write_text(self.as_text(), encoding="utf-8")
                made.replace(where)
        except OSError as error:
            raise _unwritable(where, error.strerror) from error

    @staticmethod
    def require_place(path: str | os.PathLike[str]) -> None:
        """Refuse a place that :meth:`write` would refuse, before what is to be written is computed; errors as of that."""
        where = Path(os.path.realpath(path))
        try:
            size = where.stat().st_size if where.exists() else 0
            if size and (size > _MOST_BYTES or not _is_ours(where.read_bytes())):
                raise LockError(f"{where} is no lock file, and is not overwritten; name another one")
        except OSError as error:
            raise _unwritable(where, error.strerror) from error
        if not os.access(where.parent, os.W_OK):
            why = "the folder cannot be written to" if where.parent.is_dir() else "there is no such folder"
            raise _unwritable(where, why)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> TuningLock:
        """The lock of a file.

        Raises:
            DatabaseFileError: it is missing or unreadable.
            SchemaVersionError: another version wrote it in a form that this one does not know.
            LockError: it is no lock file, or damaged.
        """
        where = Path(path)
        try:
            if where.stat().st_size > _MOST_BYTES:
                raise LockError(f"{where} is no lock file: it has more than {_MOST_BYTES >> 20} MiB")
            data = where.read_bytes()
        except OSError as error:
            fix = "; `loopsmith build --lock` writes it" if isinstance(error, FileNotFoundError) else ""
            raise DatabaseFileError(f"cannot read the lock file {where}: {error.strerror}{fix}") from error
        return TuningLock.from_text(data, str(where))

    @staticmethod
    def from_text(data: bytes | str, source: str = "the lock") -> TuningLock:
        """The lock that :meth:`as_text` described; errors as of :meth:`read`."""
        advice = "take it from version control, or write it again with --update-lock"
        try:
            document = json.loads(data, parse_constant=_no_number)
            version, written = document[_NAME], document.pop("checksum")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            # What another program may have written is not overwritten, so that there is no advice to write it again.
            fix = advice if _is_ours(data) else "name the file that `loopsmith build --lock` wrote"
            reason = f" ({error})" if isinstance(error, json.JSONDecodeError) else ""
            raise LockError(f"{source} is no lock file of loopsmith{reason}; {fix}") from error
        if version != FORMAT:
            raise SchemaVersionError(
                f"{source} has the form {version!r:.40}, this version of loopsmith reads {FORMAT}; use the loopsmith that wrote it, or"
                " write it again with --update-lock"
            )
        try:
            if written != _checksum(document):
                raise LockError(
                    f"{source} was changed after it was written, by hand or by a merge, for its checksum is another one; {advice}"
                )
            return TuningLock(
                Target(dict(document["target"])),
                {str(name): str(value) for name, value in document["versions"].items()},
                tuple(LockedKernel.from_json(entry) for entry in document["kernels"]),
            )
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
            IRError,
        ) as error:
            if isinstance(error, LockError):
                raise
            raise LockError(f"{source} holds what is no lock ({error!r:.200}); {advice}") from error

    # ---- using ----------------------------------------------------------------------------------------------

    @cached_property
    def by_key(self) -> dict[tuple[str, str], LockedKernel]:
        """The kernels by what they are known by."""
        return {kernel.key: kernel for kernel in self.kernels}

    def version_differences(self) -> list[str]:
        """What of the software is not as it was when the lock was written: then the code may be another, too."""
        own = _own_versions()
        return [
            f"{name} {own[name]} (the lock was written with {self.versions.get(name, 'none')})"
            for name in _VERSIONS
            if own[name] != self.versions.get(name)
        ]

    def differences(self, kernels: Sequence[ModelKernel]) -> list[str]:
        """In what a prepared model is not the one that was locked, a sentence for each kernel.

        Args:
            kernels: of the model, see :func:`~database.meta_schedule_apply_database.kernels_of`.
        """
        wanted: dict[tuple[str, str], ModelKernel] = {}
        for item in kernels:
            wanted.setdefault((item.workload, target_key(item.target)), item)
        found = []
        for key, item in wanted.items():
            if key not in self.by_key:
                others = [kernel for kernel in self.kernels if kernel.workload == item.workload]
                found.append(f"{item.var.name_hint}: {_why_missing(item, others)}")
        locked = {item.workload for item in wanted.values()}
        found += [
            f"{kernel.described}: in the lock, and no kernel of the model any more"
            for kernel in self.kernels
            if kernel.workload not in locked
        ]
        return found

    def without_record(self) -> list[str]:
        """The kernels that have no record, a sentence for each."""
        return [
            f"{kernel.described}: no record; a build takes the {kernel.source} schedule"
            if kernel.source == "default"
            else f"{kernel.described}: no record; a build leaves it as it is written"
            for kernel in self.kernels
            if kernel.record is None
        ]

    def require_fits(self, kernels: Sequence[ModelKernel], source: str) -> None:
        """Refuse a model that is not the locked one.

        Raises:
            LockError: kernels or the target differ; each is named.
        """
        if found := self.differences(kernels):
            raise LockError(
                f"the model is not the one that {source} was written for: {'; '.join(found)}. Build what was locked, or write the lock"
                " again with --update-lock (update_lock=True) and a database"
            )

    def require_applied(self, report: ApplyReport, source: str) -> None:
        """Refuse a build that has not applied what is locked.

        Raises:
            LockError: a record does not apply in this version; each is named.
        """
        found = []
        for item in report.kernels:
            assert item.target is not None
            locked = self.by_key[item.workload, target_key(item.target)]
            if locked.source != item.source:
                found.append(f"{item.name}: the lock has a {locked.source}, this build {item.reason}")
        if found:
            raise LockError(
                f"what {source} pins does not apply in this version of loopsmith: {'; '.join(found)}. Use the versions of the lock, or tune"
                " again and write it with --update-lock (update_lock=True)"
            )

    def fallback(self, otherwise: DefaultSchedule | None) -> DefaultSchedule | None:
        """What makes the schedules of kernels without a record: those that were built without any schedule stay as they are."""
        if otherwise is None:
            return None
        make: Callable[[IRModule, Target], Schedule] = otherwise

        def schedule(mod: IRModule, target: Target) -> Schedule:
            locked = self.by_key.get((structural_key(mod), target_key(target)))
            if locked is not None and locked.source == "unscheduled":
                raise ScheduleError("the lock leaves this kernel as it is written")
            return make(mod, target)

        return schedule


class _PinnedRecord(TuningRecord):
    """What a lock keeps of a record: less than the whole, under the digest of the whole."""

    __slots__ = ("_digest",)

    def __init__(self, digest: str, *args: Any, **fields: Any) -> None:
        super().__init__(None, *args, **fields)
        self._digest = digest

    @property
    def digest(self) -> str:
        return self._digest


class LockedDatabase(Database):
    """Answers queries with what a lock pins, and nothing else."""

    def __init__(self, lock: TuningLock) -> None:
        self.lock = lock

    def fastest_record(self, mod: Program, target: TargetLike) -> TuningRecord | None:
        locked = self.lock.by_key.get((structural_key(as_module(mod)), target_key(target)))
        return None if locked is None else locked.record_of(mod)

    def has_workload(self, mod: Program) -> bool:
        key = structural_key(as_module(mod))
        return any(kernel.workload == key for kernel in self.lock.kernels)

    def commit_workload(self, mod: Program) -> Workload:
        self._refuse()

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self._refuse()

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        found = [
            kernel.record_of(workload.mod)
            for kernel in self.lock.kernels
            if kernel.workload == workload.shash
        ]
        return [record for record in found if record is not None][:top_k]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """None: a lock has no programs of its own."""
        return []

    def __len__(self) -> int:
        return sum(kernel.record is not None for kernel in self.lock.kernels)

    def _refuse(self) -> NoReturn:
        raise DatabaseError("a lock is not written to record by record; a build with --update-lock writes it")


def _pinned(record: TuningRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {
        "id": record.digest,
        "created_at": record.created_at,
        "run_secs": list(record.run_secs or ()),
        "verified": record.verified,
        "versions": {name: record.versions[name] for name in sorted(record.versions)},
        "trace": record.trace_json,
    }


def _unwritable(where: Path, why: str | None) -> DatabaseFileError:
    return DatabaseFileError(f"cannot write the lock file {where}: {why}; choose another place")


def _own_versions() -> dict[str, str]:
    known = software_versions()
    return {name: known[name] for name in _VERSIONS}


def _why_missing(item: ModelKernel, others: Iterable[LockedKernel]) -> str:
    for other in others:
        fields = target_differences(explicit_target(item.target), other.target)
        told = ", ".join(f"{name} {wanted!r} instead of {had!r}" for name, wanted, had in fields)
        return f"locked for another target ({told})"
    return "not in the lock"


def _is_ours(data: bytes | str) -> bool:
    """Whether a file is a lock, damaged or not."""
    return f'"{_NAME}":'.encode() in (data.encode(errors="replace") if isinstance(data, str) else data)


def _checksum(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of a lock")


_LINES_DEEP = 6
"""Levels of the document whose items have lines of their own: down to the instructions of a trace."""
_IN_ONE_LINE = ("names", "target", "versions", "run_secs")


def _lines(value: Any, level: int, name: str) -> str:
    """JSON whose items stand on lines of their own down to a level."""
    if level == _LINES_DEEP or name in _IN_ONE_LINE or not value or not isinstance(value, dict | list):
        return json.dumps(value)
    inner = "\n" + " " * (level + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_lines(item, level + 1, key)}" for key, item in value.items()]
        return "{" + inner + ("," + inner).join(items) + "\n" + " " * level + "}"
    items = [_lines(item, level + 1, "") for item in value]
    return "[" + inner + ("," + inner).join(items) + "\n" + " " * level + "]"
