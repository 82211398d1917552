"""Databases with a lock of threads, in processes that fork while another thread writes: nobody waits for ever."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from database import Database, JSONDatabase, MemoryDatabase, forks
from database.forks import ForkSafeLock
from tests.database.attack import commit, in_child


def in_text_files(folder: Path) -> Database:
    return JSONDatabase(work_dir=folder)


def in_memory(folder: Path) -> Database:
    return MemoryDatabase()


@pytest.mark.parametrize("make", [in_text_files, in_memory])
def test_children_of_a_process_whose_threads_commit_all_the_time_can_commit(
    make: Callable[[Path], Database], tmp_path: Path
) -> None:
    database, stop = make(tmp_path), threading.Event()

    def work() -> None:
        while not stop.is_set():
            commit(database, 1.0)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        codes = [in_child(lambda: commit(database, 2.0), seconds=30) for _ in range(8)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * 8


def test_no_child_inherits_the_lock_of_a_file(tmp_path: Path) -> None:
    """The system gives it up when all who inherited it have closed the file: a child that sleeps would stop everybody."""
    database, stop = JSONDatabase(work_dir=tmp_path), threading.Event()
    commit(database, 1.0)  # makes the files

    def work() -> None:
        while not stop.is_set():
            commit(database, 1.0)

    def opened() -> None:
        held = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
        assert held.count(str(database.path_tuning_record)) == 1  # by which the file is known

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert [in_child(opened) for _ in range(12)] == [0] * 12
    finally:
        stop.set()
        thread.join()


def test_who_forks_with_the_lock_has_it_in_the_child_too() -> None:
    lock, other = ForkSafeLock(), []

    def work() -> None:
        def take() -> None:
            with lock:
                other.append(time.monotonic())

        with lock:
            thread = threading.Thread(target=take)
            thread.start()
            time.sleep(0.05)
            assert not other
        thread.join()
        assert other

    with lock:
        assert in_child(lambda: lock.__exit__()) == 0
    assert in_child(work) == 0


def test_who_is_not_waited_for_any_longer_has_the_lock_in_the_parent_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forks, "_PATIENCE_SECONDS", 0.05)
    lock, taken, leave = ForkSafeLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            leave.wait()

    def use() -> None:
        with lock:
            pass

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        assert in_child(use, seconds=20) == 0
    finally:
        leave.set()
        thread.join()
    use()
