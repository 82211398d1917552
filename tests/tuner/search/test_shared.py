"""No candidate is measured twice in the life of a database, by whomever."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cost_models import PriorModel
from database import Database, MemoryDatabase, SQLDatabase, TuningRecord
from ir.target import Target
from tests.programs.expressions import matmul
from tests.tuner.strategy_contract import made_up_seconds
from tuner import EvolutionarySearch, MeasureCandidate, OptunaSearch, ReplayTrace, SearchStrategy, TuneContext
from tuner.search.shared import key_of

TARGET = Target("llvm -mcpu=znver3 -num-cores 1")


def _evolutionary() -> EvolutionarySearch:
    return EvolutionarySearch(population_size=128, genetic_num_iters=1)


def _optuna() -> OptunaSearch:
    return OptunaSearch("random")


def _start(
    make: Callable[[], SearchStrategy], store: Database, trials: int = 24, seed: int = 1
) -> SearchStrategy:
    context = TuneContext(matmul(48), TARGET, seed=seed)
    context.mod = store.commit_workload(context.mod).mod
    strategy = make()
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(trials, 8, context.sketches(), store, PriorModel())
    return strategy


def _finish(strategy: SearchStrategy, store: Database, candidates: list[MeasureCandidate]) -> list[str]:
    """Measure a batch; the keys of its candidates."""
    workload = store.commit_workload(strategy.context.mod)
    seconds = [made_up_seconds(item) for item in candidates]
    for item, secs in zip(candidates, seconds, strict=True):
        store.commit_tuning_record(
            TuningRecord(
                item.sketch.trace_of(item.row), workload, None if secs is None else [secs], TARGET,
                failure_kind="crash" if secs is None else None,
            )
        )  # fmt: skip
    strategy.notify_runner_results(candidates, seconds)
    return [key_of(item.sketch, item.row) for item in candidates]


@pytest.mark.parametrize(
    "make", [_evolutionary, ReplayTrace, _optuna, partial(OptunaSearch, "cmaes"), OptunaSearch]
)
def test_two_searches_with_one_seed_that_run_at_once_share_the_work(
    make: Callable[[], SearchStrategy],
) -> None:
    store = MemoryDatabase()
    searches = [_start(make, store), _start(make, store)]
    measured: list[str] = []
    for _ in range(3):
        batches = [
            search.generate_measure_candidates() for search in searches
        ]  # both before either has results
        for search, batch in zip(searches, batches, strict=True):
            assert batch is not None and len(batch) == 8
            measured += _finish(search, store, batch)
    assert len(set(measured)) == len(measured) == 48
    assert all(search.generate_measure_candidates() is None for search in searches)


def test_what_another_tuner_has_measured_teaches_this_one() -> None:
    store = MemoryDatabase()
    first, second = _start(_evolutionary, store), _start(_evolutionary, store)
    batch = first.generate_measure_candidates()
    assert batch is not None
    _finish(first, store, batch)
    second.generate_measure_candidates()
    known = sum(len(arm.measured) for arm in second._arms)  # type: ignore[attr-defined]
    assert known == 8


@pytest.mark.parametrize("make", [_evolutionary, _optuna])
def test_an_interrupted_search_gives_back_what_it_did_not_measure(make: Callable[[], SearchStrategy]) -> None:
    store = MemoryDatabase()
    first = _start(make, store)
    batch = first.generate_measure_candidates()
    assert batch is not None
    first.post_tuning()
    again = _start(make, store).generate_measure_candidates()
    assert again is not None
    assert [item.row.tolist() for item in again] == [item.row.tolist() for item in batch]


def test_what_is_measured_between_reading_and_claiming_is_not_measured_again() -> None:
    store = MemoryDatabase()
    first, second = _start(_evolutionary, store), _start(_evolutionary, store)
    claim = second._shared._database.claim  # type: ignore[attr-defined]
    measured: list[str] = []
    asked: list[bool] = []

    def late(*arguments: object) -> list[bool]:
        """The other tuner measures its batch and ends just before this one's claim arrives."""
        if not asked:
            asked.append(True)
            batch = first.generate_measure_candidates()
            assert batch is not None
            measured.extend(_finish(first, store, batch))
            first.post_tuning()
        return claim(*arguments)  # type: ignore[no-any-return]

    second._shared._database.claim = late  # type: ignore[attr-defined]
    batch = second.generate_measure_candidates()
    del store.claim
    assert batch is not None and len(measured) == len(batch) == 8
    assert not set(measured) & {key_of(item.sketch, item.row) for item in batch}


@pytest.mark.parametrize("make", [ReplayTrace, _optuna])
def test_threads_on_one_file_measure_nothing_twice(
    tmp_path: Path, make: Callable[[], SearchStrategy]
) -> None:
    measured: list[str] = []

    def run() -> None:
        with SQLDatabase(tmp_path / "tuning.db") as store:
            search = _start(make, store, trials=16)
            while (batch := search.generate_measure_candidates()) is not None:
                measured.extend(_finish(search, store, batch))
            search.post_tuning()

    SQLDatabase(tmp_path / "tuning.db").close()
    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(measured)) == len(measured) == 32


@pytest.mark.parametrize(
    ("again", "secs"), [([5.0], 5.0), (None, math.inf)], ids=["it was luck", "it is wrong"]
)
def test_a_second_measurement_takes_the_place_of_the_first(again: list[float] | None, secs: float) -> None:
    """Whoever was the best by luck, or computed something else when it was looked at again, leads the search no longer."""
    store = MemoryDatabase()
    search = _start(_evolutionary, store)
    batch = search.generate_measure_candidates()
    assert batch is not None
    _finish(search, store, batch)
    leader = store.query_tuning_record(search.context.mod, TARGET)
    assert leader is not None
    row = next(item.row for item in batch if item.sketch.trace_of(item.row).as_json() == leader.trace_json)
    arm = next(arm for arm in search._arms if row.tobytes() in arm.measured)  # type: ignore[attr-defined]
    assert arm.measured[row.tobytes()] == leader.secs < 5.0
    store.commit_tuning_record(leader.measured_again(again, failure_kind=None if again else "wrong_result"))
    search.generate_measure_candidates()
    assert arm.measured[row.tobytes()] == secs
    assert arm.fastest(1).tolist() != [row.tolist()]
