"""A database of one's own holds the contract with its six methods, and says what it lacks."""

from __future__ import annotations

import pytest

from database import Database, DatabaseError, PyDatabase, TuningRecord, Workload, by_speed
from database.base import check_top_k
from ir import structural_equal
from schedules import Schedule
from tests.database.contract import TARGET, record
from tests.programs.nodes import matmul, scaled


class Listed(PyDatabase):
    """As MetaSchedule's documentation has one: two lists, which are searched."""

    def __init__(self) -> None:
        super().__init__()
        self.workloads: list[Workload] = []
        self.records: list[TuningRecord] = []

    def has_workload(self, mod):  # type: ignore[no-untyped-def]
        return any(structural_equal(item.mod, Workload(mod).mod) for item in self.workloads)

    def commit_workload(self, mod):  # type: ignore[no-untyped-def]
        made = Workload(mod)
        for item in self.workloads:
            if item == made:
                return item
        self.workloads.append(made)
        return made

    def commit_tuning_record(self, record):  # type: ignore[no-untyped-def]
        self.records.append(record)

    def get_all_tuning_records(self):  # type: ignore[no-untyped-def]
        return list(self.records)

    def get_top_k(self, workload, top_k):  # type: ignore[no-untyped-def]
        return by_speed([item for item in self.records if item.workload == workload])[: check_top_k(top_k)]

    def __len__(self) -> int:
        return len(self.records)


def test_queries_follow_from_six_methods() -> None:
    store = Listed()
    workload = store.commit_workload(matmul())
    for secs in (2.0, 1.0):
        store.commit_tuning_record(record(workload, secs))
    found = store.query_tuning_record(matmul(), TARGET)
    assert found is not None and found.secs == 1.0 and len(store) == 2
    assert store.query_tuning_record(scaled(), TARGET) is None
    near = store.nearest_record(matmul(4, 4, 6), TARGET)
    assert near is not None and near.record.workload == workload
    with store:
        assert Database.current() is store


def test_what_is_not_defined_says_so_when_it_is_called() -> None:
    store = PyDatabase()
    for call in (
        lambda: store.has_workload(matmul()),
        lambda: store.commit_workload(matmul()),
        lambda: len(store),
        lambda: store.get_all_tuning_records(),
        lambda: store.get_top_k(Workload(matmul()), 1),
    ):
        with pytest.raises(DatabaseError, match=r"PyDatabase defines no \w+"):
            call()


def test_one_that_only_answers_queries_needs_no_storage() -> None:
    class Fixed(PyDatabase):
        def query_schedule(self, mod, target, workload_name="main"):  # type: ignore[no-untyped-def]
            sch = Schedule(Workload(mod).mod)
            sch.parallel(sch.get_loops("C")[0])
            return sch

    assert "T.parallel" in str(Fixed().query_ir_module(matmul(), TARGET))
