"""The records that no other beats in all objectives."""

from __future__ import annotations

import numpy as np
import pytest

from database import DatabaseError, TuningRecord, Workload, pareto_front
from database.pareto import checked_objectives, domination_counts, objective_values
from tests.programs.expressions import matmul
from tuner import TuneContext


def _record(workload: Workload, secs: float | None, code_size: float, **options: object) -> TuningRecord:
    context = TuneContext(workload.mod, "cpu")
    (sketch, *_) = context.sketches()
    row = sketch.sample(1, np.random.default_rng(int(code_size)))[0]
    kind = "crash" if secs is None else None
    return TuningRecord(
        sketch.trace_of(row),
        workload,
        None if secs is None else [secs],
        "cpu",
        failure_kind=kind,
        metrics={"code_size": code_size},
        **options,  # type: ignore[arg-type]
    )


def test_the_front_is_in_order_of_the_first_objective() -> None:
    workload = Workload(matmul())
    records = [
        _record(workload, *values) for values in [(3e-3, 100), (1e-3, 300), (2e-3, 200), (2.5e-3, 250)]
    ]
    front = pareto_front(records, ("time", "code_size"))
    assert front == [records[1], records[2], records[0]]
    assert pareto_front(records, ("code_size", "time")) == front[::-1]
    assert pareto_front(records, ("time",)) == [records[1]]
    assert all(record.schedule().trace is not None for record in front)


def test_failures_cut_times_and_equals_are_left_out() -> None:
    workload = Workload(matmul())
    good = _record(workload, 1e-3, 300)
    records = [
        good,
        _record(workload, None, 10),
        _record(workload, 2e-3, 20, cut=True),
        _record(workload, 1e-3, 300),
    ]
    assert pareto_front(records) == [good]
    assert pareto_front([]) == []


def test_what_was_measured_again_counts() -> None:
    workload = Workload(matmul())
    first, second = _record(workload, 1e-3, 300), _record(workload, 2e-3, 200)
    again = first.measured_again([3e-3])
    assert again.metrics == {"code_size": 300}
    assert pareto_front([first, second, again]) == [second]


def test_a_record_without_the_measure_is_named() -> None:
    record = _record(Workload(matmul()), 1e-3, 300)
    with pytest.raises(
        DatabaseError, match="energy was not measured; there is time, code_size.*measure_energy"
    ):
        pareto_front([record], ("time", "energy"))
    with pytest.raises(DatabaseError, match="unknown objective 'size'"):
        pareto_front([record], ("size",))


def test_counts_are_those_of_pairs() -> None:
    values = np.random.default_rng(0).integers(5, size=(60, 3)).astype(float)
    expected = [sum(bool((a <= b).all() and (a < b).any()) for a in values) for b in values]
    assert domination_counts(values).tolist() == expected


def test_objectives_and_their_values() -> None:
    assert checked_objectives(["time", "memory"]) == ("time", "memory")
    assert objective_values(("memory", "time"), 1e-3, {"memory": 64}) == [64.0, 1e-3]
    with pytest.raises(DatabaseError, match="different names"):
        checked_objectives(("time", "time"))
