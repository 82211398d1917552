"""SQL databases of other programs are refused and stay as they are; who only reads writes nothing into ours either."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from database import DatabaseFileError, SQLDatabase, Workload, open_database
from tests.database.attack import commit, filled, seconds_in
from tests.database.contract import record
from tests.database.older import make_older
from tests.programs.nodes import matmul


def of_browser(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE places (id INTEGER); INSERT INTO places VALUES (1)")


def in_a_log(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA journal_mode=WAL; CREATE TABLE places (id INTEGER)")


def with_a_view_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE VIEW one AS SELECT 1")


def without_tables_yet(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 7")


def with_a_table_like_ours(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE records (id INTEGER)")


def with_numbered_versions(path: Path) -> None:
    """alembic's table and a number that our versions have, too, as any program may that uses alembic."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE alembic_version (version_num TEXT); INSERT INTO alembic_version VALUES ('0003');"
            "CREATE TABLE users (id INTEGER)"
        )


def of_optuna(path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.create_study(storage=f"sqlite:///{path}")


OTHERS = [
    of_browser,
    in_a_log,
    with_a_view_alone,
    without_tables_yet,
    with_a_table_like_ours,
    with_numbered_versions,
    of_optuna,
]


def contents(folder: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in folder.iterdir()}


@pytest.mark.parametrize("make", OTHERS)
@pytest.mark.parametrize("must_exist", [True, False], ids=["read", "write"])
def test_another_programs_file_is_refused_and_stays_as_it_is(
    tmp_path: Path, make: Callable[[Path], None], must_exist: bool
) -> None:
    path = tmp_path / "other.db"
    make(path)
    before = contents(tmp_path)
    with pytest.raises(DatabaseFileError, match=r"other\.db' belongs to another program.*name another file"):
        open_database(path, must_exist=must_exist)
    assert contents(tmp_path) == before


def test_another_programs_file_in_use_is_refused(tmp_path: Path) -> None:
    """Its newest tables are in its log."""
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("CREATE TABLE places (id INTEGER)")
        before = path.read_bytes(), path.with_name("other.db-wal").read_bytes()
        with pytest.raises(DatabaseFileError, match="belongs to another program"):
            open_database(path)
        assert (path.read_bytes(), path.with_name("other.db-wal").read_bytes()) == before


def test_a_file_that_becomes_another_programs_after_it_was_opened_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    opened = SQLDatabase(path)
    of_browser(path)
    before = path.read_bytes()
    with pytest.raises(DatabaseFileError, match="belongs to another program"):
        commit(opened, 1.0)
    assert path.read_bytes() == before


def test_ours_is_marked_and_tables_of_others_beside_ours_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    filled(path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (int.from_bytes(b"LOOP"),)
        connection.execute("CREATE TABLE notes (id INTEGER)")
    assert seconds_in(path) == [1, 2]


def test_ours_of_a_version_that_set_no_mark_opens(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    filled(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 0")
    assert seconds_in(path) == [1, 2]


def test_the_file_is_made_with_the_first_commit(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    with closing(open_database(path)) as opened:
        assert len(opened) == 0 and opened.get_workloads() == [] and not opened.has_workload(matmul())
        assert opened.query_tuning_record(matmul(), "cpu") is None
        assert list(tmp_path.iterdir()) == []
        other = filled(path, 1)
        assert len(opened) == 1
        commit(opened, 2.0)
        other.close()
    assert seconds_in(path) == [1, 2]


def test_who_reads_an_empty_file_leaves_it_empty(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    path.touch()
    with closing(open_database(path, must_exist=True)) as opened:
        assert len(opened) == 0
    assert contents(tmp_path) == {"tuning.db": b""}


def old(path: Path, revision: str = "0001") -> None:
    """A database of an older version with one record of one second."""
    make_older(f"sqlite:///{path}", revision, [record(Workload(matmul()), 1.0)])


def test_who_reads_an_older_version_sees_its_records_and_leaves_it_so(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    old(path)
    before = contents(tmp_path)
    with closing(open_database(path, must_exist=True)) as opened:
        (found,) = opened.get_all_tuning_records()
        assert found.secs == 1 and not found.remeasured and opened.get_calibrations() == []
        assert len(opened.get_top_k(opened.commit_workload(matmul()), 1)) == 1
    assert contents(tmp_path) == before


def test_who_may_only_read_reads_an_older_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tuning.db"
    old(path)
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)  # root may write everything
    assert seconds_in(path) == [1]


def test_what_others_commit_to_an_older_version_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    old(path)
    with closing(open_database(path, must_exist=True)) as reader:
        assert len(reader) == 1
        with closing(sqlite3.connect(path)) as older_version:
            older_version.execute("DELETE FROM records")
            older_version.commit()
        assert len(reader) == 0
        with closing(SQLDatabase(path)) as writer:
            commit(writer, 3.0)
        assert [item.secs for item in reader.get_all_tuning_records()] == [3]


@pytest.mark.postgres
@pytest.mark.skipif("TEST_POSTGRES_URL" not in os.environ, reason="TEST_POSTGRES_URL names no server")
def test_another_programs_database_on_a_server_is_refused_and_stays_as_it_is() -> None:
    url = make_url(os.environ["TEST_POSTGRES_URL"])
    name = f"test_{uuid.uuid4().hex}"
    server = create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    own = create_engine(url.set(database=name))
    count = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    try:
        with closing(SQLDatabase(url.set(database=name))) as opened, own.connect() as connection:
            assert len(opened) == 0
            assert connection.exec_driver_sql(count).scalar_one() == 0
        with own.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE users (id INTEGER)")
        with pytest.raises(DatabaseFileError, match="users.*make a database for tuning records"):
            SQLDatabase(url.set(database=name))
        with own.connect() as connection:
            assert connection.exec_driver_sql(count).scalar_one() == 1
    finally:
        own.dispose()
        with server.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        server.dispose()


def test_records_of_a_file_that_was_removed_while_it_was_open_are_missed(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    filled(path).close()
    opened = SQLDatabase(path, must_exist=True)
    path.unlink()
    with pytest.raises(DatabaseFileError, match="was removed while it was open"):
        opened.commit_tuning_record(record(opened.commit_workload(matmul()), 1.0))
    assert not path.exists()
