"""Rows of which a disk or another program has changed what is inside: they are named, and the others are used."""

from __future__ import annotations

import logging
import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from database import (
    DatabaseError,
    MachineCalibration,
    MemoryDatabase,
    Session,
    SQLDatabase,
    TuningRecord,
    export_records,
    import_records,
)
from tests.database.attack import commit
from tests.database.contract import TARGET, record
from tests.programs.nodes import matmul, scaled


def made(path: Path) -> None:
    """Three records of one workload and one of another, two sessions, two calibrations."""
    with closing(SQLDatabase(path)) as database:
        for secs in (1.0, 2.0, 3.0):
            commit(database, secs)
        database.commit_tuning_record(record(database.commit_workload(scaled()), 4.0))
        for name in ("first", "second"):
            database.commit_session(Session(id=name))
            database.commit_calibration(MachineCalibration({"cpu": name}, 1, {"hertz": 1e9}))


def change(path: Path, table: str, column: str, value: Any, row: int = 1) -> None:
    """Put a value into one row; bytes become text that is no UTF-8."""
    connection = sqlite3.connect(path)
    place = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
    connection.execute(f"UPDATE {table} SET {column} = {place} WHERE rowid = ?", [value, row])
    connection.commit()
    connection.close()


DAMAGED_RECORDS = [
    ("trace", "[[["),
    ("trace", "3"),
    ("details", "{not json"),
    ("details", "{}"),
    ("details", "null"),
    ("details", b"\xff\xfe"),
    ("details", '{"run_secs": ["a"], "args_info": null, "failure_message": null, "fingerprint": {}, "versions": {}}'),
    ("details", '{"run_secs": [1], "args_info": [1], "failure_message": null, "fingerprint": {}, "versions": {}}'),
    ("details", '{"run_secs": [1], "args_info": null, "failure_message": null, "fingerprint": 3, "versions": {}}'),
    ("details", b'{"run_secs": [1], "args_info": null, "failure_message": "a\xffb", "fingerprint": {}, "versions": {}}'),
    ("created_at", "yesterday"),
    ("session_id", memoryview(b"bytes")),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value"), DAMAGED_RECORDS)
def test_a_damaged_record_is_named_and_the_next_best_is_used(
    tmp_path: Path, column: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tuning.db"
    made(path)
    change(path, "records", column, value)
    with closing(SQLDatabase(path)) as database:
        workload = database.commit_workload(matmul())
        found = database.query_tuning_record(matmul(), TARGET)
        assert found is not None and found.secs == 2.0
        assert [item.secs for item in database.get_top_k(workload, 1)] == [2.0]
        assert [item.secs for item in database.get_top_k(workload, 5)] == [2.0, 3.0]
        assert [item.secs for item in database.get_all_tuning_records()] == [2.0, 3.0, 4.0]
        named = [item.getMessage() for item in caplog.records if item.levelno == logging.WARNING]
        assert len(named) == 1 and "row 1 of table 'records'" in named[0] and "tuning.db" in named[0]
        assert export_records(database, tmp_path / "others.jsonl") == 3
    assert import_records(MemoryDatabase(), tmp_path / "others.jsonl") == 3


@pytest.mark.parametrize("row", [1, 2, 3])
def test_who_asks_what_has_come_since_gets_each_record_once(tmp_path: Path, row: int) -> None:
    """Records are counted by those who could read them, and rows by the database."""
    path = tmp_path / "tuning.db"
    made(path)
    change(path, "records", "details", "{}", row)
    with closing(SQLDatabase(path)) as database:
        workload, seen = database.commit_workload(matmul()), list[TuningRecord]()
        for secs in (5.0, 6.0, 7.0):
            seen += database.get_records(workload, TARGET, len(seen))
            commit(database, secs)
        seen += database.get_records(workload, TARGET, len(seen))
    assert [item.secs for item in seen] == [secs for secs in (1, 2, 3, 5, 6, 7) if secs != row]


@pytest.mark.parametrize("column", ["shash", "module"])
def test_bytes_where_texts_are_kept_are_no_workload(
    tmp_path: Path, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite's columns take values of any kind."""
    path = tmp_path / "tuning.db"
    made(path)
    change(path, "workloads", column, memoryview(b"bytes"))
    with closing(SQLDatabase(path)) as database:
        assert [item.secs for item in database.get_all_tuning_records()] == [4.0]
        assert export_records(database, tmp_path / "others.jsonl") == 1
    assert "row 1 of table 'workloads'" in caplog.text


@pytest.mark.parametrize("value", ["{}", '{"kind": "nothing"}', "no json", "[]"])
def test_records_of_a_damaged_target_are_left_out_with_one_word(
    tmp_path: Path, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tuning.db"
    made(path)
    change(path, "targets", "target", value)
    with closing(SQLDatabase(path)) as database:
        assert database.get_all_tuning_records() == []
        assert database.query_tuning_record(matmul(), TARGET) is None
        commit(database, 5.0)  # the target is known by its key
    (named,) = [item.getMessage() for item in caplog.records]
    assert "row 1 of table 'targets'" in named and "tuning.db" in named


@pytest.mark.parametrize("value", ["{}", "no json", "3"])
def test_a_workload_is_described_anew_where_its_description_is_damaged(tmp_path: Path, value: str) -> None:
    path = tmp_path / "tuning.db"
    made(path)
    change(path, "workloads", "summary", value)
    with closing(SQLDatabase(path)) as database:
        assert len(database.get_all_tuning_records()) == 4
        assert database.get_workloads()[0].summary.args[0] == ("A", "float32", (4, 4))
    change(path, "workloads", "module", "no program")
    with closing(SQLDatabase(path)) as database:
        assert [item.secs for item in database.get_all_tuning_records()] == [4.0]
        assert len(database.get_workloads()) == 1


def test_a_program_that_is_damaged_is_named_by_who_needs_it_and_not_missed_by_who_has_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tuning.db"
    made(path)
    change(path, "workloads", "module", '{"loopsmith_ir": 1, "root": {"$": 0}, "nodes": [["tir.Va2", {}]]}')
    with closing(SQLDatabase(path)) as database:
        found = database.query_tuning_record(matmul(), TARGET)
        assert found is not None
        with pytest.raises(
            DatabaseError, match=r"row 1 of table 'workloads' of .*tuning\.db.*cannot be read"
        ):
            found.schedule()
    with closing(SQLDatabase(path)) as database:
        commit(database, 0.5)
        (best,) = database.get_top_k(database.commit_workload(matmul()), 1)
        assert best.secs == 0.5 and best.workload.mod is not None
    assert "row 1 of table 'workloads'" in caplog.text


@pytest.mark.parametrize("value", ["no json", "3", "{}", b"\xff"])
def test_damaged_sessions_and_calibrations_are_left_out(
    tmp_path: Path, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tuning.db"
    made(path)
    for table in ("sessions", "calibrations"):
        change(path, table, "description", value)
    with closing(SQLDatabase(path)) as database:
        for _ in range(2):
            assert [item.id for item in database.get_sessions()] == ["second"]
            assert [item.fingerprint for item in database.get_calibrations()] == [{"cpu": "second"}]
    assert ["tuning.db" in item.getMessage() for item in caplog.records] == [True, True]


def test_tables_that_lack_a_column_are_named(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    made(path)
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE records DROP COLUMN details")
    connection.close()
    with (
        closing(SQLDatabase(path)) as database,
        pytest.raises(DatabaseError, match=r"tuning\.db.*is damaged"),
    ):
        database.get_all_tuning_records()


def test_no_change_of_a_file_gives_anything_but_an_error_of_ours(tmp_path: Path) -> None:
    path, generator = tmp_path / "tuning.db", random.Random(0)
    made(path)
    data = path.read_bytes()
    ends = {"read": 0, "refused": 0}
    for number in range(150):
        changed = bytearray(data)
        for _ in range(generator.choice([1, 4, 40])):
            changed[generator.randrange(len(changed))] = generator.randrange(256)
        path = tmp_path / f"{number}.db"
        path.write_bytes(changed)
        try:
            with closing(SQLDatabase(path, must_exist=True)) as database:
                for item in database.get_all_tuning_records():
                    item.as_json()
                for workload in database.get_workloads():
                    database.get_top_k(workload, 2)
                    assert workload.mod is not None
                database.get_sessions()
                database.query_tuning_record(matmul(), TARGET)
                commit(database, 9.0)
            ends["read"] += 1
        except DatabaseError as error:
            assert f"{number}.db" in str(error)
            ends["refused"] += 1
        for item in tmp_path.glob(f"{number}.db*"):
            item.unlink()
    assert min(ends.values()) > 20


def test_a_file_that_lacks_its_last_bytes_loses_one_record_and_says_which(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tuning.db"
    with closing(SQLDatabase(path)) as database:
        for number in range(40):
            commit(database, 1.0 + number)
    os.truncate(
        path, path.stat().st_size - 50
    )  # the end of what was committed last: a hash, and before it the times
    with closing(SQLDatabase(path)) as database:
        assert len(database.get_all_tuning_records()) == 39
    assert "of table 'records' of tuning database" in caplog.text and "tuning.db" in caplog.text
