"""Calibrations in files and unions, beside the contract that every database keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from database import (
    DatabaseError,
    JSONDatabase,
    MachineCalibration,
    MemoryDatabase,
    UnionDatabase,
    export_records,
    import_records,
)
from tests.database.contract import record
from tests.programs.nodes import matmul

ENTRY = MachineCalibration({"cpu": "a"}, 1, {"hertz": 1e9}, created_at=1.0)


def test_lines_that_older_releases_know_keep_their_version(tmp_path: Path) -> None:
    """A release that knows no calibrations says so in one line; it reads every file without them."""
    database = JSONDatabase(work_dir=tmp_path)
    database.commit_tuning_record(record(database.commit_workload(matmul()), 1.0))
    database.commit_calibration(ENTRY)
    lines = [json.loads(line) for line in database.path_tuning_record.read_text().splitlines()]
    assert [(line["kind"], line["v"]) for line in lines] == [("record", 1), ("calibration", 2)]


def test_exported_records_carry_no_machine(tmp_path: Path) -> None:
    database, copy = MemoryDatabase(), MemoryDatabase()
    database.commit_tuning_record(record(database.commit_workload(matmul()), 1.0))
    database.commit_calibration(ENTRY)
    assert export_records(database, tmp_path / "records.jsonl") == 1
    assert import_records(copy, tmp_path / "records.jsonl") == 1
    assert copy.get_calibrations() == []


def test_the_records_of_a_json_database_can_be_imported_all_the_same(tmp_path: Path) -> None:
    database, copy = JSONDatabase(work_dir=tmp_path), MemoryDatabase()
    workload = database.commit_workload(matmul())
    database.commit_calibration(ENTRY)
    database.commit_tuning_record(record(workload, 1.0))
    joined = tmp_path / "joined.jsonl"
    joined.write_text(database.path_workload.read_text() + database.path_tuning_record.read_text())
    assert import_records(copy, joined) == 1


def test_a_union_answers_and_refuses() -> None:
    member = MemoryDatabase()
    member.commit_calibration(ENTRY)
    union = UnionDatabase(MemoryDatabase(), member)
    assert union.get_calibration({"cpu": "a"}, 1) == ENTRY
    with pytest.raises(DatabaseError, match="read-only: commit calibrations to one of its 2"):
        union.commit_calibration(ENTRY)


@pytest.mark.parametrize(
    "broken", [{}, {**ENTRY.as_json(), "figures": 3}, {**ENTRY.as_json(), "version": "x"}]
)
def test_what_is_no_calibration_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(DatabaseError, match="not a calibration"):
        MachineCalibration.from_json(broken)
