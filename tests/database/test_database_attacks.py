"""What happens to tuning databases in the world: forks, kills, full disks, damaged and odd files.

Nothing that was reported as kept is lost, and what cannot be done is said, with the name of the file.
"""

from __future__ import annotations

import os
import pickle
import random
import resource
import shutil
import signal
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.engine import make_url

from database import DatabaseFileError, MachineCalibration, SQLDatabase, Workload, open_database
from tests.database.attack import commit, filled, in_child, left_by_a_kill, seconds_in
from tests.database.contract import TARGET, record
from tests.database.older import make_older
from tests.programs.nodes import matmul, scaled

# ---- threads --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False], ids=["one object", "eight objects"])
def test_eight_threads_write_a_new_file(tmp_path: Path, shared: bool) -> None:
    """Those with objects of their own also make the file at once."""
    path = tmp_path / "tuning.db"
    one = SQLDatabase(path) if shared else None
    begin, errors = threading.Barrier(8), []

    def work(thread: int) -> None:
        try:
            begin.wait(30)
            database = one or SQLDatabase(path)
            for number in range(10):
                commit(database, 1.0 + 10 * thread + number)
                assert database.get_top_k(database.commit_workload(matmul()), 1)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and sorted(seconds_in(path)) == [1.0 + number for number in range(80)]
    assert len(SQLDatabase(path).get_workloads()) == 1


