"""Unions answer for several databases and refuse to be written."""

from __future__ import annotations

import pytest

from database import DatabaseError, MemoryDatabase, OrderedUnionDatabase, UnionDatabase
from tests.database.contract import OTHER, TARGET, record
from tests.programs.nodes import matmul, scaled


@pytest.fixture
def members() -> tuple[MemoryDatabase, MemoryDatabase]:
    slow, fast = MemoryDatabase(), MemoryDatabase()
    for member, secs in ((slow, 2.0), (fast, 1.0)):
        workload = member.commit_workload(matmul())
        member.commit_tuning_record(record(workload, secs, name="lucky"))
    fast.commit_tuning_record(record(fast.commit_workload(scaled()), 5.0, OTHER))
    return slow, fast


def test_union_takes_the_fastest(members: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    found = UnionDatabase(*members).query_tuning_record(matmul(), TARGET)
    assert found is not None and found.mean_secs == 1.0


def test_a_second_measurement_counts_across_members(members: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    slow, fast = members
    (lucky,) = fast.get_top_k(fast.commit_workload(matmul()), 1)
    slow.commit_tuning_record(lucky.measured_again([3.0]))
    union = UnionDatabase(slow, fast)
    found = union.query_tuning_record(matmul(), TARGET)
    assert found is not None and found.mean_secs == 3.0
    assert [r.mean_secs for r in union.get_top_k(lucky.workload, 5)] == [3.0]


def test_records_of_a_workload_and_target_are_those_of_all_members(
    members: tuple[MemoryDatabase, MemoryDatabase],
) -> None:
    workload = members[0].commit_workload(matmul())
    found = UnionDatabase(*members).get_records(workload, TARGET)
    assert [item.mean_secs for item in found] == [2.0, 1.0]
    assert UnionDatabase(*members).get_records(workload, OTHER) == []


def test_ordered_union_takes_the_first(members: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    union = OrderedUnionDatabase(*members)
    found = union.query_tuning_record(matmul(), TARGET)
    assert found is not None and found.mean_secs == 2.0
    found = union.query_tuning_record(scaled(), OTHER)
    assert found is not None and found.mean_secs == 5.0
    assert union.query_tuning_record(scaled(), TARGET) is None


@pytest.mark.parametrize("kind", [UnionDatabase, OrderedUnionDatabase])
def test_reading_covers_all_members_and_writing_is_refused(
    kind: type, members: tuple[MemoryDatabase, MemoryDatabase]
) -> None:
    union = kind(*members)
    assert len(union) == 3 == len(union.get_all_tuning_records())
    workload = members[0].commit_workload(matmul())
    assert [r.mean_secs for r in union.get_top_k(workload, 5)] == [1.0, 2.0]
    assert len(union.get_workloads()) == 2
    assert union.has_workload(scaled())
    with pytest.raises(DatabaseError, match="read-only"):
        union.commit_workload(matmul())
    with pytest.raises(DatabaseError, match="read-only"):
        union.commit_tuning_record(record(workload, 1.0))
