"""JSONDatabase holds the contract, survives torn files, and reads files of earlier versions."""

from __future__ import annotations

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
)
from database.jsonl import append_lines
from tests.database.contract import DatabaseContract, record
from tests.programs.nodes import matmul

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


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_last_line_is_dropped_and_writing_goes_on(tmp_path: Path, cut: int) -> None:
    path = filled(tmp_path).path_tuning_record
    path.write_bytes(path.read_bytes()[:-cut])
    torn = JSONDatabase(work_dir=tmp_path)
    # One byte less takes only the line's end, and the record is whole.
    assert len(torn) == (3 if cut == 1 else 2)
    torn.commit_tuning_record(record(torn.commit_workload(matmul()), 9.0))
    again = JSONDatabase(work_dir=tmp_path)
    assert again.get_all_tuning_records()[-1].mean_secs == 9.0
    assert len(again) == (4 if cut == 1 else 3)


def test_a_broken_line_in_the_middle_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = filled(tmp_path).path_tuning_record
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "{broken\n", *lines[1:]]))
    with pytest.raises(DatabaseFileError, match=r"line 2 is not a tuning record"):
        JSONDatabase(work_dir=tmp_path)


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

    def append_and_open(path: Path, lines: Iterable[str]) -> None:
        append_lines(path, lines)
        opened.append(JSONDatabase(work_dir=tmp_path))  # as another process may at any time

    made = JSONDatabase(work_dir=tmp_path)
    monkeypatch.setattr("database.json_database.append_lines", append_and_open)
    made.commit_tuning_record(record(Workload(matmul()), 1.0))
    assert [len(each) for each in opened] == [0, 1]
