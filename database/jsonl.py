"""The exchange format: one JSON object per line, each with the format's version and its kind.

A file holds ``workload``, ``record``, ``session`` and ``calibration`` lines; a record names its workload by hash, and the workload's line
comes first. A last line that was torn by a crash is dropped; a broken line in the middle is an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .base import Database
from .damage import DAMAGE
from .error import DatabaseError, DatabaseFileError, SchemaVersionError, cannot_write
from .file_id import FileId, file_id
from .lock import lock
from .machine_calibration import MachineCalibration
from .memory import MemoryDatabase
from .record import Session, TuningRecord
from .workload import Workload

FORMAT_VERSION = 2
"""The newest version; a line has the version that brought its kind, so that older releases read the lines that they know."""
_VERSIONS = {"workload": 1, "record": 1, "session": 1, "calibration": 2}

Item = Workload | TuningRecord | Session | MachineCalibration
"""What a line holds."""


def line_of(item: Item) -> str:
    """The line, newline included, of a workload, a record, a session or a calibration."""
    kinds: dict[type, str] = {
        Workload: "workload",
        TuningRecord: "record",
        Session: "session",
        MachineCalibration: "calibration",
    }
    kind = kinds[type(item)]
    body = {"v": _VERSIONS[kind], "kind": kind, **item.as_json()}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def read_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with the numbers of their lines; a torn last line is left out.

    Raises:
        DatabaseFileError: the file is missing, or a line that is not the last cannot be read.
        SchemaVersionError: a line has a newer format version.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DatabaseFileError(f"cannot read tuning records from {str(path)!r}: {error.strerror}") from error
    *complete, tail = data.split(b"\n")
    # A complete file ends with a newline, so that what follows the last one is torn, unless it parses.
    lines = [*complete, tail] if tail else complete
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            if (
                not isinstance(item, dict)
                or type(item.get("v")) is not int
                or not isinstance(item.get("kind"), str)
            ):
                raise ValueError("expected an object with a version 'v' and a 'kind'")
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return
            raise DatabaseFileError(
                f"{str(path)!r}, line {number} is not a tuning record ({error}); remove the line to read the others"
            ) from error
        if item["v"] > FORMAT_VERSION:
            raise SchemaVersionError(
                f"{str(path)!r}, line {number} has format version {item['v']}; this loopsmith reads up to "
                f"{FORMAT_VERSION}: update loopsmith, or export the records again with the older one"
            )
        yield number, item


def parse_lines(path: str | Path, workloads: dict[str, Workload]) -> Iterator[Item]:
    """What the lines of a file say; ``workloads`` resolves hashes and is extended by the file's own.

    Raises:
        DatabaseError: a record names a workload that came neither with the file nor from the caller, or a line holds
            something else than its kind says.
    """
    for number, item in read_lines(path):
        try:
            yield _parsed(item, workloads, f"{str(path)!r}, line {number}")
        except DAMAGE as error:
            why = str(error) if isinstance(error, DatabaseError) else repr(error)
            raise DatabaseError(f"{str(path)!r}, line {number}: {why}") from error


def _parsed(item: dict[str, Any], workloads: dict[str, Workload], source: str) -> Item:
    kind = item["kind"]
    if kind == "workload":
        workload = Workload.from_json(item, source)
        workload = workloads.setdefault(workload.shash, workload)
        workloads[item["shash"]] = workload  # an older version's hash, by which the file's records name it
        return workload
    if kind == "record":
        if item["workload"] not in workloads:
            raise DatabaseError(
                f"a record of workload {item['workload']}, whose program is missing; the workload's line must come before it"
            )
        workload = workloads[item["workload"]]
        return TuningRecord.from_json({**item, "workload": workload.shash}, workload)
    if kind == "session":
        return Session.from_json(item)
    if kind == "calibration":
        return MachineCalibration.from_json(item)
    raise DatabaseError(f"a line of unknown kind {kind!r}; expected {', '.join(_VERSIONS)}")


def append_lines(path: str | Path, lines: Iterable[str], opened: FileId | None = None) -> None:
    """Append lines under a lock, after cutting off what a crash left unfinished; on the disk when this returns.

    Args:
        path: the file.
        lines: with their ends.
        opened: what the file must be still.

    Raises:
        DatabaseFileError: it cannot be written, or it is another one.
    """
    path = Path(path)
    try:
        with path.open("r+b") as file:
            lock(file.fileno())
            if opened is not None:
                check_same(path, opened)
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            if end and file.read(1) != b"\n":
                _mend_tail(file)
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())
    except DatabaseFileError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from error


def check_same(path: Path, opened: FileId | None) -> None:
    """Refuse a file that is not the one any more that was opened.

    Raises:
        DatabaseFileError: it was removed, or replaced by another.
    """
    found = file_id(path)
    if found != opened:
        what = "removed" if found is None else "replaced by another"
        raise DatabaseFileError(
            f"tuning database file {str(path)!r} was {what} while it was open: put it back, or open the database again; nothing was"
            " written"
        )


def _mend_tail(file: BinaryIO) -> None:
    """Leave the position after a complete last line: a whole record gets its line's end, a torn one is cut off."""
    file.seek(0)
    data = file.read()
    begin = data.rfind(b"\n") + 1
    try:
        json.loads(data[begin:])
    except (ValueError, RecursionError):
        file.truncate(begin)
        file.seek(begin)
    else:
        file.seek(len(data))
        file.write(b"\n")


def export_records(source: Database, path: str | Path, *, pruned: bool = False) -> int:
    """Write a database's sessions, workloads and records to a file that replaces ``path`` at once; the number of records.

    With ``pruned`` only the fastest record of each workload and target is written.

    Raises:
        DatabaseFileError: the path cannot be written.
    """
    path = Path(path)
    chosen: Database = source
    if pruned:
        chosen = MemoryDatabase()
        source.dump_pruned(chosen)
    records = chosen.get_all_tuning_records()
    workloads = {record.workload.shash: record.workload for record in records}
    wanted = {record.session_id for record in records}
    sessions = [session for session in source.get_sessions() if not pruned or session.id in wanted]
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            for session in sessions:
                file.write(line_of(session))
            for workload in workloads.values():
                file.write(line_of(workload))
            for record in records:
                file.write(line_of(record))
        temporary.replace(path)
    except OSError as error:
        raise DatabaseFileError(
            f"cannot write tuning records to {str(path)!r}: {error.strerror}; give a path in a folder that can be written"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return len(records)


def import_records(destination: Database, path: str | Path) -> int:
    """Add a file's records to a database, leaving out those that it has already; the number of records added.

    Raises:
        DatabaseFileError: the file is missing, or a line of it cannot be read; nothing was added then.
        SchemaVersionError: a line has a newer format version, likewise.
    """
    known = {_identity(record) for record in destination.get_all_tuning_records()}
    entries: dict[str, Workload] = {}
    added = 0
    for item in list(parse_lines(path, {})):
        if isinstance(item, Session):
            destination.commit_session(item)
        elif isinstance(item, TuningRecord):
            # Hashed anew: another version may have hashed the same program differently.
            entry = entries.get(item.workload.shash)
            if entry is None:
                entry = entries[item.workload.shash] = destination.commit_workload(item.workload.mod)
            item.workload = entry
            if _identity(item) not in known:
                known.add(_identity(item))
                destination.commit_tuning_record(item)
                added += 1
    return added


def count_records(path: str | Path) -> int:
    """How many records a file has."""
    return sum(item["kind"] == "record" for _, item in read_lines(path))


def _identity(record: TuningRecord) -> str:
    return json.dumps(record.as_json(), sort_keys=True)
