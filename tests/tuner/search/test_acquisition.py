"""What it is worth to measure a candidate, how batches are kept apart, and what failures teach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cost_models import FeatureMatrix, PriorModel
from tuner import EvolutionarySearch
from tuner.error import TunerError
from tuner.search.acquisition import ACQUISITIONS, acquisition, expected_improvement, upper_confidence
from tuner.search.diversity import spread_out
from tuner.search.feasibility import chance_of_success


def test_expected_improvement_is_the_mean_of_what_is_better() -> None:
    generator = np.random.default_rng(0)
    for mean, deviation in ((-0.2, 0.3), (0.1, 0.05), (-1.0, 0.8)):
        draws = generator.normal(mean, deviation, 400_000)
        found = expected_improvement(np.array([mean]), np.array([deviation]), 0.0)[0]
        assert found == pytest.approx(np.maximum(draws, 0.0).mean(), abs=2e-3)


def test_uncertainty_is_worth_something_and_without_it_the_expectation_ranks() -> None:
    mean, deviation = np.array([0.0, -0.1]), np.array([0.01, 0.4])
    for name in ("expected-improvement", "upper-confidence"):
        value = acquisition(name)(mean, deviation, 0.0)
        assert value[1] > value[0]
    assert acquisition("mean")(mean, deviation, 0.0).argmax() == 0
    for function in ACQUISITIONS.values():
        scores = np.array([3.0, -700.0, 2.0, 2.5])
        value = function(scores, np.zeros(4), 0.0)
        assert (value >= 0).all() and (np.argsort(-value, kind="stable")[:3] == [0, 3, 2]).all()


def test_members_of_a_model_err_together_so_that_their_spread_counts_several_times() -> None:
    class Unsure(PriorModel):
        def predict_with_uncertainty(self, features: Any) -> tuple[np.ndarray, np.ndarray]:
            return np.array([0.0, -0.5]), np.array([0.01, 0.2])

    search = EvolutionarySearch()
    search._cost_model, search._best_score = Unsure(), 0.0
    _, value = search._values(FeatureMatrix(np.zeros((2, 1, 1), np.float32), ("a",)))
    assert value[1] > value[0]
    assert expected_improvement(*search._cost_model.predict_with_uncertainty(None), 0.0).argmax() == 0


def test_far_behind_the_order_is_that_of_the_expectation() -> None:
    value = expected_improvement(np.array([-50.0, -51.0, -49.0]), np.full(3, 0.1), 0.0)
    assert list(np.argsort(-value)) == [2, 0, 1] and np.isfinite(upper_confidence(value, value, 0.0)).all()


def test_unknown_names_and_shares_are_refused() -> None:
    with pytest.raises(TunerError, match="no acquisition function 'best'; there are expected-improvement"):
        EvolutionarySearch(acquisition="best")
    with pytest.raises(TunerError, match="descent_share is a share between 0 and 1, got 2"):
        EvolutionarySearch(descent_share=2)


def test_a_batch_is_spread_out_within_a_structure_only() -> None:
    values = np.array([1.0, 0.9, 0.9, 0.2])
    places = np.array([[0.0], [0.2], [0.2], [5.0]])
    groups = np.array([0, 0, 1, 0])
    assert spread_out(values, places, groups, 3, radius=1.0) == [0, 2, 3]
    assert spread_out(values, places, groups, 9, radius=0.0) == [0, 1, 2, 3]
    assert sorted(spread_out(np.zeros(4), places, groups, 4, radius=1.0)) == [
        0,
        1,
        2,
        3,
    ]  # none twice, all in the end


def test_what_shares_a_decision_with_failures_is_unlikely_to_run() -> None:
    generator = np.random.default_rng(0)
    tried = generator.integers(0, 6, size=(40, 3)).astype(float)
    failed = tried[:, 1] >= 4  # one decision is to blame
    fresh = generator.integers(0, 6, size=(200, 3)).astype(float)
    chance = chance_of_success(fresh, tried, failed)
    assert chance[fresh[:, 1] >= 5].max() < 0.5 < 0.8 < np.median(chance[fresh[:, 1] <= 2])
    assert (chance_of_success(tried, tried, np.zeros(40, dtype=bool)) == 1).all()
