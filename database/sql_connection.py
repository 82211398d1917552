"""Connections of an SQL database: what a name for it means, when they are opened and closed, and their errors in words."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, StatementError
from sqlalchemy.orm import Session as OrmSession
from sqlalchemy.pool import NullPool

from ir.error import did_you_mean

from . import forks
from .base import Database
from .damage import read_json, read_text
from .error import DatabaseError, DatabaseFileError, cannot_look
from .file_id import FileId, file_id
from .schema import HEAD_REVISION
from .secrets import masked
from .sql_schema import schema_version, upgrade
from .stand_in import StandIn

_LOG = logging.getLogger(__name__)
_BUSY_SECONDS = 30.0
_AWAY_SECONDS = 120.0
"""How long a server is waited for that was there before."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_CHECK_RIGHTS = "Check that the file and its folder can be read and written"
_IN_USE_AT_FORK: set[FileId] = set()
"""SQLite files of which this process has inherited a connection that was in use: SQLite's memory of them is wrong for good."""


class Connections:
    """The connections of one database.

    Safe to use from several threads. After a fork both sides open connections of their own, whoever was inside of which database. Who
    reads a database whose tables are missing or old reads another one in their stead (:class:`StandIn`); who writes makes them.

    Attributes:
        url: of the database; an SQLite file has its absolute path in it.
        path: the SQLite file; None for a server.
        is_read_only: the file may not be written.
    """

    def __init__(self, where: str | Path | URL, must_exist: bool) -> None:
        """
        Args:
            where: path of an SQLite file, or an SQLAlchemy URL.
            must_exist: refuse to make a new SQLite file.

        Raises:
            DatabaseFileError: the file is missing, or cannot be one.
        """
        self.url = _url_of(where)
        self.path: Path | None = None
        self.is_read_only = False
        if self.url.get_backend_name() == "sqlite":
            assert self.url.database
            # Connections are opened anew at any time, and then the working directory may be another.
            self.path = Path(self.url.database).absolute()
            self.url = self.url.set(database=str(self.path))
            self.is_read_only = _check_sqlite_file(self.path, must_exist)
        self._lock = threading.RLock()
        self._engine: Engine | None = None
        self._writer: Engine
        """The same one, for those who write."""
        self._engine_pid = -1
        self._was_opened = False
        self._is_current = False
        """Whether the tables are known to be those of this version."""
        self._stand_in: StandIn | None = None
        """What is read as long as they are not."""
        self._file: FileId | None = None
        """What was opened under the name; None after it was closed."""
        self._log: FileId | None = None
        """The write-ahead log that the connections write to, once they have."""
        self._reading: _Reading | None = None
        """How a file that may not be written was opened."""
        forks.watch(self)

    @contextmanager
    def session(self, *, write: bool = False, may_conflict: bool = False) -> Iterator[OrmSession]:
        """One short transaction; committed at the end, rolled back by an exception.

        Args:
            write: something will be changed.
            may_conflict: the caller expects SQLAlchemy's IntegrityError, since another process may have been first.
        """
        with (
            self.engine(write=write, may_conflict=may_conflict) as engine,
            OrmSession(engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def engine(self, *, write: bool = False, may_conflict: bool = False) -> Iterator[Engine]:
        """What makes connections, for one transaction."""
        with self._translated(may_conflict), self._inside():
            stand_in = self._prepared(write)
            engine = self.live_engine() if stand_in is None else stand_in.engine
            yield self._writer if write else engine
            if write:
                self._check_kept()

    def check(self) -> None:
        """Look at what is there, without changing anything of it.

        Raises:
            DatabaseFileError: it cannot be read, or is no tuning database.
            SchemaVersionError: a newer version made its tables.
        """
        with self._translated(False), self._inside(), self._lock:
            self._is_current = self._version() == HEAD_REVISION

    def _prepared(self, write: bool) -> StandIn | None:
        """Bring the tables up to date for who writes; for who reads what to read in their stead, None where they are up to date."""
        if self._is_current:
            return None
        with self._lock:
            version = self._version()
            if version != HEAD_REVISION:
                # Tables of a server that are old are brought up to date for who reads, too: there may be too much in them to copy.
                if not write and (version is None or self.path is not None):
                    return self._stand_in_for(version)
                self.live_engine()
                with self._writer.begin() as connection:
                    upgrade(connection, str(self))
            self._is_current, self._stand_in = True, None
            return None

    def _stand_in_for(self, version: str | None) -> StandIn:
        state = (version, *(() if self.path is None else _state_of(self.path)))
        if self._stand_in is None or self._stand_in.state != state:
            self._stand_in = StandIn(state)
            if version is None:
                self._stand_in.make_tables()
            else:
                with self._looking() as source:
                    self._stand_in.take_over(source, str(self))
        return self._stand_in

    def _version(self) -> str | None:
        """The revision of the tables; None where there are none."""
        if self.path is not None and not self.path.exists():
            if self._was_opened:
                self._check_file()
            return None
        with self._looking() as connection:
            return schema_version(connection, str(self))

    @contextmanager
    def _looking(self) -> Iterator[Connection]:
        """A connection that changes nothing, neither the file nor how it is kept, as SQLite's usual ones do."""
        self._refuse_what_was_in_use()
        if self.path is None:
            with self.live_engine().connect() as connection:
                yield connection
            return
        self._was_opened, self._file = True, self._file or file_id(self.path)
        reading = _Reading.of(self.path, needs_index=self.is_read_only)
        engine = create_engine(reading.url_of(self.path), poolclass=NullPool)
        with engine.connect() as connection:
            self._check_file()
            yield connection

    def live_engine(self) -> Engine:
        """The engine of this process."""
        with self._lock:
            self._refuse_what_was_in_use()
            reading = None
            if self.path is not None and self.is_read_only:
                reading = _Reading.of(self.path, needs_index=True)
            if self._engine is not None and (self._engine_pid, self._reading) != (os.getpid(), reading):
                # A connection must not be shared with a parent process; leave the parent's alone.
                self._engine.dispose(close=self._engine_pid == os.getpid())
                self._engine = None
            if self._engine is None:
                self._reading, self._engine_pid = reading, os.getpid()
                self._engine = self._make_engine()
                self._writer = self._engine.execution_options(loopsmith_write=True)
            return self._engine

    def close(self) -> None:
        """Close all connections; whoever asks next opens others."""
        with self._inside(), self._lock:
            if self._engine is not None and self._engine_pid == os.getpid():
                self._engine.dispose()
            self._engine = self._file = self._stand_in = None
            self._is_current = False

    def close_idle(self) -> None:
        """Close what must not be open while the process forks. A server knows its clients by their connections: those may stay."""
        if self.path is not None and self._engine is not None and self._engine_pid == os.getpid():
            self._engine.dispose()

    def begin_in_child(self, *, was_in_use: bool) -> None:
        """Forget the parent's connections; a thread that is not here may have held the lock."""
        self._lock = threading.RLock()
        self._stand_in = None
        found = None if self.path is None else file_id(self.path)
        if was_in_use and found is not None:
            _IN_USE_AT_FORK.add(found)

    def __str__(self) -> str:
        return f"tuning database {self.name!r}"

    @property
    def name(self) -> str:
        """What a user calls it: the path of a file, the URL without a password of a server."""
        return (
            str(self.path) if self.path is not None else masked(self.url.render_as_string(hide_password=True))
        )

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Forks wait for the end of the block, where connections must not be open while the process forks."""
        if self.path is None:
            yield
        else:
            with forks.inside(self):
                yield

    def _make_engine(self) -> Engine:
        path, url = self.path, self.url
        if path is None:
            engine = create_engine(url, pool_pre_ping=True, pool_size=2)
            server = weakref.proxy(self)
            event.listen(engine, "do_connect", lambda *given: server._connected_again(*given))
            return engine
        if self._reading is not None:
            url = self._reading.url_of(path)
        engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS}, json_deserializer=read_json)
        # SQLAlchemy keeps the listeners of a dialect as long as statements that were compiled for it.
        this, pid = weakref.proxy(self), os.getpid()

        @event.listens_for(engine, "do_connect")
        def look(*_: Any) -> None:
            if this._was_opened:  # SQLite would make an empty file where the one that was opened is gone
                this._check_file()

        @event.listens_for(engine, "connect")
        def configure(connection: Any, _: Any) -> None:
            # The driver's own idea of when to begin a transaction is switched off; see `begin`.
            connection.isolation_level = None
            connection.text_factory = read_text
            if this._reading is None:
                _keep_a_log(connection)
                # In WAL mode NORMAL survives the death of the process; only a power failure may lose the last commits.
                connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("PRAGMA foreign_keys=ON")
            this._file = this._file or file_id(path)
            this._was_opened, this._log = True, None
            this._check_file()

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            # A writer takes its lock at once, where it can wait; a reader that turns writer cannot wait and fails.
            write = connection.get_execution_options().get("loopsmith_write", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

        @event.listens_for(engine, "commit")
        def commit(connection: Connection) -> None:
            if os.getpid() != pid:  # forked in the middle of a transaction, which is the parent's to end
                this._refuse_what_was_in_use()

        return engine

    def _connected_again(self, dialect: Any, _: Any, args: Any, options: Any) -> Any:
        """A connection to a server, which may be away for a while after it was there, as while it is restarted; whoever names one that is
        not there hears so at once."""
        end = time.monotonic() + (_AWAY_SECONDS if self._was_opened else 0.0)
        pause, is_told = _FIRST_PAUSE, False
        while True:
            try:
                found = dialect.connect(*args, **options)
            except dialect.dbapi.OperationalError as error:
                if time.monotonic() + pause > end:
                    raise
                if not is_told:
                    is_told = True
                    _LOG.warning("%s is away (%s); waiting for it", self, str(error).strip())
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._was_opened = True
                return found

    def _check_file(self) -> None:
        """Raise an error where the name is not that of the file any more that was opened."""
        assert self.path is not None
        found = file_id(self.path)
        if found is None or self._file not in (None, found):
            what = "removed" if found is None else "replaced by another"
            raise DatabaseFileError(
                f"{self} was {what} while it was open, and what is committed to it now is lost: put the file back, or close the database"
                " and open it again"
            )

    def _check_kept(self) -> None:
        """Raise an error where what was committed cannot be found by others: SQLite goes on with files that have lost their names."""
        if self.path is None:
            return
        self._check_file()
        log = file_id(f"{self.path}-wal")
        if self._log not in (None, log):
            raise DatabaseFileError(
                f"{self}: its log '{self.path}-wal' was removed while the database was open, and what is committed to it now is lost:"
                " close the database and open it again, and leave the log to it"
            )
        self._log = log

    def _refuse_what_was_in_use(self) -> None:
        if _IN_USE_AT_FORK and self.path is not None and file_id(self.path) in _IN_USE_AT_FORK:
            raise DatabaseFileError(
                f"{self} was in use when this process was forked, and SQLite cannot go on with it here: fork while nobody reads or writes"
                " it, or start the process by 'spawn'"
            )

    @contextmanager
    def _translated(self, may_conflict: bool) -> Iterator[None]:
        """Turn the driver's errors into ours."""
        try:
            yield
        except (StatementError, sqlite3.Error, ImportError, UnicodeError) as error:
            if may_conflict and isinstance(error, IntegrityError):
                raise
            cause = getattr(error, "orig", None) or error
            raise DatabaseFileError(f"{self}: {masked(str(cause).strip())}. {self._advice(cause)}") from error

    def _advice(self, cause: BaseException) -> str:
        is_closed = self.is_read_only and "unable to open" in str(cause)
        if is_closed and self.path and _Reading.of(self.path, needs_index=False).log is not None:
            return _NEEDS_LOG.format(f"{self.path}-wal", f"{self.path}-shm")
        return _advice(cause)


_NEEDS_LOG = (
    "Its newest records are in {!r}, which can only be read together with {!r}: give read permission on both, or have it closed, or opened"
    " once, by who may write it"
)


@dataclass(frozen=True)
class _Reading:
    """How SQLite opens a file that it may not write, and what has to stay as it is meanwhile.

    What was committed last is in the log, as long as a writer has the file open and when one was killed. SQLite reads it where the log's
    index is there, too. Without a log it is told that nobody writes, since it would make a log of its own otherwise.

    Attributes:
        log: the log that holds records; None where all are in the file.
        state: of the file without a log, by which a later write shows.
    """

    log: FileId | None
    state: tuple[int, ...] = ()

    @staticmethod
    def of(path: Path, *, needs_index: bool) -> _Reading:
        """What is there now.

        Args:
            path: of the file.
            needs_index: SQLite cannot make an index of the log itself, where there is none.

        Raises:
            DatabaseFileError: there is a log without an index that is needed.
        """
        log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
        try:
            has_log = log.exists() and log.stat().st_size > 0
            lacks_index = needs_index and has_log and not index.exists()
            found = path.stat()
        except OSError:
            return _Reading(None)  # SQLite will say why
        if lacks_index:
            advice = _NEEDS_LOG.format(str(log), str(index))
            raise DatabaseFileError(f"tuning database {str(path)!r} cannot be read. {advice}")
        if has_log:
            return _Reading(file_id(log))
        return _Reading(None, (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size))

    def url_of(self, path: Path) -> URL:
        """Of a file that is opened so."""
        options = {"mode": "ro", "uri": "true", **({} if self.log is not None else {"immutable": "1"})}
        return URL.create("sqlite", database=f"file:{quote(str(path))}", query=options)


def _keep_a_log(connection: sqlite3.Connection) -> None:
    """Switch a file to a write-ahead log; where another process has it meanwhile, as when both make it, SQLite itself does not wait."""
    end, pause = time.monotonic() + _BUSY_SECONDS, 0.001
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() + pause > end:
                raise
            time.sleep(pause)
            pause = min(2 * pause, _FIRST_PAUSE)


def _state_of(path: Path) -> tuple[int, ...]:
    """What changes when a file, or its log, is written; nothing where there is no file."""
    found = [item.stat() for item in (path, Path(f"{path}-wal")) if item.exists()]
    return tuple(number for item in found for number in (item.st_ino, item.st_mtime_ns, item.st_size))


def _check_sqlite_file(path: Path, must_exist: bool) -> bool:
    """Whether a file may only be read; it need not exist yet, unless it must."""
    try:
        is_folder, exists, has_folder = path.is_dir(), path.exists(), path.parent.is_dir()
    except OSError as error:  # a folder that may not be entered, a name that is too long
        raise cannot_look(path, error) from error
    if is_folder:
        raise DatabaseFileError(
            f"tuning database {str(path)!r} is a folder; name a file in it, such as {path / 'tuning.db'}"
        )
    if exists:
        return not os.access(path, os.W_OK)
    if must_exist:
        raise DatabaseFileError(
            f"tuning database {str(path)!r} does not exist; check the path, or run 'loopsmith tune' first"
        )
    if not has_folder:
        raise DatabaseFileError(
            f"tuning database {str(path)!r} cannot be made: the folder {str(path.parent)!r} does not exist"
        )
    place = Path(os.path.realpath(path))
    if place.is_symlink() or not os.access(place.parent, os.W_OK | os.X_OK):  # a link may lead to itself
        raise DatabaseFileError(f"tuning database {str(path)!r} cannot be made. {_CHECK_RIGHTS}")
    return False


def _url_of(where: str | Path | URL) -> URL:
    text = str(where)
    if not isinstance(where, URL) and "://" not in text:
        where = URL.create("sqlite", database=text)
    try:
        url = make_url(where if isinstance(where, URL) else text)
        url.get_dialect()
    except NoSuchModuleError as error:
        scheme = text.partition("://")[0]
        known = ["sqlite", "postgresql", *Database.schemes.names()]
        raise DatabaseError(
            f"no database URL begins with {scheme}://; known are {', '.join(known)} (and what SQLAlchemy has a driver for), and"
            f" a path without a scheme is an SQLite file{did_you_mean(scheme, known)}"
        ) from error
    except (ArgumentError, ValueError) as error:  # the second where the port is no number
        raise DatabaseError(
            f"{masked(text)!r} is not a database URL ({error}); give a path, sqlite:///tuning.db, or "
            "postgresql+psycopg://user@host/name"
        ) from error
    if url.get_backend_name() == "postgresql" and url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise DatabaseError(
                f"{masked(text)!r} names no file, and an SQLite database needs one; use MemoryDatabase for one in memory"
            )
        if "uri" in url.query:
            raise DatabaseError(
                f"SQLite's own URIs are not taken, got {masked(text)!r}; name the path of the file"
            )
    return url


def _advice(cause: BaseException) -> str:
    text = str(cause).lower()
    # SQLite's message about a damaged name may be no text itself.
    if "not a database" in text or "malformed" in text or isinstance(cause, UnicodeDecodeError):
        return "The file is not an SQLite database or is damaged; name another one, or restore a copy"
    if "readonly" in text or "unable to open" in text or "permission" in text:
        return _CHECK_RIGHTS
    if "no such" in text:
        return "The file is damaged, or another program has changed its tables; name another one, or restore a copy"
    if "locked" in text:
        return f"Another process held it for more than {_BUSY_SECONDS:.0f} seconds; end that process, or try again"
    if isinstance(cause, ImportError):
        return "Install the driver, for PostgreSQL with: pip install 'loopsmith[postgres]'"
    if "constraint" in text:
        return "What was to be kept does not fit the tables, or another program changes them; nothing of it was kept"
    if "full" in text or "disk i/o error" in text:
        return "Free some space, or raise the limit on the size of files; everything committed is kept"
    return "Check the URL, the server and the rights on it"
