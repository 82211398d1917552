"""Searches that begin where those of similar workloads ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cost_models import CostModel, FeatureMatrix, PriorModel, PyCostModel, estimate_seconds
from database import MemoryDatabase, TuningRecord
from ir import structural_equal
from ir.target import Target
from schedules import Schedule
from schedules.dlight import default_schedule
from schedules.postproc import postprocess
from schedules.space import PostOrderApply, ScheduleFn
from tests.programs.expressions import matmul, softmax
from tuner import EvolutionarySearch, TuneContext
from tuner.compile import default_of_builds
from tuner.search.seeding import similar_rows

TARGET = Target("llvm -mcpu=znver3 -num-cores 1")


def _commit(store: MemoryDatabase, context: TuneContext, count: int, failed: bool = False) -> None:
    """The n-th of random candidates takes n + 1 seconds, or fails."""
    workload = store.commit_workload(context.mod)
    sketch = context.sketches()[0]
    rows = sketch.sample(count, np.random.default_rng(0))
    for number, row in enumerate(rows):
        store.commit_tuning_record(
            TuningRecord(
                sketch.trace_of(row), workload, None if failed else [number + 1.0], context.target,
                verified=not failed, failure_kind="crash" if failed else None,
            )
        )  # fmt: skip


def test_the_best_of_the_nearest_workloads_come_first() -> None:
    store = MemoryDatabase()
    for extent in (32, 96):
        _commit(store, TuneContext(matmul(extent), TARGET), 12)
    _commit(store, TuneContext(softmax(16, 64), TARGET), 3)
    _commit(store, TuneContext(matmul(48), Target("llvm -mcpu=znver3 -num-cores 7")), 3)
    _commit(store, TuneContext(matmul(80), TARGET), 3, failed=True)
    context = TuneContext(matmul(64), TARGET)
    found = similar_rows(store, store.commit_workload(context.mod), TARGET, context.sketches())
    assert 2 <= len(found) <= 16 and {number for number, _ in found} == {0}
    sketch = context.sketches()[0]
    assert all(sketch.valid(row[None])[0] for _, row in found)
    nearest = TuneContext(matmul(96), TARGET).sketches()[0]
    best = nearest.trace_of(nearest.sample(12, np.random.default_rng(0))[0])
    np.testing.assert_array_equal(found[0][1], sketch.adapted_row(best))
    assert len({row.tobytes() for _, row in found}) == len(found)


def test_a_search_measures_them_first_and_a_share_of_zero_does_not() -> None:
    store = MemoryDatabase()
    _commit(store, TuneContext(matmul(32), TARGET), 12)

    def first(share: float) -> list[bytes]:
        context = TuneContext(matmul(64), TARGET, seed=1)
        strategy = EvolutionarySearch(population_size=128, genetic_num_iters=1, seed_share=share)
        strategy.initialize_with_tune_context(context)
        strategy.pre_tuning(16, 8, context.sketches(), store, PriorModel())
        candidates = strategy.generate_measure_candidates()
        strategy.post_tuning()
        assert candidates is not None and len(candidates) == 8
        return [item.row.tobytes() for item in candidates]

    context = TuneContext(matmul(64), TARGET)
    seeds = [
        row.tobytes()
        for _, row in similar_rows(store, store.commit_workload(context.mod), TARGET, context.sketches())
    ]
    assert first(0.5)[1:5] == seeds[:4]  # behind the default
    assert first(0.0)[1] != seeds[0]


class _Contrary(PriorModel):
    """Likes best what the estimate likes least."""

    def predict_arrays(self, features: FeatureMatrix) -> np.ndarray:
        return -super().predict_arrays(features)


def _first_batch(
    context: TuneContext,
    store: MemoryDatabase,
    model: CostModel | None = None,
    count: int = 8,
    **options: Any,
) -> list[tuple[int, bytes]]:
    strategy = EvolutionarySearch(population_size=128, genetic_num_iters=1, **options)
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(16, 8, context.sketches(), store, model or PriorModel())
    candidates = strategy.generate_measure_candidates()
    strategy.post_tuning()
    assert candidates is not None and len(candidates) == count
    sketches = context.structures().known
    return [
        (next(i for i, item in enumerate(sketches) if item is candidate.sketch), candidate.row.tobytes())
        for candidate in candidates
    ]


@pytest.mark.parametrize("func", [matmul(64), softmax(16, 64)], ids=["matmul", "softmax"])
def test_a_search_measures_the_default_first_and_once(func: Any) -> None:
    context = TuneContext(func, TARGET, seed=1)
    found = context.default_in(context.structures())
    assert found is not None
    number, row = found
    schedule = context.structures().known[number].materialize(context.mod, row)
    default = default_schedule(func, TARGET, rank=estimate_seconds)
    assert postprocess(schedule, TARGET) and structural_equal(schedule.mod["main"], default.mod["main"])

    store = MemoryDatabase()
    first = _first_batch(context, store)
    assert first[0] == (number, row.tobytes()) and len(set(first)) == 8
    workload = store.commit_workload(context.mod)
    store.commit_tuning_record(TuningRecord(schedule.trace, workload, [1.0], TARGET, verified=True))
    assert first[0] not in _first_batch(TuneContext(func, TARGET, seed=1), store)


def test_seeds_and_the_default_are_one_batch_without_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best candidates of a similar kernel may be the default; and a batch may be full of seeds."""
    context = TuneContext(matmul(64), TARGET, seed=1)
    found = context.default_in(context.structures())
    assert found is not None
    number, row = found
    rows = context.structures().known[number].sample(32, np.random.default_rng(0))
    monkeypatch.setattr(
        "tuner.search.evolutionary_search.similar_rows",
        lambda *_: [(number, row), *((number, other) for other in np.unique(rows, axis=0))],
    )
    first = _first_batch(context, MemoryDatabase(), seed_share=1.0)
    assert first[0] == (number, row.tobytes()) and len(set(first)) == 8


