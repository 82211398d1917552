"""Tuning records in SQL: an SQLite file by default, any SQLAlchemy URL for a team.

Every commit is one short transaction, so that Ctrl-C or ``kill -9`` at any moment loses nothing that was committed and
several tuners may write to one database at a time.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Engine, Select, create_engine, delete, event, func, inspect, or_, select, update
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, StatementError
from sqlalchemy.orm import Session as OrmSession

from ir.error import did_you_mean
from ir.target import Target

from .arg_info import ArgInfo
from .base import CLAIM_SECONDS, Database, Program, check_top_k
from .error import DatabaseError, DatabaseFileError, SchemaVersionError
from .machine_calibration import MachineCalibration
from .record import WRONG_RESULT, Session, TuningRecord, by_speed
from .schema import HEAD_REVISION, CalibrationRow, ClaimRow, RecordRow, SessionRow, TargetRow, WorkloadRow
from .target_key import TargetLike, as_target, target_key
from .workload import Workload, WorkloadSummary, as_module, structural_key

_LOG = logging.getLogger(__name__)
_BUSY_SECONDS = 30.0
_MIGRATION_LOCK = 0x6C6F6F70
"""Number of PostgreSQL's advisory lock under which one process at a time changes the schema."""


@Database.kinds.register("sql")
class SQLDatabase(Database):
    """Tuning records in an SQL database.

    Safe to use from several threads and processes; after a fork the child opens connections of its own.
    """

    def __init__(self, where: str | Path | URL, *, must_exist: bool = False) -> None:
        """
        Args:
            where: path of an SQLite file, or an SQLAlchemy URL.
            must_exist: refuse to make a new SQLite file.

        Raises:
            DatabaseFileError: missing, not writable, not a database, or the server cannot be reached.
            SchemaVersionError: a newer loopsmith made it.
        """
        self.url = _url_of(where)
        self._lock = threading.RLock()
        self._engine_pid = -1
        self._engine: Engine | None = None
        self._workloads: dict[str, tuple[int, Workload]] = {}
        self._target_ids: dict[str, int] = {}
        self._read_only = False
        if self.url.get_backend_name() == "sqlite" and self.url.database:
            self._check_sqlite_file(Path(self.url.database), must_exist)
        with self._translated():
            self._migrate()

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
        # Whoever asks what has come since (get_records) goes by the order of ids, and a server gives an id before the commit:
        # records of one workload are written one after another, so that none appears before one that is already seen.
        own_turn = select(WorkloadRow.id).where(WorkloadRow.id == workload_id).with_for_update(key_share=True)
        with self._session(write=True) as session:
            session.execute(own_turn)
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
            return [self._workload_of(row) for row in rows]

    def get_records(self, workload: Workload, target: TargetLike, skip: int = 0) -> list[TuningRecord]:
        return self._read(_of_workload(workload, target).order_by(RecordRow.id).offset(skip))

    def claim(
        self, workload: Workload, target: TargetLike, candidates: Sequence[str], owner: str
    ) -> list[bool]:
        place = self._workload_entry(workload)[0], self._target_id(as_target(target))
        with self._session(write=True) as session:
            # In one order everywhere: of two that wait for each other's rows, a server lets neither go on.
            granted = {item: self._claim(session, place, item, owner) for item in sorted(set(candidates))}
        return [granted[item] for item in candidates]

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
            is_free = or_(ClaimRow.owner == owner, ClaimRow.claimed_at < now - CLAIM_SECONDS)
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
        found = self._fastest(_of_workload(Workload(mod), target), 1)
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
            return [Session.from_json(row.description) for row in rows]

    def commit_calibration(self, calibration: MachineCalibration) -> None:
        row = CalibrationRow(
            key=calibration.key, created_at=calibration.created_at, description=calibration.as_json()
        )
        try:
            with self._session(write=True) as orm:
                orm.merge(row)
        except IntegrityError:  # another process has measured the same machine at the same time
            _LOG.debug("calibration %s was committed by another process", calibration.key)

    def get_calibrations(self) -> list[MachineCalibration]:
        with self._session() as orm:
            rows = orm.scalars(select(CalibrationRow).order_by(CalibrationRow.created_at)).all()
            return [MachineCalibration.from_json(row.description) for row in rows]

    def __len__(self) -> int:
        with self._session() as session:
            return session.scalar(select(func.count()).select_from(RecordRow)) or 0

    def close(self) -> None:
        with self._lock:
            if self._engine is not None and self._engine_pid == os.getpid():
                self._engine.dispose()
            self._engine = None
            # What is opened next at this place may be another file, with other numbers for other programs.
            self._workloads.clear()
            self._target_ids.clear()

    def __reduce__(self) -> Any:
        return (SQLDatabase, (self.url,))

    def __repr__(self) -> str:
        return f"SQLDatabase({self.url.render_as_string()!r})"

    def _fastest(self, query: Select[Any], top_k: int) -> list[TuningRecord]:
        """The best records that stand.

        Traces have no order and no equality in SQL. So a few more rows are read than asked for, best first, until enough of
        them are left when those that were measured again, or were wrong, have superseded theirs.
        """
        is_decisive = or_(RecordRow.remeasured, RecordRow.failure_kind == WRONG_RESULT)
        again = self._read(query.where(is_decisive).order_by(RecordRow.id))
        first = query.where(RecordRow.mean_secs.is_not(None), RecordRow.remeasured.is_(False))
        first = first.order_by(RecordRow.verified.desc(), RecordRow.cut, RecordRow.mean_secs, RecordRow.id)
        count = top_k + 2 * len(again)
        while True:
            found = self._read(first.limit(count))
            best = by_speed([*found, *again])[:top_k]
            # What was not read is behind all that was: it changes nothing where enough is known.
            if len(found) < count or (len(best) == top_k and best[-1].merit()[:3] <= found[-1].merit()[:3]):
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
            with self._session(write=True) as session:
                session.add(row)
                session.flush()
                entry = (row.id, workload)
        except IntegrityError:  # another process inserted it between the look and the insertion
            with self._session() as session:
                return self._entry_of(session.scalars(query).one(), same_as=workload)
        self._workloads[workload.shash] = entry
        return entry

    def _workload_of(self, row: WorkloadRow) -> Workload:
        return self._entry_of(row)[1]

    def _entry_of(self, row: WorkloadRow, same_as: Workload | None = None) -> tuple[int, Workload]:
        entry = self._workloads.get(row.shash)
        if entry is None:
            workload = Workload.stored(row.shash, row.module, WorkloadSummary.from_json(row.summary))
            if same_as is not None and workload != same_as:
                raise DatabaseError(
                    f"{self!r} holds another program under the structural hash {row.shash} of {same_as!r}; "
                    "it was made by a version that hashes differently: use a new database"
                )
            entry = self._workloads[row.shash] = (row.id, workload)
        return entry

    def _target_id(self, target: Target) -> int:
        key = target_key(target)
        if key in self._target_ids:
            return self._target_ids[key]
        query = select(TargetRow.id).where(TargetRow.key == key)
        with self._session() as session:
            found = session.scalar(query)
        if found is None:
            row = TargetRow(key=key, target=target.export())
            try:
                with self._session(write=True) as session:
                    session.add(row)
                    session.flush()
                    found = row.id
            except IntegrityError:  # another process was first
                with self._session() as session:
                    found = session.scalars(query).one()
        self._target_ids[key] = found
        return found

    def _read(self, query: Select[Any]) -> list[TuningRecord]:
        with self._session() as session:
            targets: dict[int, Target] = {}
            return [self._record_of(row, targets) for row in session.scalars(query).all()]

    def _record_of(self, row: RecordRow, targets: dict[int, Target]) -> TuningRecord:
        if row.target is None:
            target = None
        elif row.target_id in targets:
            target = targets[row.target_id]
        else:
            target = targets[row.target.id] = as_target(row.target.target)
        details = row.details
        infos = details["args_info"]
        return TuningRecord(
            None,
            self._workload_of(row.workload),
            details["run_secs"],
            target,
            None if infos is None else [ArgInfo.from_json(info) for info in infos],
            verified=row.verified,
            cut=row.cut,
            remeasured=row.remeasured,
            failure_kind=row.failure_kind,
            failure_message=details["failure_message"],
            metrics=details.get("metrics"),  # records of earlier versions have none
            fingerprint=details["fingerprint"],
            versions=details["versions"],
            session_id=row.session_id,
            created_at=row.created_at,
            trace_json=row.trace,
        )

    # -------------------------------------------------------------------------------------- connections

    @contextmanager
    def _session(self, *, write: bool = False) -> Iterator[OrmSession]:
        """One short transaction; committed at the end, rolled back by an exception."""
        with self._translated():
            engine = self._live_engine()
            bind = engine.execution_options(loopsmith_write=True) if write else engine
            with OrmSession(bind, expire_on_commit=False) as session, session.begin():
                yield session

    def _live_engine(self) -> Engine:
        with self._lock:
            if self._engine is None or self._engine_pid != os.getpid():
                # A connection must not be shared with a parent process; leave the parent's alone.
                if self._engine is not None:
                    self._engine.dispose(close=False)
                self._engine, self._engine_pid = self._make_engine(), os.getpid()
            return self._engine

    def _make_engine(self) -> Engine:
        if self.url.get_backend_name() != "sqlite":
            return create_engine(self.url, pool_pre_ping=True, pool_size=2)
        url = self.url
        if self._read_only:
            url = url.set(
                database=f"file:{quote(str(Path(url.database or '').absolute()))}"
            ).update_query_dict({"mode": "ro", "immutable": "1", "uri": "true"})
        engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS})
        read_only = self._read_only

        @event.listens_for(engine, "connect")
        def configure(connection: Any, _: Any) -> None:
            # The driver's own idea of when to begin a transaction is switched off; see `begin`.
            connection.isolation_level = None
            if not read_only:
                connection.execute("PRAGMA journal_mode=WAL")
                # In WAL mode NORMAL survives the death of the process; only a power failure may lose the last commits.
                connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("PRAGMA foreign_keys=ON")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            # A writer takes its lock at once, where it can wait; a reader that turns writer cannot wait and fails.
            write = connection.get_execution_options().get("loopsmith_write", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

        return engine

    def _check_sqlite_file(self, path: Path, must_exist: bool) -> None:
        if path.is_dir():
            raise DatabaseFileError(
                f"tuning database {str(path)!r} is a folder; name a file in it, such as {path / 'tuning.db'}"
            )
        if path.exists():
            self._read_only = not os.access(path, os.W_OK)
            return
        if must_exist:
            raise DatabaseFileError(
                f"tuning database {str(path)!r} does not exist; check the path, or run 'loopsmith tune' first"
            )
        if not path.parent.is_dir():
            raise DatabaseFileError(
                f"tuning database {str(path)!r} cannot be made: the folder {str(path.parent)!r} does not exist"
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the driver's errors into ours; broken constraints pass, for the callers that expect them."""
        try:
            yield
        except IntegrityError:
            raise
        except (StatementError, sqlite3.Error, ImportError) as error:
            cause = getattr(error, "orig", None) or error
            shown = self.url.render_as_string(hide_password=True)
            raise DatabaseFileError(
                f"tuning database {shown!r}: {str(cause).strip()}. {_advice(cause)}"
            ) from error

    # -------------------------------------------------------------------------------------- schema

    def _migrate(self) -> None:
        """Bring the schema up to date; the usual case of a current one costs one query and no alembic."""
        engine = self._live_engine()
        with engine.connect() as connection:
            found = self._schema_version(connection)
        if found == HEAD_REVISION:
            return
        if self._read_only:
            raise DatabaseFileError(
                f"{self!r} has schema {found!r} and cannot be written; make it writable once to upgrade it"
            )
        with engine.execution_options(loopsmith_write=True).begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            if self._schema_version(connection) != HEAD_REVISION:  # another process may have been first
                from alembic import command

                command.upgrade(alembic_config(connection), "head")

    def _schema_version(self, connection: Connection) -> str | None:
        """The revision that the database has; None for an empty one.

        Raises:
            SchemaVersionError: it is none that this version knows.
            DatabaseFileError: there are tables, but not ours.
        """
        tables = set(inspect(connection).get_table_names())
        if "alembic_version" not in tables:
            if tables & {"workloads", "records", "targets", "sessions"}:
                raise DatabaseFileError(
                    f"{self!r} has tables {sorted(tables)} of something else; use another database"
                )
            return None
        found: Sequence[str] = (
            connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
        )
        if not found:
            return None
        if found[0] not in known_revisions():
            raise SchemaVersionError(
                f"{self!r} has schema version {found[0]!r}, which is newer than this loopsmith knows (up to "
                f"{HEAD_REVISION!r}); update loopsmith or use another database. Nothing was changed"
            )
        return found[0]


def known_revisions() -> list[str]:
    """The schema versions that this loopsmith can open, oldest first."""
    folder = Path(__file__).parent / "migrations" / "versions"
    return sorted(path.name.split("_")[0] for path in folder.glob("[0-9]*.py"))


def alembic_config(connection: Connection | None = None) -> Any:
    """alembic's configuration for our migrations, with the connection that they shall use."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _of_workload(workload: Workload, target: TargetLike | None = None) -> Select[Any]:
    query = select(RecordRow).join(RecordRow.workload).where(WorkloadRow.shash == workload.shash)
    if target is None:
        return query
    return query.join(RecordRow.target).where(TargetRow.key == target_key(target))


def _url_of(where: str | Path | URL) -> URL:
    if isinstance(where, URL):
        return where
    text = str(where)
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        url = make_url(text)
        url.get_dialect()
    except NoSuchModuleError as error:
        scheme = text.partition("://")[0]
        known = ["sqlite", "postgresql", *Database.schemes.names()]
        raise DatabaseError(
            f"no database URL begins with {scheme}://; known are {', '.join(known)} (and what SQLAlchemy has a driver for), and"
            f" a path without a scheme is an SQLite file{did_you_mean(scheme, known)}"
        ) from error
    except ArgumentError as error:
        raise DatabaseError(
            f"{text.split('@')[-1]!r} is not a database URL ({error}); give a path, sqlite:///tuning.db, or "
            "postgresql+psycopg://user@host/name"
        ) from error
    if url.get_backend_name() == "postgresql" and url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise DatabaseError("an SQLite database needs a file; use MemoryDatabase for one in memory")
    return url


def _without_nul(text: str | None) -> str | None:
    """PostgreSQL keeps no NUL characters; a crashed candidate's message may have some."""
    return None if text is None else text.replace("\x00", "\\0")


def _advice(cause: BaseException) -> str:
    text = str(cause).lower()
    if "not a database" in text or "malformed" in text:
        return "The file is not an SQLite database or is damaged; name another one, or restore a copy"
    if "readonly" in text or "unable to open" in text or "permission" in text:
        return "Check that the file and its folder can be read and written"
    if "locked" in text:
        return f"Another process held it for more than {_BUSY_SECONDS:.0f} seconds; end that process, or try again"
    if isinstance(cause, ImportError):
        return "Install the driver, for PostgreSQL with: pip install 'loopsmith[postgres]'"
    if "full" in text or "disk i/o error" in text:
        return "Free some space, or raise the limit on the size of files; everything committed is kept"
    return "Check the URL, the server and the rights on it"
