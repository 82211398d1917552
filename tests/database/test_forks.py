"""Processes that fork while a tuning database is open: nothing is lost, and nobody waits for ever."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from database import DatabaseFileError, SQLDatabase, forks
from tests.database.attack import commit, filled, in_child, seconds_in


def test_parent_and_child_write_in_turns_after_a_fork(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    database = filled(path, 1)
    (parent_hears, child_says), (child_hears, parent_says) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(parent_says)
            for secs in (10.0, 11.0, 12.0):
                commit(database, secs)
                os.write(child_says, b"x")
                os.read(child_hears, 1)
        finally:
            os._exit(0)
    os.close(child_says)
    for secs in (20.0, 21.0, 22.0):
        assert os.read(parent_hears, 1) == b"x"
        commit(database, secs)
        os.write(parent_says, b"x")
    os.waitpid(pid, 0)
    assert [item.secs for item in database.get_all_tuning_records()] == [1, 10, 20, 11, 21, 12, 22]
    database.close()
    assert seconds_in(path) == [1, 10, 20, 11, 21, 12, 22]


def test_what_a_child_commits_after_its_parent_has_closed_is_kept(tmp_path: Path) -> None:
    """The parent, who is the last to close as far as SQLite knows, removes the log."""
    path = tmp_path / "tuning.db"
    database = filled(path, 1)
    (parent_hears, child_says), (child_hears, parent_says) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(60)
            commit(database, 2.0)
            os.write(child_says, b"x")
            os.read(child_hears, 1)
            commit(database, 3.0)
        finally:
            os._exit(0)
    os.read(parent_hears, 1)
    database.close()
    os.write(parent_says, b"x")
    os.waitpid(pid, 0)
    assert seconds_in(path) == [1, 2, 3]


def test_a_child_inherits_no_connection(tmp_path: Path) -> None:
    database = filled(tmp_path / "tuning.db", 1)

    def work() -> None:
        opened = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
        assert not [name for name in opened if name.startswith(str(tmp_path))]
        assert len(database) == 1

    assert in_child(work) == 0
    assert len(database) == 1


def busy_thread(database: SQLDatabase, until: threading.Event) -> threading.Thread:
    """A thread that commits a record of two seconds; it is in the middle of that when this returns."""
    begun = threading.Event()

    def wait(connection: object) -> None:
        if threading.current_thread() is thread:
            begun.set()
            until.wait(60)

    event.listen(database._connections.live_engine(), "commit", wait)
    thread = threading.Thread(target=commit, args=[database, 2.0])
    thread.start()
    assert begun.wait(60)
    return thread


def test_a_fork_waits_until_another_thread_has_committed(tmp_path: Path) -> None:
    """Else SQLite would say for ever in the child that a thread is writing, which is not there."""
    path = tmp_path / "tuning.db"
    database, may_end = filled(path, 1), threading.Event()
    thread = busy_thread(database, may_end)
    threading.Timer(0.5, may_end.set).start()
    assert in_child(lambda: commit(database, 3.0)) == 0
    assert may_end.is_set()
    thread.join()
    commit(database, 4.0)
    assert seconds_in(path) == [1, 2, 3, 4]


def test_children_of_a_process_whose_threads_commit_all_the_time_can_commit(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    database, stop, errors = filled(path, 1), threading.Event(), []

    def work() -> None:
        try:
            while not stop.is_set():
                commit(database, 2.0)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    codes = []
    for number in range(8):
        time.sleep(0.02)
        codes.append(in_child(lambda: commit(database, 10.0 + number)))
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == [] and codes == [0] * 8
    assert sorted(secs for secs in seconds_in(path) if secs >= 10) == [10.0 + number for number in range(8)]


def refused_in_child(work: Callable[[], object]) -> None:
    with pytest.raises(DatabaseFileError, match=r"tuning\.db.*in use when this process was forked.*'spawn'"):
        work()


def test_who_is_not_waited_for_any_longer_costs_the_child_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("database.forks._PATIENCE_SECONDS", 0.2)
    path, may_end = tmp_path / "tuning.db", threading.Event()
    database, other = filled(path, 1), filled(tmp_path / "other.db", 1)
    thread = busy_thread(database, may_end)

    def work() -> None:
        refused_in_child(lambda: commit(database, 3.0))
        refused_in_child(lambda: SQLDatabase(path))
        commit(other, 3.0)

    assert in_child(work) == 0
    may_end.set()
    thread.join()
    commit(database, 4.0)
    assert seconds_in(path) == [1, 2, 4] and seconds_in(tmp_path / "other.db") == [1, 3]


def test_locks_that_other_threads_hold_are_none_in_a_child(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    database, stop = filled(path, 1), threading.Event()

    def hold(lock: Any) -> None:
        while not stop.is_set():
            with lock:
                time.sleep(0.002)
            time.sleep(0.0005)

    locks = (database._connections._lock, forks._GATE.changed)
    threads = [threading.Thread(target=hold, args=[lock]) for lock in locks]
    for thread in threads:
        thread.start()
    codes = [in_child(lambda: len(database), seconds=30) for _ in range(6)]
    stop.set()
    for thread in threads:
        thread.join()
    assert codes == [0] * 6


def test_who_forks_inside_of_a_commit_goes_on_in_the_parent_alone(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    database, child = filled(path, 1), []

    def fork(connection: object, cursor: object, statement: str, *_: object) -> None:
        if "INSERT INTO records" in statement and not child:
            child.append(os.fork())

    event.listen(database._connections.live_engine(), "after_cursor_execute", fork)
    code = 1
    try:
        commit(database, 2.0)
    except DatabaseFileError as error:
        code = 0 if "in use when this process was forked" in str(error) else 2
    finally:
        if child == [0]:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child[0], 0)[1]) == 0
    commit(database, 3.0)
    assert seconds_in(path) == [1, 2, 3]


def test_a_name_means_the_same_file_after_a_fork_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a fork closed is opened again by its name."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    database = filled(Path("tuning.db"), 1)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert in_child(lambda: commit(database, 2.0)) == 0
    commit(database, 3.0)
    assert seconds_in(tmp_path / "tuning.db") == [1, 2, 3]


def test_databases_that_are_not_needed_any_more_are_forgotten(tmp_path: Path) -> None:
    connections = weakref.ref(filled(tmp_path / "tuning.db", 1)._connections)
    gc.collect()
    assert connections() is None
    with closing(filled(tmp_path / "other.db", 1)) as database:
        assert in_child(lambda: commit(database, 2.0)) == 0
    assert seconds_in(tmp_path / "other.db") == [1, 2]
