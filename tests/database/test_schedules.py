"""Databases with real schedules: what was recorded is applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from database import (
    Database,
    DatabaseError,
    JSONDatabase,
    MemoryDatabase,
    OrderedUnionDatabase,
    ScheduleFnDatabase,
    TuningRecord,
    open_database,
)
from ir import IRModule, assert_structural_equal, structural_equal
from schedules import Schedule
from tests.database.contract import OTHER, TARGET, FakeTrace
from tests.programs.nodes import matmul, scaled


def tiled(mod: IRModule, factor: int = 2) -> Schedule:
    sch = Schedule(mod)
    i, j, k = sch.get_loops(sch.get_block("C"))
    outer, inner = sch.split(i, [None, factor])
    sch.reorder(outer, j, k, inner)
    sch.annotate(outer, "pragma_note", factor)
    return sch


def commit(database: Database, factor: int, secs: float, target: Any = TARGET) -> Schedule:
    workload = database.commit_workload(matmul())
    sch = tiled(workload.mod, factor)
    database.commit_tuning_record(TuningRecord(sch.trace, workload, [secs], target, None))
    return sch


@pytest.fixture(params=["memory", "json", "sql"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A database, and how to open it anew so that traces come from storage."""
    if request.param == "memory":
        memory = MemoryDatabase()
        return memory, lambda: memory
    if request.param == "json":
        return JSONDatabase(work_dir=tmp_path), lambda: JSONDatabase(work_dir=tmp_path)
    return open_database(tmp_path / "a.db"), lambda: open_database(tmp_path / "a.db")


def test_the_best_schedule_is_replayed(kept: Any) -> None:
    database, reopen = kept
    commit(database, 4, 2.0)
    best = commit(database, 2, 1.0)
    commit(database, 1, 0.5, OTHER)
    again = reopen()
    sch = again.query_schedule(matmul(), TARGET)
    assert_structural_equal(sch.mod, best.mod)
    assert_structural_equal(again.query_ir_module(matmul(), TARGET), best.mod)
    assert str(sch.trace) == str(best.trace)
    (record,) = again.get_top_k(again.commit_workload(matmul()), 1)[:1]
    assert record.trace.as_json() == again.query_tuning_record(matmul(), OTHER).trace.as_json()
    assert again.query_schedule(scaled(), TARGET) is None


def test_a_trace_that_does_not_apply_is_explained() -> None:
    database = MemoryDatabase()
    workload = database.commit_workload(scaled())
    trace = tiled(matmul()).trace
    database.commit_tuning_record(
        TuningRecord(trace, workload, [1.0], TARGET, None, versions={"loopsmith": "0.0"})
    )
    with pytest.raises(DatabaseError, match=r"record of 'scale'.*does not apply: .*tune the workload again"):
        database.query_schedule(scaled(), TARGET, "scale")


def test_where_the_best_does_not_apply_the_next_best_is_taken(
    kept: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """As in builds."""
    database, reopen = kept
    commit(database, 4, 3.0)
    second = commit(database, 2, 2.0)
    gone = [[["GetBlock", [], ["gone", "main"], ["b0"]]], []]
    workload = database.commit_workload(matmul())
    database.commit_tuning_record(TuningRecord(None, workload, [1.0], TARGET, None, trace_json=gone))
    assert_structural_equal(reopen().query_schedule(matmul(), TARGET, "product").mod, second.mod)
    assert "kernel product: skipped" in caplog.text and "does not apply" in caplog.text


def test_schedule_function() -> None:
    def only_matmul(sch: Schedule) -> bool:
        if not structural_equal(sch.mod, matmul()):
            return False
        sch.parallel(sch.get_loops(sch.get_block("C"))[0])
        return True

    database = ScheduleFnDatabase(only_matmul)
    assert database.query_tuning_record(scaled(), TARGET) is None
    record = database.query_tuning_record(matmul(), TARGET)
    assert record is not None and not record.is_valid()
    sch = database.query_schedule(matmul(), TARGET)
    assert "parallel" in str(sch.trace)
    assert "T.parallel" in sch.mod["main"].script()
    with pytest.raises(DatabaseError, match="stores nothing and has no commit_workload"):
        database.commit_workload(matmul())
    memory = MemoryDatabase()
    best = commit(memory, 2, 1.0)
    assert_structural_equal(
        OrderedUnionDatabase(memory, database).query_ir_module(matmul(), TARGET), best.mod
    )


def test_anything_with_as_json_can_be_recorded_but_only_traces_replay() -> None:
    database = MemoryDatabase()
    workload = database.commit_workload(matmul())
    database.commit_tuning_record(TuningRecord(FakeTrace("x"), workload, [1.0], TARGET))
    assert database.get_all_tuning_records()[0].trace_json[0][0][0] == "Named"
