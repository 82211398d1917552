"""JSONDatabase holds the contract, survives torn files, and reads files of earlier versions."""

from __future__ import annotations

import json
import resource
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from database import (
    Database,
    DatabaseError,
    DatabaseFileError,
    JSONDatabase,
    SchemaVersionError,
    Workload,
    open_database,
)
from database.file_id import FileId
from database.jsonl import append_lines
from tests.database.attack import commit, in_child
from tests.database.contract import TARGET, DatabaseContract, record
from tests.programs.nodes import matmul, scaled

FIXTURES = Path(__file__).parent / "fixtures"


class TestContract(DatabaseContract):
    @pytest.fixture
    def database(self, tmp_path: Path) -> Database:
        return JSONDatabase(work_dir=tmp_path / "made")

    def reopen(self, database: Database) -> Database:
        assert isinstance(database, JSONDatabase)
        return JSONDatabase(database.path_workload, database.path_tuning_record, allow_missing=False)


def filled(folder: Path, count: int = 3) -> JSONDatabase:
    made = JSONDatabase(work_dir=folder)
    workload = made.commit_workload(matmul())
    for index in range(count):
        made.commit_tuning_record(record(workload, 1.0 + index))
    return made


def test_a_slash_names_a_folder_in_which_the_first_commit_makes_one(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    for name in ("new", "other"):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(DatabaseFileError, match="does not exist; check the path"):
            open_database(f"{tmp_path / name}/", must_exist=True)
        made = open_database(f"{tmp_path / name}/")
        made.release("nobody")
        assert isinstance(made, JSONDatabase) and sorted(tmp_path.rglob("*")) == before
        made.commit_tuning_record(record(made.commit_workload(matmul()), 1.0))
        for where in (tmp_path / name, f"{tmp_path / name}/"):
            assert len(open_database(where, must_exist=True)) == 1


def test_a_folder_without_records_says_how_one_is_made(tmp_path: Path) -> None:
    with pytest.raises(DatabaseFileError, match=f"or {tmp_path}/, with the '/'"):
        open_database(tmp_path)
    made = open_database(f"{tmp_path / 'claims'}/")
    assert made.claim(Workload(matmul()), TARGET, ["a"], "me") == [True]
    made.release("me")


@pytest.mark.parametrize("block", [7, 1 << 16])
@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_last_line_is_dropped_and_writing_goes_on(
    tmp_path: Path, cut: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the line is longer than what is read of the file at a time, or not."""
    monkeypatch.setattr("database.jsonl._BLOCK", block)
    path = filled(tmp_path).path_tuning_record
    path.write_bytes(path.read_bytes()[:-cut])
    torn = JSONDatabase(work_dir=tmp_path)
    # One byte less takes only the line's end, and the record is whole.
    assert len(torn) == (3 if cut == 1 else 2)
    torn.commit_tuning_record(record(torn.commit_workload(matmul()), 9.0))
    again = JSONDatabase(work_dir=tmp_path)
    assert again.get_all_tuning_records()[-1].mean_secs == 9.0
    assert len(again) == (4 if cut == 1 else 3)


def test_a_broken_line_in_the_middle_is_named_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = filled(tmp_path).path_tuning_record
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "{broken\n", *lines[1:]]))
    assert [item.secs for item in JSONDatabase(work_dir=tmp_path).get_all_tuning_records()] == [1.0, 2.0, 3.0]
    assert "line 2 is not a tuning record" in caplog.text and caplog.text.count("left out") == 1


def test_a_file_of_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    """It is no database; who wrote on would lose what it was."""
    filled(tmp_path).path_tuning_record.write_text("some\nbody's\nnotes\n")
    with pytest.raises(DatabaseFileError, match=r"line 1 is not a tuning record .*loopsmith db export"):
        JSONDatabase(work_dir=tmp_path)


def test_many_broken_lines_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = filled(tmp_path).path_tuning_record
    path.write_text("{broken\n" * 40 + path.read_text())
    assert len(JSONDatabase(work_dir=tmp_path)) == 3
    assert caplog.text.count("left out: ") == 10 and "40 items could not be read" in caplog.text


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path).path_tuning_record
    path.write_text(path.read_text().replace('{"v":1,', '{"v":3,'))
    with pytest.raises(SchemaVersionError, match="format version 3.*update loopsmith"):
        JSONDatabase(work_dir=tmp_path)


def test_a_record_without_its_workload_is_an_error(tmp_path: Path) -> None:
    filled(tmp_path).path_workload.write_text("")
    with pytest.raises(DatabaseError, match="whose program is missing"):
        JSONDatabase(work_dir=tmp_path)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(DatabaseFileError, match=r"database_workload\.json' does not exist"):
        JSONDatabase(work_dir=tmp_path / "none", allow_missing=False)
    with pytest.raises(DatabaseError, match="work_dir"):
        JSONDatabase()


def test_two_writers_do_not_tear_each_others_lines(tmp_path: Path) -> None:
    one, two = filled(tmp_path, 0), JSONDatabase(work_dir=tmp_path)
    for index in range(5):
        for writer in (one, two):
            writer.commit_tuning_record(record(writer.commit_workload(matmul()), 1.0 + index))
    assert len(JSONDatabase(work_dir=tmp_path)) == 10


def test_workloads_that_an_older_version_hashed_are_found(tmp_path: Path) -> None:
    made = JSONDatabase(work_dir=tmp_path)
    workload = made.commit_workload(matmul())
    made.commit_tuning_record(record(workload, 1.0))
    for path in (Path(made.path_workload), Path(made.path_tuning_record)):
        text = path.read_text().replace(workload.shash, "hashed in another way")
        path.write_text(text.replace('"hashing":2,', "").replace('"hashing": 2,', ""))
    assert "hashing" not in Path(made.path_workload).read_text().replace("hashed in", "")
    opened = JSONDatabase(work_dir=tmp_path)
    assert len(opened.get_top_k(opened.commit_workload(matmul()), 1)) == 1


def test_a_record_brings_its_workload_along(tmp_path: Path) -> None:
    other = JSONDatabase(work_dir=tmp_path / "other")
    workload = other.commit_workload(matmul())
    made = JSONDatabase(work_dir=tmp_path / "made")
    made.commit_tuning_record(record(workload, 1.0))
    opened = JSONDatabase(made.path_workload, made.path_tuning_record, allow_missing=False)
    assert len(opened.get_top_k(opened.commit_workload(matmul()), 1)) == 1


def test_a_reader_never_finds_a_record_without_its_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def append_and_open(path: Path, lines: Iterable[str], opened_before: FileId | None) -> None:
        append_lines(path, lines, opened_before)
        opened.append(JSONDatabase(work_dir=tmp_path))  # as another process may at any time

    made = JSONDatabase(work_dir=tmp_path)
    monkeypatch.setattr("database.json_database.append_lines", append_and_open)
    made.commit_tuning_record(record(Workload(matmul()), 1.0))
    assert [len(each) for each in opened] == [0, 1]


def test_a_full_disk_is_named_and_what_was_committed_is_kept(tmp_path: Path) -> None:
    database = filled(tmp_path, 2)
    size = database.path_tuning_record.stat().st_size

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, resource.RLIM_INFINITY))
        with pytest.raises(DatabaseFileError, match=r"database_tuning_record\.json.*free some space"):
            commit(database, 3.0)
        assert len(database) == 2
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        commit(database, 4.0)

    assert in_child(work) == 0
    found = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert [item.secs for item in found] == [1, 2, 4]


@pytest.mark.parametrize(
    "what", ["folder", "both files", "workloads", "records", "replaced", "records replaced"]
)
def test_files_that_are_gone_are_named_and_nothing_is_written_beside_them(tmp_path: Path, what: str) -> None:
    """The workload is taken for written: its record would be one that nobody can read."""
    folder = tmp_path / "made"
    database = filled(folder, 1)
    paths = {
        "workloads": [database.path_workload],
        "records": [database.path_tuning_record],
        "records replaced": [database.path_tuning_record],
    }
    if what == "folder":
        shutil.rmtree(folder)
    for path in paths.get(what, [*folder.iterdir()] if folder.exists() else []):
        path.unlink()
    if what == "records replaced":
        filled(tmp_path / "other", 0).path_tuning_record.rename(database.path_tuning_record)
    if what == "replaced":
        filled(tmp_path / "other", 0)
        (tmp_path / "other").rename(folder / "other")
        for path in (folder / "other").iterdir():
            path.rename(folder / path.name)
    left = sorted(tmp_path.rglob("*"))
    with pytest.raises(DatabaseFileError, match=r"database_.*\.json.*(removed|replaced)"):
        commit(database, 2.0)
    assert sorted(tmp_path.rglob("*")) == left


def test_claims_that_cannot_be_written_are_named_and_odd_ones_are_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    database = filled(folder, 1)
    workload = database.commit_workload(matmul())
    place = database.path_tuning_record.with_suffix(".claims")
    place.write_text('[["a", "b", "c", "owner", "soon"]]')
    assert database.claim(workload, TARGET, ["c"], "one") == [True]
    shutil.rmtree(folder)
    with pytest.raises(DatabaseFileError, match=r"database_tuning_record\.claims.*removed"):
        database.claim(workload, TARGET, ["c"], "one")


@pytest.mark.parametrize(
    "text",
    [
        '[["w", "t", "a", null, 5.0]]',
        '[["w", "t", "a", [], 5.0]]',
        '[["w", "t", ["a"], "o", 5.0]]',
        '[["w", "t", "a", "o", NaN]]',
        '[["w", "t", "a", "o", "5"]]',
        '[["w", "t", "a", "o", 1' + "0" * 400 + "]]",
        '[["w", "t", "a", "o"]]',
        "5",
        "[" * 100_000,
    ],
)
def test_a_file_of_claims_that_holds_something_else_is_begun_anew(tmp_path: Path, text: str) -> None:
    database = JSONDatabase(work_dir=tmp_path)
    place = database.path_tuning_record.with_suffix(".claims")
    place.write_text(text)
    workload = database.commit_workload(matmul())
    assert database.claim(workload, TARGET, ["a"], "me") == [True]
    (claim,) = json.loads(place.read_text())
    assert claim[2:4] == ["a", "me"]


def test_who_removes_keeps_what_others_have_added(tmp_path: Path) -> None:
    one = filled(tmp_path, 1)
    (first,) = one.get_all_tuning_records()
    one.commit_tuning_record(first.measured_again([2.0]))
    two = JSONDatabase(work_dir=tmp_path)
    two.commit_tuning_record(record(two.commit_workload(scaled()), 9.0, name="theirs"))
    assert one.remove_records([first]) == 2  # both have one trace
    assert [item.secs for item in JSONDatabase(work_dir=tmp_path).get_all_tuning_records()] == [9.0]
    with pytest.raises(
        DatabaseFileError, match="replaced by another while it was open.*open the database again"
    ):
        two.commit_tuning_record(record(two.commit_workload(scaled()), 8.0))
    assert sorted(item.name for item in tmp_path.iterdir()) == [
        "database_tuning_record.json",
        "database_workload.json",
    ]
