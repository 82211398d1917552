"""Targets, weights and bases of the training set."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models import CostModelError
from cost_models.samples import WORST, Samples

from .contract import measured


def test_targets_are_logarithms_of_the_share_of_the_best_time() -> None:
    features, _ = measured(4)
    samples = Samples()
    samples.add(features, np.array([2.0, 1.0, 4.0, np.inf]), "a")
    training = samples.training_set()
    assert training is not None
    np.testing.assert_allclose(training.target, [np.log(0.5), 0.0, np.log(0.25), WORST])
    assert training.weight[1] > training.weight[0] > training.weight[2] > training.weight[3]


def test_uncertain_times_weigh_less_and_failures_as_ever() -> None:
    features, _ = measured(4)
    seconds, noise = np.array([1.0, 1.0, 1.0, np.inf]), np.array([0.0, 0.05, 0.3, 0.0])
    samples, without = Samples(), Samples()
    samples.add(features, seconds, "a", noise)
    without.add(features, seconds, "a")
    training, plain = samples.training_set(), without.training_set()
    assert training is not None and plain is not None
    share = training.weight / plain.weight
    assert share[0] == share[3] == 1.0
    assert 0.7 < share[1] < 1.0 and share[2] < 0.15
    np.testing.assert_array_equal(training.target, plain.target)


@pytest.mark.parametrize("noise", [[0.1], [0.1, -0.1], [0.1, np.nan]])
def test_nonsense_for_noise_is_refused(noise: list[float]) -> None:
    features, _ = measured(2)
    with pytest.raises(CostModelError, match="the noise of 2 times"):
        Samples().add(features, np.ones(2), "a", np.array(noise))


def test_the_best_time_may_come_later() -> None:
    features, _ = measured(2)
    samples = Samples()
    samples.add(features.take([0]), np.array([2.0]), "a")
    samples.add(features.take([1]), np.array([1.0]), "a")
    training = samples.training_set()
    assert training is not None
    np.testing.assert_allclose(training.target, [np.log(0.5), 0.0])


def test_bases_fit_the_targets_of_their_group_on_average() -> None:
    features, seconds = measured(30)
    samples = Samples()
    samples.add(features, features.prior_seconds() * 7.0, "a")
    training = samples.training_set()
    assert training is not None
    # Where the estimate is right up to a factor, nothing is left to learn.
    np.testing.assert_allclose(training.base, training.target, atol=1e-5)


def test_rows_belong_to_their_candidates() -> None:
    first, seconds = measured(3)
    second, more = measured(2, sketch=1)
    samples = Samples()
    samples.add(first, seconds, "a")
    samples.add(second, more, "a")
    training = samples.training_set()
    assert training is not None
    nests = [first.values.shape[1]] * 3 + [second.values.shape[1]] * 2
    assert nests[0] != nests[-1]
    np.testing.assert_array_equal(np.bincount(training.owner), nests)
    np.testing.assert_allclose(np.bincount(training.owner, weights=training.share), 1.0)
    ones = training.predictions(np.ones(len(training.rows)))
    np.testing.assert_allclose(ones, training.base + 1.0)
    np.testing.assert_array_equal(training.rows[: nests[0]], first.values[0])
    np.testing.assert_array_equal(training.rows[-nests[-1] :], second.values[1])


def test_nothing_to_train_on() -> None:
    features, _ = measured(3)
    samples = Samples()
    assert samples.training_set() is None
    samples.add(features.take(slice(0, 0)), np.zeros(0), "a")
    samples.add(features, np.full(3, np.inf), "a")
    assert samples.training_set() is None and len(samples) == 3


def test_arrays_hold_everything() -> None:
    features, seconds = measured(5)
    samples = Samples(limit=77)
    samples.add(features, seconds, "a")
    again = Samples.from_arrays(samples.to_arrays())
    first, second = samples.training_set(), again.training_set()
    assert first is not None and second is not None
    assert again.limit == 77 and len(again) == 5
    np.testing.assert_array_equal(first.rows, second.rows)
    np.testing.assert_array_equal(first.base, second.base)
