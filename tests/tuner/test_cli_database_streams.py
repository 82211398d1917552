"""``loopsmith db`` and reports go through large databases kernel by kernel: they never hold all of the records."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from database import Session, SQLDatabase, TuningRecord, Workload, open_database
from ir.target import Target
from tests.programs.expressions import matmul
from tests.tuner.test_cli_database import Run, db, trace  # noqa: F401  a fixture
from tuner.cli.database.kernels import kernels_of, one_by_one
from tuner.names import kernel_names, shapes_text, target_text
from tuner.report.numbers import DatabaseReader
from tuner.verification import records_to_verify

KERNELS, EACH = 6, 8


def living() -> int:
    """How many records this process holds."""
    gc.collect()
    return sum(type(item) is TuningRecord for item in gc.get_objects())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Some kernels with several records each."""
    where = tmp_path / "tuning.db"
    with closing(SQLDatabase(where)) as store:
        for number in range(KERNELS):
            workload = store.commit_workload(matmul(16 + number))
            for index in range(EACH):
                # Numbers of their own tell traces apart; nobody applies them here.
                steps = json.loads(json.dumps(trace(2)).replace("2", str(2 + index)))
                store.commit_tuning_record(
                    TuningRecord(None, workload, [1e-3 + index], Target("cpu"), trace_json=steps)
                )
    return where


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many records were there at a time, as often as a database read some."""
    counts = [0]
    read = SQLDatabase.records_of

    def counted(self: SQLDatabase, workload: Workload) -> list[TuningRecord]:
        found = read(self, workload)
        counts.append(living())
        return found

    def refused(*_: Any) -> Any:
        raise AssertionError("all records at a time")

    monkeypatch.setattr(SQLDatabase, "records_of", counted)
    monkeypatch.setattr(SQLDatabase, "get_all_tuning_records", refused)
    return lambda: max(counts)


@pytest.mark.parametrize(
    "arguments",
    [["ls"], ["ls", "--json"], ["top", "--task", "2"], ["show", "2", "--no-programs"], ["gc", "--dry-run"]],
)
def test_commands_hold_the_records_of_a_kernel(
    arguments: list[str],
    db: Run,
    path: Path,
    most: Callable[[], int],
) -> None:
    before = living()
    status, _, _ = db(arguments[0], path, *arguments[1:])
    assert status == 0 and most() <= before + 2 * EACH


def test_differences_are_found_kernel_by_kernel(
    db: Run,
    path: Path,
    most: Callable[[], int],
) -> None:
    before = living()
    status, shown, _ = db("diff", path, path, "--all", "--json")
    assert status == 0 and len(json.loads(shown)) == KERNELS
    assert most() <= before + 4 * EACH


def test_reports_and_verifications_keep_what_they_show(path: Path, most: Callable[[], int]) -> None:
    with closing(open_database(path)) as store:
        before = living()
        assert DatabaseReader(store, "t").read().n_trials == KERNELS * EACH
        assert len(records_to_verify(store, top_k=1)) == KERNELS
        assert most() <= before + 2 * EACH + 2 * KERNELS  # the best of each kernel stays


def test_kernels_in_turn_keep_no_records(path: Path) -> None:
    with closing(open_database(path)) as store:
        kernels = kernels_of(store)
        assert [len(item.records) for item in one_by_one(kernels)] == [EACH] * KERNELS
        assert all(item.flops for item in one_by_one(kernels))
        assert not any("records" in vars(item) or item.workload._mod is not None for item in kernels)


def test_names_are_those_of_the_last_model() -> None:
    sessions = [Session(kernels={"a": "old", "b": "main"}), Session(kernels={"a": "new", "c": "other"})]
    assert kernel_names(sessions) == {"a": "new", "c": "other"}
    assert shapes_text(Workload(matmul(4)).summary) == "4x4, 4x4, 4x4"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nvidia/nvidia-a100", "nvidia/nvidia-a100"),
        ("cuda -arch=sm_90 -multi_processor_count=114", "cuda -arch=sm_90 -multi_processor_count=114"),
    ],
)
def test_devices_are_told_apart(text: str, shown: str) -> None:
    assert target_text(Target(text)) == shown