def test_of_many_that_wait_the_one_who_waits_too_long_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("database.sql_connection._BUSY_SECONDS", 0.2)
    database = filled(tmp_path / "tuning.db")
    other = sqlite3.connect(tmp_path / "tuning.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseFileError, match=r"tuning\.db.*Another process held it"):
        commit(database, 3.0)
    assert len(database) == 2 and len(SQLDatabase(database.url)) == 2  # readers do not wait
    other.execute("COMMIT")
    other.close()
    commit(database, 4.0)
    assert seconds_in(tmp_path / "tuning.db") == [1, 2, 4]


# ---- kills -----------------------------------------------------------------------------------------------------


def kill_at(database: SQLDatabase, moment: str) -> None:
    """Die by kill -9 after the first statement that has some words, or when a transaction is about to be committed."""

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def look(connection: object, cursor: object, statement: str, *_: object) -> None:
        if moment in statement:
            die()

    engine = database._connections.live_engine()
    if moment == "COMMIT":
        event.listen(engine, "commit", die)
    else:
        event.listen(engine, "after_cursor_execute", look)


@pytest.mark.parametrize("moment", ["INSERT INTO records", "COMMIT"])
def test_who_is_killed_in_the_middle_of_a_commit_leaves_no_half_and_no_lock(
    tmp_path: Path, moment: str
) -> None:
    path = tmp_path / "tuning.db"

    def work() -> None:
        database = filled(path)
        kill_at(database, moment)
        commit(database, 3.0)

    assert in_child(work) == -signal.SIGKILL
    begin = time.monotonic()
    with closing(SQLDatabase(path)) as database:
        commit(database, 4.0)
    assert time.monotonic() - begin < 10
    assert seconds_in(path) == [1, 2, 4]


def commit_and_be_killed(path: Path, moment: str) -> None:
    """A child commits to a database and is killed in the middle of bringing its tables up to date."""

    def work() -> None:
        database = SQLDatabase(path)
        kill_at(database, moment)
        commit(database, 9.0)

    assert in_child(work) == -signal.SIGKILL


@pytest.mark.parametrize("moment", ["CREATE TABLE workloads", "INSERT INTO alembic_version", "COMMIT"])
def test_who_is_killed_while_making_a_database_leaves_room_for_one(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "tuning.db"

    commit_and_be_killed(path, moment)
    filled(path).close()
    assert seconds_in(path) == [1, 2]


@pytest.mark.parametrize(
    "moment", ["ALTER TABLE", "UPDATE workloads", "UPDATE records", "UPDATE alembic_version", "COMMIT"]
)
def test_who_is_killed_while_bringing_a_database_up_to_date_leaves_all_records(
    tmp_path: Path, moment: str
) -> None:
    path = tmp_path / "tuning.db"
    records = [record(Workload(matmul()), secs) for secs in (1.0, 2.0)]
    make_older(f"sqlite:///{path}", "0001", records)

    commit_and_be_killed(path, moment)
    with closing(SQLDatabase(path)) as again:
        commit(again, 3.0)
        assert again.claim(again.commit_workload(matmul()), TARGET, ["a"], "one") == [True]
    assert seconds_in(path) == [1, 2, 3]


# ---- a server --------------------------------------------------------------------------------------------------

POSTGRES_URL = os.environ.get("TEST_POSTGRES_URL", "")
on_a_server = pytest.mark.skipif(not POSTGRES_URL, reason="TEST_POSTGRES_URL names no server")


def on_server(statement: str) -> None:
    engine = create_engine(POSTGRES_URL, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.fixture
def on_postgres() -> Iterator[SQLDatabase]:
    """A database with a record of one second on a server."""
    name = f"test_{uuid.uuid4().hex}"
    on_server(f"CREATE DATABASE {name}")
    database = SQLDatabase(make_url(POSTGRES_URL).set(database=name))
    commit(database, 1.0)
    yield database
    database.close()
    on_server(f"DROP DATABASE {name} WITH (FORCE)")


def end_connections(database: SQLDatabase) -> None:
    """As a server does that is restarted."""
    on_server(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database.url.database}'"
    )


@pytest.mark.postgres
@on_a_server
def test_a_server_is_asked_again_after_a_restart_and_a_commit_that_it_cut_off_is_named(
    on_postgres: SQLDatabase,
) -> None:
    end_connections(on_postgres)
    commit(on_postgres, 2.0)
    event.listen(
        on_postgres._connections.live_engine(),
        "commit",
        lambda connection: end_connections(on_postgres),
        once=True,
    )
    with pytest.raises(DatabaseFileError, match=f"{on_postgres.url.database}.*terminating connection"):
        commit(on_postgres, 3.0)
    commit(on_postgres, 4.0)
    assert [item.secs for item in on_postgres.get_all_tuning_records()] == [1, 2, 4]


@pytest.mark.postgres
@on_a_server
def test_a_forked_child_talks_to_the_server_over_a_connection_of_its_own(on_postgres: SQLDatabase) -> None:
    """On the parent's, answers would go to whoever reads first, and the child's end would be the parent's."""

    def work() -> None:
        for number in range(10):
            commit(on_postgres, 20.0 + number)
        on_postgres.close()

    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(60)
            work()
        finally:
            os._exit(0)
    for number in range(10):
        commit(on_postgres, 10.0 + number)
    os.waitpid(pid, 0)
    commit(on_postgres, 30.0)
    found = sorted(item.secs for item in on_postgres.get_all_tuning_records())
    assert found == [1.0, *(10.0 + number for number in range(21))]


@pytest.mark.postgres
@on_a_server
def test_who_is_killed_in_the_middle_of_a_commit_to_a_server_leaves_no_half_and_no_lock(
    on_postgres: SQLDatabase,
) -> None:
    def work() -> None:
        kill_at(on_postgres, "INSERT INTO records")
        commit(on_postgres, 2.0)

    assert in_child(work) == -signal.SIGKILL
    commit(on_postgres, 3.0)
    assert [item.secs for item in on_postgres.get_all_tuning_records()] == [1, 3]


# ---- the write-ahead log ---------------------------------------------------------------------------------------


def test_what_a_killed_process_left_in_its_log_is_found_and_a_torn_log_gives_what_came_before(
    tmp_path: Path,
) -> None:
    (tmp_path / "left").mkdir()
    left_by_a_kill(tmp_path / "left" / "tuning.db", 5)
    size = (tmp_path / "left" / "tuning.db-wal").stat().st_size
    counts = []
    for cut in (0, 1, 4000, 40000, 100000):
        folder = tmp_path / str(cut)
        shutil.copytree(tmp_path / "left", folder)
        os.truncate(folder / "tuning.db-wal", size - cut)
        found = seconds_in(folder / "tuning.db")
        assert found == [1.0, 2.0, 3.0, 4.0, 5.0][: len(found)]
        counts.append(len(found))
    assert counts[0] == 5 and counts[-1] < counts[1] <= 5 and counts == sorted(counts, reverse=True)


def test_the_log_of_a_database_that_was_removed_does_no_harm_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    left_by_a_kill(path, 3)
    path.unlink()
    with closing(SQLDatabase(path)) as database:
        assert len(database) == 0
        commit(database, 7.0)
    assert seconds_in(path) == [7]


def test_a_log_that_is_none_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    filled(path).close()
    for name in ("tuning.db-wal", "tuning.db-shm"):
        (tmp_path / name).write_bytes(random.Random(0).randbytes(40_000))
    with closing(SQLDatabase(path)) as database:
        commit(database, 3.0)
    assert seconds_in(path) == [1, 2, 3]


# ---- what goes while it is open ----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["folder", "file", "replaced", "log"])
def test_a_commit_to_what_is_gone_is_not_reported_as_kept(tmp_path: Path, what: str) -> None:
    """SQLite writes on into files that have lost their names."""
    path = tmp_path / "folder" / "tuning.db"
    path.parent.mkdir()
    database = filled(path, 1)
    if what == "folder":
        shutil.rmtree(path.parent)
    elif what == "log":
        path.with_name("tuning.db-wal").unlink()
    else:
        for item in path.parent.iterdir():
            item.unlink()
    if what == "replaced":
        filled(tmp_path / "other.db", 3).close()
        (tmp_path / "other.db").rename(path)
    message = r"tuning\.db.*(removed|replaced by another) while .* open.*and open it again"
    for _ in range(2):
        with pytest.raises(DatabaseFileError, match=message):
            commit(database, 2.0)
    if what == "replaced":
        database.close()
        commit(database, 4.0)
        assert seconds_in(path) == [1, 2, 3, 4]


def test_a_file_that_comes_back_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    database = filled(path, 1)
    path.rename(tmp_path / "elsewhere.db")
    with pytest.raises(DatabaseFileError, match="removed while it was open"):
        commit(database, 2.0)
    (tmp_path / "elsewhere.db").rename(path)
    commit(database, 3.0)
    database.close()
    assert seconds_in(path) == [1, 2, 3]  # the second went along with the file


def test_nobody_makes_an_empty_file_where_a_closed_database_was(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    database = filled(path, 1)
    database.close()
    path.unlink()
    with pytest.raises(DatabaseFileError, match=r"tuning\.db.*removed"):
        commit(database, 2.0)
    assert not path.exists()


def test_a_closed_database_does_not_file_records_under_numbers_of_another_file(tmp_path: Path) -> None:
    path, other = tmp_path / "tuning.db", tmp_path / "other.db"
    with closing(SQLDatabase(other)) as made:
        made.commit_tuning_record(record(made.commit_workload(scaled()), 5.0))
    database = filled(path, 1)
    database.close()
    path.unlink()
    other.rename(path)
    commit(database, 2.0)
    with closing(SQLDatabase(path)) as again:
        found = again.query_tuning_record(scaled(), TARGET)
        assert found is not None and found.secs == 5.0


@pytest.mark.parametrize("other", [False, True])
def test_a_workload_that_another_program_has_removed_is_named(tmp_path: Path, other: bool) -> None:
    """Its number may be that of another one by then."""
    path = tmp_path / "tuning.db"
    database = filled(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DELETE FROM records")
    connection.execute("DELETE FROM workloads")
    connection.close()
    if other:
        SQLDatabase(path).commit_workload(scaled())
    with pytest.raises(DatabaseFileError, match=r"tuning\.db.*has removed Workload\(main"):
        commit(database, 3.0)
    database.close()
    commit(database, 4.0)
    assert seconds_in(path) == [4]


def test_what_a_table_refuses_is_an_error_of_ours(tmp_path: Path) -> None:
    with closing(filled(tmp_path / "tuning.db")) as database:
        odd = record(database.commit_workload(matmul()), 3.0, created_at=float("nan"))
        with pytest.raises(DatabaseFileError, match=r"tuning\.db.*does not fit the tables"):
            database.commit_tuning_record(odd)
    assert seconds_in(tmp_path / "tuning.db") == [1, 2]


# ---- damage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [50, 99, 512, 4095, 4097, 12288, -4096])
def test_a_file_cut_short_is_named(tmp_path: Path, size: int) -> None:
    path = tmp_path / "tuning.db"
    filled(path, 12).close()
    os.truncate(path, size if size > 0 else path.stat().st_size + size)
    with pytest.raises(DatabaseFileError, match=r"tuning\.db.*name another one, or restore a copy"):
        seconds_in(path)


# ---- odd places ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "a b.db",
        "a?mode=ro.db",
        "a#b.db",
        "a%41b.db",
        "ä.db",
        "a;b&c.db",
        "a'b\"c.db",
        "file:a.db",
        "a:b@c.db",
    ],
)
def test_any_name_is_that_of_a_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    database = filled(path)
    assert {item.name.removesuffix("-wal").removesuffix("-shm") for item in tmp_path.iterdir()} == {name}
    for each in (pickle.loads(pickle.dumps(database)), database):
        assert len(each) == 2
        each.close()
    assert [item.name for item in tmp_path.iterdir()] == [name]
    assert len(open_database(path, must_exist=True)) == len(open_database(str(path))) == 2
    with pytest.raises(DatabaseFileError, match="does not exist"):
        open_database(tmp_path / "none" / name)


def test_names_in_messages_are_those_of_the_files(tmp_path: Path) -> None:
    path = tmp_path / "wärme 100%.db"
    path.write_text("no database at all " * 100)
    with pytest.raises(DatabaseFileError) as caught:
        SQLDatabase(path)
    assert repr(str(path)) in str(caught.value)
    path.unlink()
    assert repr(SQLDatabase(path)) == f"SQLDatabase({str(path)!r})"
    with pytest.raises(DatabaseFileError, match="cannot be looked at: File name too long"):
        SQLDatabase(tmp_path / ("n" * 300))


def test_links_are_followed(tmp_path: Path) -> None:
    """Also those to a file that is to be made, and the log is that of the file."""
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "link.db", tmp_path / "real" / "tuning.db"
    link.symlink_to(real)
    by_link, by_name = filled(link), SQLDatabase(real)
    commit(by_name, 3.0)
    assert len(by_link) == len(by_name) == 3
    for database in (by_link, by_name):
        database.close()
    assert seconds_in(real) == seconds_in(link) == [1, 2, 3]
    assert link.is_symlink() and sorted(item.name for item in tmp_path.iterdir()) == ["link.db", "real"]


def test_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("far.db", "one.db", "other.db")]
    for name, place in zip(names, ("no/tuning.db", "other.db", "one.db"), strict=True):
        name.symlink_to(place)
    for name in names:
        with pytest.raises(DatabaseFileError, match=rf"{name.name}.*its folder can be read and written"):
            SQLDatabase(name)
        with pytest.raises(DatabaseFileError, match=rf"{name.name}.*does not exist"):
            SQLDatabase(name, must_exist=True)
    (tmp_path / "folder.db").symlink_to(tmp_path)
    with pytest.raises(DatabaseFileError, match=r"folder\.db' is a folder"):
        SQLDatabase(tmp_path / "folder.db")


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    (tmp_path / "tuning.db").touch()
    filled(tmp_path / "tuning.db").close()
    assert seconds_in(tmp_path / "tuning.db") == [1, 2]


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(DatabaseFileError, match=r"notes/tuning\.db' cannot be made: the folder .*notes'"):
        SQLDatabase(tmp_path / "notes" / "tuning.db")


# ---- the clock and the disk ------------------------------------------------------------------------------------


def test_a_clock_that_jumps_back_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, now = SQLDatabase(tmp_path / "tuning.db"), time.time()
    workload = database.commit_workload(matmul())
    seen: list[float] = []
    for number, jump in enumerate((0.0, -1e9, 5.0, -1e6, 1e9)):
        monkeypatch.setattr(time, "time", lambda: now + jump)
        commit(database, 5.0 - number)
        database.commit_calibration(MachineCalibration({"cpu": "a"}, 1, {"turn": number}))
        seen += [item.secs for item in database.get_records(workload, TARGET, len(seen))]
    assert seen == [5, 4, 3, 2, 1] == [item.secs for item in database.get_all_tuning_records()]
    assert [item.secs for item in database.get_top_k(workload, 2)] == [1, 2]
    assert [item.figures for item in database.get_calibrations()] == [{"turn": 4}]


def test_a_disk_without_room_for_a_database_says_so_and_leaves_none_that_is_half(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        for size in (0, 4096, 40_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            with pytest.raises(DatabaseFileError, match=r"tuning\.db.*Free some space"):
                commit(SQLDatabase(path), 1.0)

    assert in_child(work) == 0
    filled(path).close()
    assert seconds_in(path) == [1, 2]
