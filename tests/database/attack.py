"""What tests of tuning databases in the world share: processes that are forked, killed, or may not do everything."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from database import Database, DatabaseError, SQLDatabase
from tests.database.contract import record
from tests.programs.nodes import matmul

NOBODY = 65534


def commit(database: Database, secs: float) -> None:
    database.commit_tuning_record(record(database.commit_workload(matmul()), secs, name=str(secs)))


def seconds_in(path: Path) -> list[float]:
    """What another process would find in a file."""
    with closing(SQLDatabase(path, must_exist=True)) as database:
        return [item.secs for item in database.get_all_tuning_records()]


def filled(path: Path, count: int = 2) -> SQLDatabase:
    """A database with records of 1, 2, ... seconds."""
    made = SQLDatabase(path)
    for number in range(count):
        commit(made, 1.0 + number)
    return made


def in_child(work: Callable[[], Any], seconds: int = 60) -> int:
    """The exit code of a forked process, 0 where nothing was raised; it has so much time."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(seconds)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def without_rights(work: Callable[[], Any]) -> str:
    """What work gives, or the message of a DatabaseError that it raises, in a process that is not root's."""
    receiver, sender = os.pipe()

    def answer() -> None:
        if os.getuid() == 0:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        try:
            found = str(work())
        except DatabaseError as error:
            found = str(error)
        os.write(sender, found.encode())

    code = in_child(answer)
    os.close(sender)
    with open(receiver, "rb") as answers:
        assert code == 0
        return answers.read().decode()


def left_by_a_kill(path: Path, count: int = 2) -> None:
    """A database whose records are in its write-ahead log still, as kill -9 leaves it."""

    def work() -> None:
        filled(path, count)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == -signal.SIGKILL
    assert path.with_name(f"{path.name}-wal").stat().st_size > 0
