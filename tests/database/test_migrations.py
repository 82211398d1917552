"""Databases of every older schema version: their records are read, kept, and stand as they did; nothing goes back."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine import URL, make_url

from database import MachineCalibration, SchemaVersionError, SQLDatabase, TuningRecord, Workload
from database.schema import HEAD_REVISION
from database.sql_schema import alembic_config, known_revisions
from tests.database.contract import OTHER, TARGET, record
from tests.database.older import make_older
from tests.programs.nodes import matmul, scaled

POSTGRES_URL = os.environ.get("TEST_POSTGRES_URL")
OLDER = [revision for revision in known_revisions() if revision != HEAD_REVISION]


@pytest.fixture
def new_url(tmp_path: Path) -> URL:
    """Of an SQLite file that is not there yet."""
    return make_url(f"sqlite:///{tmp_path / 'tuning.db'}")


@pytest.fixture
def on_a_server() -> Iterator[URL]:
    """An empty database on a server."""
    if POSTGRES_URL is None:
        pytest.skip("TEST_POSTGRES_URL names no server")
    admin = create_engine(make_url(POSTGRES_URL), isolation_level="AUTOCOMMIT")
    name = f"test_{uuid.uuid4().hex}"
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield make_url(POSTGRES_URL).set(database=name)
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


def of_an_older_version(revision: str) -> list[TuningRecord]:
    """Records, among them two first measurements of one candidate, as two tuners at once left them, and one that is there twice."""
    workload = Workload(matmul())
    twice = record(workload, 4.0, name="twice", created_at=4.0)
    found = [
        record(workload, 3.0, name="a", created_at=1.0),
        record(workload, 2.0, name="a", created_at=2.0),
        record(workload, None, name="b", created_at=3.0, failure_kind="run_timeout"),
        twice,
        twice,
        record(workload, 1.0, OTHER, name="a", created_at=5.0),
        record(Workload(matmul(4, 4, 6)), 5.0, name="a", created_at=6.0),
        record(workload, 1.5, name="wrong", created_at=7.0),
        record(workload, None, name="wrong", created_at=8.0, failure_kind="wrong_result"),
    ]
    if revision >= "0002":
        found.append(record(workload, 2.5, name="a", created_at=9.0, remeasured=True))
    return found


def check(url: URL, revision: str) -> None:
    """What a database with these records answers."""
    workload = Workload(matmul())
    with closing(SQLDatabase(url, must_exist=True)) as database:
        stored = of_an_older_version(revision)
        assert len(database) == len(stored) - 1  # nothing is lost but what was there twice
        fastest = [item.secs for item in database.fastest_records(workload, TARGET)]
        assert fastest == ([2.0, 3.0, 4.0] if revision == "0001" else [2.5, 4.0])
        assert [item.secs for item in database.get_top_k(workload, 2)] == [1.0, fastest[0]]
        assert len(database.get_records(workload, TARGET)) == (6 if revision == "0001" else 7)
        near = database.nearest_record(matmul(4, 4, 8), TARGET)
        assert near is not None and near.record.secs == fastest[0]
        assert near.explain() == "A.shape is (4, 4) there, (4, 8) here; B.shape is (4, 4) there, (8, 4) here"
        (alike,) = database.similar_workloads(workload, TARGET, 3)
        assert alike == Workload(matmul(4, 4, 6))


@pytest.mark.parametrize("revision", OLDER)
def test_a_file_of_each_older_version_is_read_as_it_is_and_brought_up_to_date_by_who_writes(
    new_url: URL, revision: str
) -> None:
    make_older(new_url, revision, of_an_older_version(revision))
    path = Path(new_url.database or "")
    before = path.read_bytes()
    check(new_url, revision)
    assert path.read_bytes() == before and [item.name for item in path.parent.iterdir()] == ["tuning.db"]
    write_and_check(new_url, revision)


@pytest.mark.postgres
@pytest.mark.parametrize("revision", OLDER)
def test_a_server_with_each_older_version_is_brought_up_to_date(on_a_server: URL, revision: str) -> None:
    make_older(on_a_server, revision, of_an_older_version(revision))
    write_and_check(on_a_server, revision)


def write_and_check(url: URL, revision: str) -> None:
    with closing(SQLDatabase(url)) as database:
        database.commit_calibration(MachineCalibration({"cpu": "a"}, 1, {"hertz": 1e9}))
        assert database.get_calibration({"cpu": "a"}, 1) is not None
    check(url, revision)
    with closing(SQLDatabase(url)) as database:
        again = [item for item in of_an_older_version(revision) if item.failure_kind != "wrong_result"]
        assert database.commit_tuning_records(again) == 0
        assert database.commit_tuning_records([record(Workload(scaled()), 1.0)]) == 1
        assert database.claim(Workload(matmul()), TARGET, ["a"], "one") == [True]
    engine = create_engine(url)
    with engine.connect() as connection:
        assert (
            connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == HEAD_REVISION
        )
    engine.dispose()


@pytest.mark.parametrize("revision", OLDER)
def test_nothing_is_taken_back_to_an_older_version(new_url: URL, revision: str) -> None:
    from alembic import command

    with closing(SQLDatabase(new_url)) as database:
        database.commit_tuning_record(record(Workload(matmul()), 1.0))
    engine = create_engine(new_url)
    with engine.begin() as connection:
        tables = set(inspect(connection).get_table_names())
        with pytest.raises(SchemaVersionError, match="would be lost.*loopsmith db export"):
            command.downgrade(alembic_config(connection), revision)
        assert set(inspect(connection).get_table_names()) == tables
    engine.dispose()
    with closing(SQLDatabase(new_url)) as database:
        assert len(database) == 1


@pytest.mark.parametrize("column", ["trace", "details", "summary"])
def test_damaged_rows_of_an_older_version_stop_nothing(
    new_url: URL, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_older(new_url, "0005", of_an_older_version("0005"))
    table = "workloads" if column == "summary" else "records"
    engine = create_engine(new_url)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {table} SET {column} = 'no json' WHERE id <= 2"))
    engine.dispose()
    with closing(SQLDatabase(new_url)) as database:
        database.commit_tuning_record(record(Workload(matmul()), 0.5))
        (best,) = database.fastest_records(Workload(matmul()), TARGET, 1)
        assert best.secs == 0.5
        near = database.nearest_record(matmul(4, 4, 6), OTHER)
        assert near is not None
