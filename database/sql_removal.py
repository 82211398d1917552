"""What removes rows from an SQL database, and gives their room back to the system."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import Engine, delete, exists, select
from sqlalchemy.orm import Session as OrmSession

from .record import TuningRecord
from .schema import Base, ClaimRow, FeatureRow, RecordRow, SessionRow, TargetRow, WorkloadRow
from .sql_rows import Rows

_AT_ONCE = 500
"""So many rows are named in one statement; SQLite takes 999 values in some builds."""
_LONGEST_SEARCH = 7 * 86400.0
"""Seconds after which a search that never said that it has ended was killed."""


def delete_rows(session: OrmSession, table: type[Base], numbers: Sequence[int]) -> int:
    """Delete the rows of a table with these ids; how many."""
    for begin in range(0, len(numbers), _AT_ONCE):
        ids = numbers[begin : begin + _AT_ONCE]
        session.execute(delete(table).where(table.id.in_(ids)))  # type: ignore[attr-defined]
    return len(numbers)


def delete_candidates(session: OrmSession, rows: Rows, workload: int, records: Sequence[TuningRecord]) -> int:
    """Delete all records of the candidates of some records of one workload, whose turn is this transaction's; how many.

    What stands of other candidates is as it was, since one record supersedes only others of its own candidate.
    """
    gone = {record.candidate for record in records}
    hashes = sorted({record.trace_hash for record in records})
    removed = 0
    for begin in range(0, len(hashes), _AT_ONCE):
        named = RecordRow.trace_hash.in_(hashes[begin : begin + _AT_ONCE])
        found = session.scalars(select(RecordRow).where(RecordRow.workload_id == workload, named)).all()
        made = zip(found, rows.made(found, rows.record), strict=True)
        numbers = [row.id for row, record in made if record is not None and record.candidate in gone]
        removed += delete_rows(session, RecordRow, numbers)
        session.expunge_all()
    return removed


def delete_unused(session: OrmSession) -> int:
    """Delete workloads and targets of which there is neither a record nor a claim, nor a search that runs; how many workloads."""
    used = exists().where(RecordRow.workload_id == WorkloadRow.id)
    claimed = exists().where(ClaimRow.workload_id == WorkloadRow.id)
    # Locked against who is about to commit a record of one: a writer takes its workload's row first.
    query = select(WorkloadRow.id).where(~used, ~claimed).with_for_update(skip_locked=True)
    if searched := _searched(session):
        query = query.where(WorkloadRow.shash.not_in(searched))
    # Their features go with them: the tables say so.
    removed = delete_rows(session, WorkloadRow, session.scalars(query).all())
    of_records = exists().where(RecordRow.target_id == TargetRow.id)
    of_claims = exists().where(ClaimRow.target_id == TargetRow.id)
    unused = session.scalars(
        select(TargetRow.id).where(~of_records, ~of_claims).with_for_update(skip_locked=True)
    )
    delete_rows(session, TargetRow, unused.all())
    return removed


def _searched(session: OrmSession) -> set[str]:
    """The workloads of searches that may be running: each has said so before it has a record."""
    since = time.time() - _LONGEST_SEARCH
    running = select(SessionRow.description).where(
        SessionRow.finished_at.is_(None), SessionRow.started_at > since
    )
    return {
        shash
        for item in session.scalars(running)
        if isinstance(item, dict) and isinstance(item.get("kernels"), dict)
        for shash in item["kernels"]
    }


def give_room_back(engine: Engine) -> None:
    """Write an SQLite file anew without the room of what was deleted; let a PostgreSQL server use it for other rows."""
    if engine.dialect.name == "sqlite":
        pooled = engine.raw_connection()
        try:
            cursor = pooled.cursor()
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else the log is as large as the file was
            cursor.close()
        finally:
            pooled.close()
    elif engine.dialect.name == "postgresql":
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            for table in (WorkloadRow, FeatureRow, RecordRow, TargetRow, ClaimRow):
                connection.exec_driver_sql(f"VACUUM {table.__tablename__}")
