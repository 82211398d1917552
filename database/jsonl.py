"""The exchange format: one JSON object per line, each with the format's version and its kind.

A file holds ``workload``, ``record``, ``session`` and ``calibration`` lines; a record names its workload by hash, and the workload's line
comes first. A last line that was torn by a crash is dropped; a broken line in the middle is named in a warning and left out.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from .base import Database
from .damage import DAMAGE, LeftOut
from .error import DatabaseError, DatabaseFileError, SchemaVersionError, cannot_look, cannot_write
from .file_id import FileId, file_id
from .lock import lock
from .machine_calibration import MachineCalibration
from .record import Session, TuningRecord
from .workload import Workload

FORMAT_VERSION = 2
"""The newest version; a line has the version that brought its kind, so that older releases read the lines that they know."""
_RECENT = 256
"""So many workloads of a file are remembered with their programs."""
_BLOCK = 1 << 16
"""Bytes that are read at a time, where the end of a file is looked at."""
_SQLITE_HEADER = b"SQLite format 3\0"
_VERSIONS = {"workload": 1, "record": 1, "session": 1, "calibration": 2}

Item = Workload | TuningRecord | Session | MachineCalibration
"""What a line holds."""


def line_of(item: Item) -> str:
    """The line, newline included, of a workload, a record, a session or a calibration.

    Raises:
        DatabaseError: it holds a number that is not finite, or what is no text.
    """
    kinds: dict[type, str] = {
        Workload: "workload",
        TuningRecord: "record",
        Session: "session",
        MachineCalibration: "calibration",
    }
    kind = kinds[type(item)]
    return _text_of({"v": _VERSIONS[kind], "kind": kind, **item.as_json()}) + "\n"


def _text_of(body: dict[str, Any]) -> str:
    """JSON that every reader takes, and every storage: Python's own reads and writes more.

    Raises:
        DatabaseError: there is a number that is not finite, or a half of a character.
    """
    try:
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError as error:
        raise DatabaseError(f"a {body['kind']} that no JSON can hold: {error}") from error
    return text


def read_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any] | DatabaseFileError]]:
    """The objects of a file with the numbers of their lines, or why there is none in a line; a torn last line is left out.

    Raises:
        DatabaseFileError: the file is missing.
        SchemaVersionError: a line has a newer format version.
    """
    return ((number, item) for number, _, item in _placed_lines(path))


def _placed_lines(path: str | Path) -> Iterator[tuple[int, int, dict[str, Any] | DatabaseFileError]]:
    """What :func:`read_lines` gives, with the place in the file where each line begins."""
    try:
        with open(path, "rb") as file:
            place = 0
            broken: tuple[int, int, DatabaseFileError] | None = None
            for number, line in enumerate(file, 1):
                if broken is not None:
                    yield broken
                    broken = None
                if line.strip():
                    try:
                        yield number, place, _object_of(line)
                    except SchemaVersionError as error:
                        raise SchemaVersionError(f"{str(path)!r}, line {number} {error}") from error
                    except (ValueError, RecursionError) as error:
                        # Named when there is another line: the last one was torn.
                        broken = number, place, _broken_line(path, number, error)
                place += len(line)
    except DatabaseError:
        raise
    except OSError as error:
        raise DatabaseFileError(f"cannot read tuning records from {str(path)!r}: {error.strerror}") from error


def _object_of(line: bytes) -> dict[str, Any]:
    """The object of a line.

    Raises:
        ValueError, RecursionError: it holds none.
        SchemaVersionError: it has a newer format version.
    """
    item = json.loads(line)
    if not isinstance(item, dict) or type(item.get("v")) is not int or not isinstance(item.get("kind"), str):
        raise ValueError("expected an object with a version 'v' and a 'kind'")
    if item["v"] > FORMAT_VERSION:
        raise SchemaVersionError(
            f"has format version {item['v']}; this loopsmith reads up to {FORMAT_VERSION}: update loopsmith, or export the records again"
            " with the older one"
        )
    return item


def _broken_line(path: str | Path, number: int, error: Exception) -> DatabaseFileError:
    advice = "; give a file that 'loopsmith db export' wrote" if number == 1 else ""
    return DatabaseFileError(f"{str(path)!r}, line {number} is not a tuning record ({error}){advice}")


def parse_lines(path: str | Path, workloads: MutableMapping[str, Workload]) -> Iterator[Item]:
    """What the lines of a file say. Those that cannot be read, and records whose workload is unknown, are left out with a warning.

    Args:
        path: the file.
        workloads: resolves hashes, and is extended by the file's own.

    Raises:
        DatabaseError: no line can be read: what is wrong with the first.
        SchemaVersionError: a line has a newer format version.
    """
    return _parsed_lines(path, read_lines(path), workloads, LeftOut())


def stream_lines(path: str | Path, left_out: LeftOut | None = None) -> Iterator[Item]:
    """What the lines of a file say, of which a few are in memory at a time.

    Args:
        path: the file.
        left_out: counts, and names, what is left out.

    Raises:
        DatabaseError, SchemaVersionError: see :func:`parse_lines`.
    """
    with WorkloadsOfFile(path) as workloads:
        yield from _parsed_lines(
            path, workloads.following(_placed_lines(path)), workloads, left_out or LeftOut()
        )


def _parsed_lines(
    path: str | Path,
    lines: Iterable[tuple[int, dict[str, Any] | DatabaseFileError]],
    workloads: MutableMapping[str, Workload],
    left_out: LeftOut,
) -> Iterator[Item]:
    for number, item in lines:
        try:
            if isinstance(item, DatabaseFileError):
                raise item
            parsed = _parsed(item, workloads, f"{str(path)!r}, line {number}")
        except DatabaseFileError as error:
            left_out.add(error)
        except DAMAGE as error:
            why = str(error) if isinstance(error, DatabaseError) else repr(error)
            left_out.add(DatabaseError(f"{str(path)!r}, line {number}: {why}"))
        else:
            left_out.go_on()
            yield parsed
    left_out.end(path)


class WorkloadsOfFile(MutableMapping[str, Workload]):
    """The workloads of a file of records by their hashes: those that were asked for last, others are read again.

    Args:
        path: the file.
    """

    def __init__(self, path: str | Path) -> None:
        self._place = 0
        """Where the line begins whose workload is added next."""
        self._path = path
        self._file: BinaryIO | None = None
        self._places: dict[str, int] = {}
        self._recent: OrderedDict[str, Workload] = OrderedDict()

    def following(
        self, lines: Iterable[tuple[int, int, dict[str, Any] | DatabaseFileError]]
    ) -> Iterator[tuple[int, dict[str, Any] | DatabaseFileError]]:
        """Lines with their numbers, of lines with their places, too: what is added before the next is asked for is of this one."""
        for number, self._place, item in lines:
            yield number, item

    def __getitem__(self, shash: str) -> Workload:
        if shash not in self._recent:
            self._file = self._file or open(self._path, "rb")
            self._file.seek(self._places[shash])
            self._remember(shash, Workload.from_json(json.loads(self._file.readline()), str(self._path)))
        self._recent.move_to_end(shash)
        return self._recent[shash]

    def __setitem__(self, shash: str, workload: Workload) -> None:
        self._places[shash] = self._place
        self._remember(shash, workload)

    def _remember(self, shash: str, workload: Workload) -> None:
        self._recent[shash] = workload
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)

    def __contains__(self, shash: object) -> bool:
        return shash in self._places

    def __delitem__(self, shash: str) -> None:
        del self._places[shash]
        self._recent.pop(shash, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __enter__(self) -> WorkloadsOfFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _parsed(item: dict[str, Any], workloads: MutableMapping[str, Workload], source: str) -> Item:
    kind = item["kind"]
    _text_of(item)
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


@contextmanager
def locked(path: Path, opened: FileId | None) -> Iterator[None]:
    """Nobody appends lines within the block.

    Raises:
        DatabaseFileError: the file cannot be opened, or is not the one that was opened.
    """
    try:
        with path.open("rb") as file:
            lock(file.fileno())
            check_same(path, opened)
            yield
    except DatabaseFileError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from error


def replace_lines(path: Path, lines: Iterable[str]) -> None:
    """Put lines in the place of a file's, all of them or none; on the disk when this returns.

    Raises:
        DatabaseFileError: it cannot be written.
    """
    try:
        with _replacing(path) as file:
            file.writelines(lines)
    except OSError as error:
        raise cannot_write(path, error) from error


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    """A file that takes the place of another at the end of the block, when it is on the disk; after an error it is gone."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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
    begin = _begin_of_last_line(file)
    file.seek(begin)
    try:
        json.loads(file.read())
    except (ValueError, RecursionError):
        file.truncate(begin)
        file.seek(begin)
    else:
        file.write(b"\n")


