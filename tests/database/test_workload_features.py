"""Features of workloads: distances, and the same answers from SQL as from a look at every record."""

from __future__ import annotations

import math
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from database import MemoryDatabase, SQLDatabase, Workload
from database.nearest import workload_differences
from database.workload_features import WorkloadFeatures, shape_distance
from ir.target import Target
from tests.database.contract import OTHER, TARGET, record
from tests.programs.expressions import softmax
from tests.programs.nodes import matmul, scaled


def test_distances_are_doublings_and_infinite_for_other_programs() -> None:
    small, large, other = (Workload(func).summary for func in (matmul(32), matmul(64), softmax(16, 64)))
    # Of three arguments only the extents that differ count.
    assert shape_distance(small, large) == shape_distance(large, small) > 0
    assert shape_distance(small, small) == 0.0 and math.isinf(shape_distance(small, other))


def test_fields_are_those_that_differences_are_counted_by() -> None:
    one, other = Workload(matmul(4, 4, 4)).summary, Workload(matmul(4, 8, 4)).summary
    fields, others = WorkloadFeatures(one).fields, WorkloadFeatures(other).fields
    assert sum(fields[name] != others[name] for name in fields) == len(workload_differences(one, other)) == 2
    assert WorkloadFeatures(one).kernel == WorkloadFeatures(other).kernel
    assert WorkloadFeatures(one).family == WorkloadFeatures(other).family


def test_sql_finds_the_nearest_record_that_a_look_at_all_finds(tmp_path: Path) -> None:
    generator = random.Random(0)
    programs: list[Any] = [matmul(*(generator.choice([2, 4, 8]) for _ in range(3))) for _ in range(12)]
    programs += [softmax(4, 8), softmax(8, 8), scaled()]
    targets = [TARGET, OTHER, Target("llvm -mcpu=znver5 -num-cores 8"), None]
    made, memory = SQLDatabase(tmp_path / "tuning.db"), MemoryDatabase()
    with closing(made):
        for _ in range(40):
            workload, target = Workload(generator.choice(programs)), generator.choice(targets)
            secs = generator.choice([None, 1.0, 2.0, 3.0])
            item = record(workload, secs, target, remeasured=generator.random() < 0.2)
            for database in (made, memory):
                database.commit_tuning_record(item)
        assert len(made) == len(memory) == 40
        for program in [*programs, matmul(16, 2, 4), softmax(2, 4)]:
            for wanted in (TARGET, OTHER, Target("llvm -mcpu=znver5 -num-cores 2")):
                found, expected = (each.nearest_record(program, wanted) for each in (made, memory))
                assert rank(found) == rank(expected)


def rank(near: Any) -> Any:
    """What is the same for all records that are as near; of another kernel, arguments do not count."""
    fields = [item.field for item in near.differences]
    on = sum(name.startswith("target") for name in fields)
    return on, "blocks" in fields or len(fields) - on


@pytest.mark.parametrize("shape", [(), (0, 4), (3, 5)])
def test_extents_that_have_no_logarithm_are_told_by_the_family(shape: tuple[int, ...]) -> None:
    summary = Workload(matmul()).summary
    other = type(summary)(summary.name, summary.blocks, (("A", "float32", shape),))
    features = WorkloadFeatures(other)
    assert features.doublings.keys() == {f"0.{axis}" for axis, item in enumerate(shape) if item}
    assert features.fields == {"0.dtype": "float32", "0.shape": ",".join(map(str, shape))}
