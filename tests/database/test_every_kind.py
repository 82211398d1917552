"""What every kind of database answers alike, those that are only read included; ``contract.py`` has what those that are written promise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import database as package
from database import Database, DatabaseError, MemoryDatabase, TuningRecord, open_database
from ir import assert_structural_equal
from schedules import Schedule
from tests.database.contract import OTHER, TARGET
from tests.database.test_py_database import Listed
from tests.programs.nodes import matmul, scaled


def tiled(tile: int) -> Schedule:
    sch = Schedule(matmul())
    sch.split(sch.get_loops("C")[0], [None, tile])
    return sch


def filled(store: Database, tiles: tuple[int, ...] = (4, 2, 1)) -> Database:
    """Records of which the one with the smallest tile is the fastest, a failed one, and one of another target."""
    workload = store.commit_workload(matmul())
    for tile in tiles:
        record = TuningRecord(tiled(tile).trace, workload, [float(tile)], TARGET, verified=True)
        store.commit_tuning_record(record)
    failed = TuningRecord(None, workload, None, TARGET, trace_json=[[], []], failure_kind="crash")
    store.commit_tuning_record(failed)
    store.commit_tuning_record(TuningRecord(tiled(4).trace, workload, [0.1], OTHER, verified=True))
    return store


def _knows_product(sch: Schedule) -> bool:
    if "C" not in [sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_block("root"))]:
        return False
    sch.split(sch.get_loops("C")[0], [None, 1])
    return True


STORED: dict[str, Callable[[Path], Database]] = {
    "memory": lambda folder: filled(package.create("memory")),
    "json": lambda folder: filled(package.create("json", work_dir=folder)),
    "sql": lambda folder: filled(package.create("sql", folder / "a.db")),
    "py": lambda folder: filled(Listed()),
    "union": lambda folder: package.create(
        "union", filled(MemoryDatabase(), (4, 2)), filled(open_database(folder / "b.db"), (1,))
    ),
    "ordered_union": lambda folder: package.create("ordered_union", MemoryDatabase(), filled(Listed())),
}
KINDS = {
    **STORED,
    "schedule_fn": lambda folder: package.create("schedule_fn", _knows_product),
    "function": lambda folder: package.create(_knows_product),
}


@pytest.mark.parametrize("kind", KINDS)
def test_queries(kind: str, tmp_path: Path) -> None:
    store = KINDS[kind](tmp_path)
    assert_structural_equal(store.query_ir_module(matmul(), TARGET), tiled(1).mod)
    assert "sch.split" in str(store.query(matmul(), TARGET, kind="schedule").trace)
    assert isinstance(store.query(matmul(), str(TARGET), kind="record"), TuningRecord)
    for found in (store.query_tuning_record, store.query_schedule, store.query_ir_module):
        assert found(scaled(), TARGET) is None
    with store as entered:
        assert entered is Database.current() is store
    store.close()


@pytest.mark.parametrize("kind", STORED)
def test_what_is_stored(kind: str, tmp_path: Path) -> None:
    store = STORED[kind](tmp_path)
    (workload,) = store.get_workloads()
    assert store.has_workload(matmul()) and not store.has_workload(scaled())
    assert [item.secs for item in store.get_top_k(workload, 3)] in ([0.1, 0.1, 1.0], [0.1, 1.0, 2.0])
    assert len(store) == len(store.get_all_tuning_records()) >= 5
    assert [item.secs for item in store.get_records(workload, TARGET) if item.run_secs] == [4.0, 2.0, 1.0]
    assert store.count_trials(workload, TARGET) >= 4
    other = store.query_tuning_record(matmul(), OTHER)
    assert other is not None and other.secs == 0.1
    near = store.nearest_record(matmul(4, 4, 6), TARGET)
    assert near is not None and "A.shape is (4, 4) there" in near.explain()
    pruned = MemoryDatabase()
    store.dump_pruned(pruned)
    assert sorted(item.secs for item in pruned.get_all_tuning_records()) == [0.1, 1.0]
    with pytest.raises(DatabaseError):
        store.get_top_k(workload, -1)


def test_every_kind_is_here() -> None:
    """And those that can be written hold the whole contract: memory, json and sql in the files of their names."""
    assert {*Database.kinds.names()} - {"mirrored"} == {*KINDS} - {"function", "py"}