def test_the_default_may_be_of_a_structure_that_was_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    context = TuneContext(matmul(128), TARGET, PostOrderApply(max_sketches=1), seed=1)
    assert len(context.structures().known) == 1
    monkeypatch.setattr(context.structures(), "grow", lambda *_: None)
    number, key = _first_batch(context, MemoryDatabase())[0]
    found = context.default_in(context.structures())
    assert found is not None and (number, key) == (found[0], found[1].tobytes()) and number > 0


class _Backwards(PyCostModel):
    """Likes best what it is shown last."""

    def load(self, path: Path) -> None:
        raise NotImplementedError

    def save(self, path: Path) -> None:
        raise NotImplementedError

    def update(self, context: Any, candidates: Any, results: Any) -> None:
        pass

    def predict(self, context: Any, candidates: Any) -> np.ndarray:
        return np.arange(len(candidates), dtype="float64")


def test_a_model_of_schedules_does_not_decide_about_the_default() -> None:
    context = TuneContext(matmul(64), TARGET, seed=1)
    first = _first_batch(context, MemoryDatabase(), model=_Backwards())
    found = context.default_in(context.structures())
    assert found is not None and first[0] == (found[0], found[1].tobytes()) and len(set(first)) == 8


def test_the_default_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is put together in parts where another tuner takes some of its candidates."""
    made: list[Any] = []

    def counted(*args: Any, **options: Any) -> Schedule:
        made.append(args)
        return default_of_builds(*args, **options)

    monkeypatch.setattr("tuner.context.default_of_builds", counted)
    store = MemoryDatabase()
    contexts = [TuneContext(matmul(64), TARGET, seed=seed) for seed in (1, 1)]
    for context in contexts:
        context.mod = store.commit_workload(context.mod).mod
        strategy = EvolutionarySearch(population_size=128, genetic_num_iters=1)
        strategy.initialize_with_tune_context(context)
        strategy.pre_tuning(16, 8, context.sketches(), store, PriorModel())
        assert strategy.generate_measure_candidates() is not None
    assert len(made) == 2


def test_without_it_a_search_begins_with_what_the_model_likes() -> None:
    """The model likes what the estimate does not."""
    context = TuneContext(matmul(64), TARGET, seed=1)
    found = context.default_in(context.structures())
    assert found is not None
    default = found[0], found[1].tobytes()
    assert _first_batch(context, MemoryDatabase(), model=_Contrary())[0] == default
    again = TuneContext(matmul(64), TARGET, seed=1)
    assert _first_batch(again, MemoryDatabase(), model=_Contrary(), from_default=False)[0] != default


def test_a_space_without_the_default_is_searched_without_it() -> None:
    def split(sch: Schedule) -> None:
        i, _, _ = sch.get_loops(sch.get_block("C"))
        sch.split(i, sch.sample_perfect_tile(i, n=2))

    context = TuneContext(matmul(64), TARGET, ScheduleFn(split), seed=1)
    assert context.default_in(context.structures()) is None
    assert len(_first_batch(context, MemoryDatabase(), count=5)) == 5  # all that there are


def test_a_search_for_a_gpu_begins_with_the_best_of_its_space_by_estimate() -> None:
    """The default schedule is none of that space, whose decisions a search changes."""
    context = TuneContext(matmul(64), Target("nvidia/nvidia-a100"), seed=1)
    assert context.default is not None
    assert context.default.trace is not None
    assert context.structures().explaining(context.default.trace) is None
    found = context.default_in(context.structures())
    assert found is not None
    assert context.structures().known[found[0]].valid(found[1][None])[0]
