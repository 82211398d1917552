"""Databases as older versions made them: by the migrations up to a schema version, and rows that are written as those wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import MetaData, create_engine, insert
from sqlalchemy.engine import URL, Connection, make_url

from database import TuningRecord
from database.sql_rows import values_of
from database.sql_schema import alembic_config
from database.target_key import recorded_key


def make_older(where: str | URL, revision: str, records: Sequence[TuningRecord]) -> None:
    """Make a database of a schema version with some records, each of which has a target."""
    from alembic import command

    engine = create_engine(make_url(where))
    with engine.begin() as connection:
        command.upgrade(alembic_config(connection), revision)
        _fill(connection, records, hashes_alike=revision >= "0003")
    engine.dispose()


def _fill(connection: Connection, records: Sequence[TuningRecord], *, hashes_alike: bool) -> None:
    tables = MetaData()
    tables.reflect(connection)
    rows: dict[str, int] = {}

    def add(table: str, key: str, values: dict[str, Any]) -> int:
        if key not in rows:
            known = tables.tables[table].columns.keys()
            chosen = {name: value for name, value in values.items() if name in known}
            rows[key] = connection.execute(insert(tables.tables[table]), chosen).inserted_primary_key[0]  # type: ignore[index]
        return rows[key]

    for number, record in enumerate(records):
        workload, target = record.workload, record.target
        assert target is not None
        workload_id = add(
            "workloads",
            workload.shash,
            {
                "shash": workload.shash if hashes_alike else f"in another way {len(rows)}",
                "name": workload.summary.name,
                "summary": workload.summary.as_json(),
                "module": workload.module_json,
                "created_at": 1.0,
            },
        )
        key = recorded_key(target)
        target_id = add("targets", key, {"key": key, "target": target.export()})
        add("records", f"record {number}", values_of(record, workload_id, target_id))
