"""MemoryDatabase holds the contract."""

from __future__ import annotations

import pytest

from database import Database, DatabaseError, MemoryDatabase, ScheduleFnDatabase, UnionDatabase
from tests.database.contract import DatabaseContract


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