def _begin_of_last_line(file: BinaryIO) -> int:
    """Where the last line begins that may have no end; it is looked for from behind, as the file may be long."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def export_records(source: Database, path: str | Path, *, pruned: bool = False) -> int:
    """Write a database's sessions, workloads and records to a file that replaces ``path`` at once; the number of records.

    With ``pruned`` only the fastest record of each workload and target is written, of those that apply. What cannot be read is named in
    a warning and left out.

    Raises:
        DatabaseFileError: the path cannot be written, or is something else than a file of records, such as a database.
    """
    path = Path(path)
    _check_replaceable(path)
    records = source.pruned_records() if pruned else source.stream_records()
    try:
        with _replacing(path) as file:
            count, wanted = _write_records(file, records, path)
            for session in source.get_sessions():
                if not pruned or session.id in wanted:
                    file.write(line_of(session))
    except DatabaseFileError:  # is an OSError too: the source cannot be read
        raise
    except OSError as error:
        raise DatabaseFileError(
            f"cannot write tuning records to {str(path)!r}: {error.strerror}; give a path in a folder that can be written"
        ) from error
    return count


def _write_records(file: TextIO, records: Iterable[TuningRecord], path: Path) -> tuple[int, set[str | None]]:
    """Write records as they come, the workload of each before its first one, and name those that cannot be written.

    Returns:
        how many were written, and the sessions that they name.
    """
    left_out, count = LeftOut(), 0
    left_out.go_on()  # a database of which nothing can be read has been named when it was read
    is_written: dict[str, bool] = {}
    sessions: set[str | None] = set()
    for record in records:
        shash = record.workload.shash
        if shash not in is_written:
            is_written[shash] = _write(file, record.workload, f"workload {shash} with its records", left_out)
        if is_written[shash] and _write(file, record, f"a record of workload {shash}", left_out):
            sessions.add(record.session_id)
            count += 1
    left_out.end(path)
    return count, sessions


def _write(file: TextIO, item: Item, what: str, left_out: LeftOut) -> bool:
    """Write a line, if it can be."""
    try:
        file.write(line_of(item))
    except DAMAGE as error:
        left_out.add(DatabaseError(f"{what}: {error}"))
        return False
    return True


def _check_replaceable(path: Path) -> None:
    """Refuse to replace what is there and was not exported: its content would be lost.

    Raises:
        DatabaseFileError: it is no file, or one without tuning records.
    """
    try:
        if not path.exists():
            return
        holds_records = path.is_file() and (
            path.stat().st_size == 0 or any(isinstance(item, dict) for _, item in read_lines(path))
        )
    except DatabaseFileError:
        holds_records = False
    except OSError as error:
        raise cannot_look(path, error) from error
    if not holds_records:
        raise DatabaseFileError(
            f"{str(path)!r} is there already and is no file of tuning records, which an export would replace; name another, or remove"
            " it first"
        )


def import_records(
    destination: Database, source: str | Path | Database, left_out: LeftOut | None = None
) -> int:
    """Add the records of a file or of another database, leaving out those that are there already; the number of records added.

    What cannot be read is named in a warning and left out; ``left_out`` counts it. A few records are in memory at a time, whatever the
    size; a file is read twice, so that one of which nothing can be read, or of a newer version, changes nothing.

    Raises:
        DatabaseFileError: the file is missing, or nothing of it can be read; nothing was added then.
        SchemaVersionError: a line has a newer format version, likewise.
    """
    left_out = LeftOut() if left_out is None else left_out
    items: Iterable[Item]
    if isinstance(source, Database):
        left_out.go_on()  # a database names its rows itself; here it is single programs
        items = chain(source.get_sessions(), source.stream_records())
    else:
        for _ in stream_lines(source, LeftOut(is_silent=True)):
            pass
        items = stream_lines(source, left_out)
    return destination.commit_tuning_records(_adopted(destination, items, left_out))


def _adopted(destination: Database, items: Iterable[Item], left_out: LeftOut) -> Iterator[TuningRecord]:
    """The records among some items, with the workloads as another database knows them; sessions are committed there."""
    hashes: dict[str, str] = {}
    for item in items:
        if isinstance(item, Session):
            destination.commit_session(item)
        elif isinstance(item, TuningRecord):
            given = item.workload
            if given.shash not in hashes:
                # Hashed anew: another version may have hashed the same program differently.
                try:
                    program = given.mod
                except DatabaseError as error:
                    left_out.add(error)
                    continue
                hashes[given.shash] = destination.commit_workload(program).shash
            if hashes[given.shash] != given.shash:
                item = copy(item)
                item.workload = Workload.stored(hashes[given.shash], given.module_json, given.summary)
            yield item


def is_record_file(where: str | Path) -> bool:
    """Whether a name is that of a file that is no SQLite database, and so one of records, if any."""
    try:
        with open(where, "rb") as file:
            return file.read(len(_SQLITE_HEADER)) != _SQLITE_HEADER
    except OSError:  # missing, a folder, a URL: whoever opens it says what is wrong
        return False


def count_records(path: str | Path) -> int:
    """How many records a file has."""
    return sum(isinstance(item, dict) and item["kind"] == "record" for _, item in read_lines(path))
