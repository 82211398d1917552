"""Databases of which somebody may only read the file, or not even that."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from database import JSONDatabase, SQLDatabase, open_database
from tests.database.attack import commit, filled, left_by_a_kill, seconds_in, without_rights


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_who_may_only_read_reads_and_is_told_when_writing(open_folder: Path) -> None:
    path = open_folder / "tuning.db"
    filled(path).close()
    path.chmod(0o444)
    assert without_rights(lambda: len(SQLDatabase(path, must_exist=True))) == "2"
    assert "its folder can be read and written" in without_rights(lambda: commit(SQLDatabase(path), 3.0))
    open_folder.chmod(0o555)
    assert without_rights(lambda: len(SQLDatabase(path, must_exist=True))) == "2"
    assert seconds_in(path) == [1, 2]


def test_a_file_that_nobody_may_read_and_a_folder_that_takes_no_file_are_named(open_folder: Path) -> None:
    path = open_folder / "tuning.db"
    filled(path).close()
    path.chmod(0o000)
    open_folder.chmod(0o555)
    advice = "Check that the file and its folder can be read and written"
    for name in ("tuning.db", "new.db"):
        message = without_rights(lambda: SQLDatabase(open_folder / name))
        assert name in message and advice in message
    path.chmod(0o666)
    message = without_rights(lambda: commit(SQLDatabase(path), 3.0))
    assert "tuning.db" in message and advice in message
    assert seconds_in(path) == [1, 2]


@pytest.mark.parametrize("name", ["a?b.db", "a#b.db", "a%41b.db"])
def test_who_may_only_read_reads_a_file_of_any_name(open_folder: Path, name: str) -> None:
    """SQLite is told a URI, in which these mean something."""
    path = open_folder / name
    filled(path, 2).close()
    path.chmod(0o444)
    assert without_rights(lambda: len(SQLDatabase(path, must_exist=True))) == "2"


def test_who_may_only_read_reads_no_other_file(open_folder: Path) -> None:
    filled(open_folder / "a%41.db", 2).close()
    filled(open_folder / "aA.db", 1).close()
    (open_folder / "a%41.db").chmod(0o444)
    assert without_rights(lambda: len(SQLDatabase(open_folder / "a%41.db", must_exist=True))) == "2"


def count(path: Path) -> int:
    return len(SQLDatabase(path, must_exist=True))


def test_who_may_only_read_sees_what_a_killed_tuner_left_in_its_log(open_folder: Path) -> None:
    path = open_folder / "tuning.db"
    left_by_a_kill(path, 3)
    for item in open_folder.iterdir():
        item.chmod(0o444)
    names = sorted(open_folder.iterdir())
    assert without_rights(lambda: count(path)) == "3"
    open_folder.chmod(0o555)
    assert without_rights(lambda: count(path)) == "3"
    assert sorted(open_folder.iterdir()) == names


def test_who_may_only_read_sees_what_others_commit_meanwhile(open_folder: Path) -> None:
    """Also where they close the database, and open it again."""
    path = open_folder / "tuning.db"
    filled(path, 1).close()
    path.chmod(0o644)
    (reader_hears, writer_says), (writer_hears, reader_says) = os.pipe(), os.pipe()

    def read() -> list[int]:
        found, database = [], SQLDatabase(path, must_exist=True)
        for _ in range(5):
            found.append(len(database))
            os.write(reader_says, b"x")
            os.read(reader_hears, 1)
        return found

    def write() -> None:
        os.read(writer_hears, 1)
        writer = SQLDatabase(path)
        steps: list[Callable[[], object]] = [
            lambda: commit(writer, 2.0),
            lambda: commit(writer, 3.0),
            writer.close,
            lambda: (commit(writer, 4.0), writer.close()),
        ]
        for step in steps:
            step()
            os.write(writer_says, b"x")
            os.read(writer_hears, 1)
        os.write(writer_says, b"x")

    pid = os.fork()
    if pid == 0:
        try:
            write()
        finally:
            os._exit(0)
    assert without_rights(read) == "[1, 2, 3, 3, 4]"
    os.waitpid(pid, 0)


def test_who_reads_a_file_as_one_that_nobody_writes_opens_it_again_when_somebody_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tuning.db"
    filled(path).close()
    with monkeypatch.context() as patched, closing(SQLDatabase(path)) as writer:
        patched.setattr(os, "access", lambda *_: False)  # root may write everything
        commit(writer, 3.0)
        writer.close()
        reader = SQLDatabase(path)
        engine = reader._connections.live_engine()
        assert len(reader) == 3 and reader._connections.live_engine() is engine
        commit(writer, 4.0)
        writer.close()
        assert reader._connections.live_engine() is not engine and len(reader) == 4


@pytest.mark.parametrize("what", ["index is missing", "index is closed", "log is closed"])
def test_who_cannot_read_the_log_is_told(open_folder: Path, what: str) -> None:
    """Never fewer records without a word."""
    path = open_folder / "tuning.db"
    left_by_a_kill(path, 3)
    log, index = (path.with_name(f"tuning.db-{end}") for end in ("wal", "shm"))
    for item in (path, log, index):
        item.chmod(0o444)
    if what == "index is missing":
        index.unlink()
        open_folder.chmod(0o777)  # an index of the reader's would keep the writer out
    else:
        (index if what == "index is closed" else log).chmod(0o000)
    message = without_rights(lambda: count(path))
    assert repr(str(path)) in message and repr(str(log)) in message and repr(str(index)) in message
    assert "give read permission on both" in message
    assert index.exists() == (what != "index is missing")
    assert seconds_in(path) == [1, 2, 3]


def test_a_folder_that_nobody_may_enter_is_named(open_folder: Path) -> None:
    path = open_folder / "tuning.db"
    filled(path).close()
    open_folder.chmod(0o700)
    for opened in (
        lambda: SQLDatabase(path),
        lambda: open_database(path),
        lambda: open_database(open_folder / "records.jsonl"),
        lambda: JSONDatabase(work_dir=open_folder),
    ):
        message = without_rights(opened)
        assert str(open_folder) in message and "can be entered" in message
