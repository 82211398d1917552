"""Which candidates make up a batch: how expectation, uncertainty, failures and distance decide, and what is taken at random.

Features here are the decisions themselves, so that a model can be any function of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cost_models import FeatureMatrix, PriorModel
from schedules import Schedule
from schedules.population import Sketch
from schedules.space import ScheduleFn
from tests.programs.expressions import matmul
from tuner import EvolutionarySearch, MeasureCandidate, TuneContext
from tuner.search.acquisition import expected_improvement
from tuner.search.diversity import spread_out
from tuner.search.evolutionary_search import _best_of

Function = Callable[[np.ndarray], np.ndarray]
"""Of structures and decisions, float64 [N, 1 + n_columns], to numbers [N]."""


class Decisions(TuneContext):
    """Features are the number of the structure and the decisions."""

    def features(self, sketch: Sketch, matrix: np.ndarray) -> FeatureMatrix:
        number = next(place for place, known in enumerate(self.sketches()) if known is sketch)
        rows = np.concatenate([np.full((len(matrix), 1), number), matrix], axis=1)
        return FeatureMatrix(rows[:, None, :].astype(np.float32), ())


class Told(PriorModel):
    """Expects what it is told."""

    def __init__(self, mean: Function, deviation: Function) -> None:
        super().__init__()
        self.mean, self.deviation = mean, deviation

    def predict_with_uncertainty(self, features: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = features.values[:, 0].astype(np.float64)
        return self.mean(rows), self.deviation(rows)

    def predict_arrays(self, features: Any) -> np.ndarray:
        return self.predict_with_uncertainty(features)[0]


def tiles(sch: Schedule, count: int = 2) -> None:
    """Tiles of loops of 64, of two factors each: seven choices for every loop, neighbours are next to each other."""
    for loop in sch.get_loops("C")[:count]:
        sch.split(loop, sch.sample_perfect_tile(loop, n=2, max_innermost_factor=64))


def three_tiles(sch: Schedule) -> None:
    """343 candidates."""
    tiles(sch, 3)


def two_structures(sch: Schedule) -> None:
    """Seven candidates each."""
    i, j, _ = sch.get_loops("C")
    sch.split(i, [None, sch.get(sch.sample_categorical([2, 4], [0.5, 0.5]))])
    sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=64))


def start(
    mean: Function,
    deviation: Function | float = 0.0,
    *,
    space: Callable[[Schedule], None] = tiles,
    trials: int = 1000,
    batch: int = 8,
    **options: Any,
) -> EvolutionarySearch:
    options = {"diversity": 0.0, "eps_greedy": 0.0, "descent_share": 0.0, "from_default": False, **options}
    context = Decisions(matmul(64), "cpu", ScheduleFn(space), seed=0)
    strategy = EvolutionarySearch(**options)
    strategy.initialize_with_tune_context(context)
    spread = deviation if callable(deviation) else lambda rows: np.full(len(rows), deviation)
    strategy.pre_tuning(trials, batch, context.sketches(), None, Told(mean, spread))
    return strategy


def number(rows: np.ndarray) -> np.ndarray:
    """Of a pair of tiles among all 49, from 0."""
    return 7 * rows[:, 1] + rows[:, 2]


def batch_of(
    strategy: EvolutionarySearch, seconds: Callable[[np.ndarray], float | None]
) -> list[MeasureCandidate]:
    """The next batch, measured."""
    found = strategy.generate_measure_candidates() or []
    strategy.notify_runner_results(found, [seconds(item.row) for item in found])
    return found


def numbers(batch: list[MeasureCandidate]) -> list[int]:
    return [int(7 * item.row[0] + item.row[1]) for item in batch]


# ---- improvement -----------------------------------------------------------------------------------------------


def test_improvement_is_over_the_best_so_far() -> None:
    """Against the sum over a fine grid of scores."""
    for mean, deviation, best in ((1.5, 0.3, 1.7), (-4.0, 0.5, -4.1), (0.2, 0.05, 0.0)):
        steps = np.linspace(-8.0, 8.0, 100_001)
        density = np.exp(-0.5 * steps**2) / math.sqrt(2 * math.pi)
        gains = np.maximum(mean + deviation * steps - best, 0.0)
        wanted = float((density * gains).sum() * (steps[1] - steps[0]))
        found = expected_improvement(np.array([mean]), np.array([deviation]), best)[0]
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-6)


def test_what_is_certain_is_worth_its_gain_among_what_is_not() -> None:
    means = np.array([0.5, 0.1, 0.0])
    value = expected_improvement(means, np.array([0.0, 0.0, 0.2]), 0.2)
    assert np.isfinite(value).all()
    assert value[0] == pytest.approx(0.3, abs=1e-3) and value[1] < 1e-6 < value[2]


def test_the_best_is_known_in_the_models_own_scores() -> None:
    """Up to an offset the model is right; what failed is no best, whatever the model thinks of it."""

    def seconds(rows: np.ndarray) -> np.ndarray:
        return 1e-3 * (1.0 + abs(rows[:, 1] - 2.5) + 1.5 * abs(rows[:, 2] - 4.2))

    strategy = start(lambda rows: 3.0 - np.log(seconds(rows)), 0.1, batch=4)
    acquisition, told = strategy._acquisition, []

    def spy(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
        told.append(best)
        return acquisition(mean, deviation, best)

    strategy._acquisition = spy
    scores: list[float] = []
    for turn in range(4):
        told.clear()
        batch = strategy.generate_measure_candidates()
        assert batch is not None and told
        wanted = max(scores, default=0.0)
        assert told == pytest.approx([wanted] * len(told), abs=1e-6)
        # The machine takes fifty times as long as the model's unit says; the first of all batches fails.
        rows = np.array([[0, *item.row] for item in batch], dtype=np.float64)
        times = [None if turn == 0 else 50.0 * secs for secs in seconds(rows)]
        strategy.notify_runner_results(batch, times)
        scores += [] if turn == 0 else list(3.0 - np.log(seconds(rows)))


def test_what_the_model_thinks_of_slow_candidates_hardly_moves_the_best() -> None:
    """One candidate takes a hundred times as long as another; the model takes them for equal."""
    strategy = start(lambda rows: np.zeros(len(rows)), 0.1)
    (arm,) = strategy._arms
    rows = [np.array([0, 0]), np.array([3, 3])]
    strategy.notify_runner_results([MeasureCandidate(arm.sketch, row) for row in rows], [1e-3, 1e-1])
    assert abs(strategy._reference_score()) < 0.1


# ---- at random -------------------------------------------------------------------------------------------------


def ranked(eps_greedy: float, batches: int = 4) -> list[list[int]]:
    """Batches of eight where the model likes candidates in the order of their numbers."""
    strategy = start(lambda rows: -number(rows) / 10.0, eps_greedy=eps_greedy)
    return [numbers(batch_of(strategy, lambda row: 1e-3)) for _ in range(batches)]


def test_without_random_choices_a_batch_is_what_the_model_likes_best() -> None:
    assert ranked(0.0) == [list(range(first, first + 8)) for first in (0, 8, 16, 24)]


def test_a_share_of_each_batch_but_the_first_is_taken_at_random_among_the_better_half() -> None:
    first, second = ranked(0.5, 2)
    assert first == list(range(8))
    # 41 are left, from 8 to 48.
    assert second[:4] == [8, 9, 10, 11] and len(set(second)) == 8
    assert second[4:] != [12, 13, 14, 15] and set(second[4:]) <= set(range(12, 28))


def test_what_is_taken_at_random_is_taken_once() -> None:
    first, *others = ranked(1.0, 4)
    assert first == list(range(8))
    chosen = [item for batch in others for item in batch]
    assert len(set(chosen)) == len(chosen) == 24 and not set(chosen) & set(first)
    assert sorted(others[0]) != others[0] and max(others[0]) < 28


def test_a_part_of_a_candidate_is_a_chance_of_one() -> None:
    strategy = start(number, eps_greedy=0.08)
    assert [strategy._random_count(4) for _ in range(50)] == [0] * 50
    strategy._trials = 4
    drawn = [strategy._random_count(4) for _ in range(2000)]
    assert set(drawn) == {0, 1} and np.mean(drawn) == pytest.approx(0.32, abs=0.03)
    assert {strategy._random_count(25) for _ in range(50)} == {2}


# ---- apart from each other -------------------------------------------------------------------------------------


def test_at_the_radius_a_neighbour_has_lost_the_share_that_the_documentation_says() -> None:
    values = np.array([1.0, 1.0, 0.64, 0.62])
    places, groups = np.array([[0.0], [2.0], [0.0], [0.0]]), np.array([0, 0, 1, 2])
    # 1 - 1/e is 0.632.
    assert spread_out(values, places, groups, 4, radius=2.0) == [0, 2, 1, 3]


def test_what_lies_between_two_that_were_chosen_is_near_to_both() -> None:
    """Of what is twice the radius away, 0.98 are left: the first and the second are chosen, and 0.36 are left between them."""
    values = np.array([1.0, 0.99, 0.9, 0.5, 0.9])
    places, groups = np.array([[0.0], [4.0], [2.0], [0.0], [0.0]]), np.array([0, 0, 0, 1, 2])
    assert spread_out(values, places, groups, 5, radius=2.0) == [0, 1, 4, 3, 2]


def test_a_search_keeps_its_batches_apart_as_far_as_it_is_asked() -> None:
    """The model likes all candidates nearly alike."""
    closest = []
    for diversity in (0.0, 2.0):
        strategy = start(lambda rows: -number(rows) / 1000.0, diversity=diversity)
        batch = batch_of(strategy, lambda row: 1e-3)
        places = batch[0].sketch.coordinates(np.stack([item.row for item in batch]))
        apart = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2))
        closest.append(apart[~np.eye(8, dtype=bool)].min())
    assert closest[0] == pytest.approx(math.sqrt(2)) and closest[1] > 1.9


def test_candidates_of_different_structures_are_never_near() -> None:
    strategy = start(lambda rows: -rows[:, 1] / 100.0, space=two_structures, diversity=10.0)
    assert len(strategy._arms) == 2
    strategy._best_score = 0.0
    pools = {arm.number: strategy._pool(arm) for arm in strategy._arms}
    chosen = strategy._spread(pools, 4)
    assert {(number, int(row[0])) for number, row, _ in chosen[:2]} == {(0, 0), (1, 0)}


# ---- structures and generations ----------------------------------------------------------------------------------


def test_the_structure_that_is_worth_most_is_searched_first_not_the_one_expected_to_be_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tuner.search.evolutionary_search._SEARCHED", 1)
    for unsure, order in ((0.5, [1, 0]), (0.01, [0, 1])):
        strategy = start(
            lambda rows: -0.1 * rows[:, 0], lambda rows: 0.01 + unsure * rows[:, 0], space=two_structures
        )
        strategy._best_score = 0.0
        assert [arm.number for arm in strategy._searched()] == order


def better_structure(rows: np.ndarray) -> np.ndarray:
    """Every candidate of the second structure is better than any of the first."""
    return 3.0 * rows[:, 0] - rows[:, 1] / 100.0


@pytest.mark.parametrize(
    ("acquisition", "deviation"),
    [("mean", 0.1), ("upper-confidence", 0.1), ("upper-confidence", 0.0), ("expected-improvement", 0.0)],
)
@pytest.mark.parametrize("offset", [0.0, -40.0, 25.0, 5000.0])
def test_structures_are_compared_by_what_is_expected_of_them(
    acquisition: str, deviation: float, offset: float
) -> None:
    """Models score up to a constant, and are asked for one structure after the other."""
    strategy = start(
        lambda rows: offset + better_structure(rows),
        deviation,
        space=two_structures,
        acquisition=acquisition,
    )
    strategy._best_score = 0.0
    pools = {arm.number: strategy._pool(arm) for arm in strategy._arms}
    chosen = strategy._spread(pools, 6)
    assert [number for number, _, _ in chosen[:7]] == [1] * 7
    assert [int(row[0]) for _, row, _ in chosen[:7]] == list(range(7))


def test_the_best_of_two_generations_live_on() -> None:
    strategy = start(lambda rows: -number(rows) / 10.0)
    strategy._best_score = 0.0
    (arm,) = strategy._arms
    rows = arm.sketch.all_rows(49)
    assert rows is not None
    rows = rows[np.argsort(7 * rows[:, 0] + rows[:, 1])]
    kept = _best_of(strategy._judged(arm, rows[20:30]), strategy._judged(arm, rows[:10]), 10)
    assert kept.mean == pytest.approx(-np.arange(10) / 10.0)


def test_a_generation_has_each_candidate_once() -> None:
    """Children may be like their parents, and like each other."""
    strategy = start(lambda rows: -number(rows) / 10.0, exhaustive_limit=0)
    strategy._best_score = 0.0
    (arm,) = strategy._arms
    pool = strategy._pool(arm)
    assert arm.everything is None
    assert 20 < len(pool) == len(np.unique(pool.rows, axis=0))


# ---- failures and the descent ----------------------------------------------------------------------------------


@pytest.mark.parametrize("learns", [True, False])
def test_a_search_keeps_away_from_what_failed(learns: bool) -> None:
    """The model likes the seventh tile of the first loop a little better than the others, and those fail."""
    strategy = start(lambda rows: 0.01 * rows[:, 1], batch=4, learn_failures=learns)
    first = batch_of(strategy, lambda row: None if row[0] == 6 else 1e-3)
    assert [int(item.row[0]) for item in first] == [6] * 4
    second = batch_of(strategy, lambda row: 1e-3)
    assert sum(int(item.row[0]) == 6 for item in second) == (0 if learns else 3)


def summit(row: np.ndarray) -> float:
    """Seconds, fewest at (3, 3, 3)."""
    return float(1e-3 * (1.0 + abs(row - [3.1, 3.02, 2.9]) @ [1.0, 1.3, 1.7]))


@pytest.mark.parametrize("share", [0.15, 0.0])
def test_the_end_of_the_budget_goes_to_neighbours_of_the_best(share: float) -> None:
    """A neighbour differs in one decision. The model likes best what is far from them."""
    strategy = start(
        lambda rows: abs(rows[:, 1:] - 3.0).sum(axis=1),
        space=three_tiles,
        trials=40,
        eps_greedy=0.5,
        descent_share=share,
    )
    measured: list[np.ndarray] = []
    for turn in range(5):
        best = sorted(measured, key=summit)[:3]
        batch = batch_of(strategy, summit)
        assert len(batch) == 8
        rows = [item.row for item in batch]
        near = [any((row != other).sum() == 1 for other in best) for row in rows]
        assert all(near[-6:]) == (turn == 4 and share > 0)
        measured += rows
    assert strategy.generate_measure_candidates() is None


def test_the_descent_and_the_rest_of_a_batch_are_different_candidates() -> None:
    """The model is right, so that both would take the same."""
    strategy = start(
        lambda rows: -np.array([summit(row) for row in rows[:, 1:]]),
        space=three_tiles,
        trials=24,
        descent_share=0.5,
    )
    measured = [item.row.tobytes() for _ in range(3) for item in batch_of(strategy, summit)]
    assert len(set(measured)) == len(measured) == 24
