"""MemoryDatabase holds the contract."""

from __future__ import annotations

import pytest

from database import (
    Database,
    DatabaseError,
    MemoryDatabase,
    ScheduleFnDatabase,
    TuningRecord,
    UnionDatabase,
    Workload,
)
from tests.database.contract import TARGET, DatabaseContract, matmul, record


class TestContract(DatabaseContract):
    @pytest.fixture
    def database(self) -> Database:
        return MemoryDatabase()


def test_create_by_name() -> None:
    assert isinstance(Database.create("memory"), MemoryDatabase)
    assert isinstance(Database.create("union", MemoryDatabase()), UnionDatabase)
    assert isinstance(Database.create(lambda sch: False), ScheduleFnDatabase)
    with pytest.raises(DatabaseError, match="unknown kind of database 'redis'; there are json, memory"):
        Database.create("redis")


def test_it_shows_what_it_has() -> None:
    database = MemoryDatabase()
    for secs in (1.0, 2.0):
        database.commit_tuning_record(record(database.commit_workload(matmul()), secs))
    assert repr(database) == "<MemoryDatabase: 2 records of 1 workloads>"


def test_what_has_come_since_is_found_without_reading_what_was_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search asks before each candidate."""
    database, workload = MemoryDatabase(), Workload(matmul())
    for secs in range(1, 20):
        database.commit_tuning_record(record(workload, float(secs)))

    def read(known: TuningRecord) -> None:
        raise AssertionError(f"{known} was read")

    monkeypatch.setattr(TuningRecord, "place", property(read))
    assert database.get_records(workload, TARGET, 19) == []
    assert [item.secs for item in database.get_records(workload, TARGET, 17)] == [18.0, 19.0]
    assert database.count_trials(workload, TARGET) == 19
