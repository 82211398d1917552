"""How certain a learned model is: what its members learn from, and what the spread of their scores says.

Most features here are made up, of one or two columns, so that what the members must differ in is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from cost_models import CostModel, FeatureMatrix, MLPModel, XGBModel
from cost_models.feature import LOG_SECONDS
from cost_models.samples import WORST, Samples, TrainingSet

from .contract import measured


def points(*columns: Sequence[float]) -> FeatureMatrix:
    """Candidates of one nest with these columns, of which the estimate knows nothing."""
    values = np.array(columns, dtype=np.float32).T[:, None, :]
    return FeatureMatrix(values, tuple(f"x{number}" for number in range(len(columns))))


def of_members(count: int) -> dict[str, CostModel]:
    """Both learned models with so many members."""
    return {"xgb": XGBModel(seed=5, num_members=count), "mlp": MLPModel(5, num_members=count, epochs=5)}


# ---- the members -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["xgb", "mlp"])
def test_a_score_is_the_mean_of_the_members_and_its_deviation_their_spread(kind: str) -> None:
    """A further member leaves the others as they are, so that means of ever more members tell what each of them says."""
    features, seconds = measured(48)
    held, _ = measured(9, seed=4)
    means, deviations = [], []
    for count in (1, 2, 3, 4):
        model = of_members(count)[kind]
        model.update_arrays(features, seconds, "a")
        mean, deviation = model.predict_with_uncertainty(held)
        np.testing.assert_array_equal(model.predict_arrays(held), mean)
        means.append(mean)
        deviations.append(deviation)
    totals = [mean * (place + 1) for place, mean in enumerate(means)]
    members = np.diff(totals, axis=0, prepend=0.0)
    assert np.ptp(members, axis=0).min() > 0
    for count in (1, 2, 3, 4):
        squares = ((members[:count] - means[count - 1]) ** 2).mean(axis=0)
        np.testing.assert_allclose(deviations[count - 1], np.sqrt(squares), rtol=1e-4, atol=1e-6)


def taught_contradictions(seed: int = 0) -> XGBModel:
    """Twenty candidates at 0 take the same time, twenty at 1 twice that or half of it. With one column all trees see the same."""
    model = XGBModel(seed=seed)
    model.update_arrays(points([0.0] * 20 + [1.0] * 20), np.array([2.0] * 20 + [1.0, 4.0] * 10), "a")
    return model


def test_where_measurements_contradict_each_other_the_model_is_less_certain() -> None:
    """Each member weighs the measurements in its own way."""
    _, (agreed, contradicted) = taught_contradictions().predict_with_uncertainty(points([0.0, 1.0]))
    assert contradicted > 0.03 and contradicted > 5 * agreed


def test_how_members_weigh_is_up_to_the_seed() -> None:
    """Nothing else could tell these models apart."""
    answers = [taught_contradictions(seed).predict_with_uncertainty(points([1.0])) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(answers[0], answers[1])
    assert answers[0][0] != answers[2][0] and answers[0][1] != answers[2][1]


def test_what_the_measurements_do_not_tell_apart_the_model_is_uncertain_of() -> None:
    """Two columns are always equal: either may be to blame, and each member blames others of them."""
    model, column = XGBModel(), [0.0, 1.0] * 20
    model.update_arrays(points(column, column), np.array([4.0, 1.0] * 20), "a")
    scores, deviation = model.predict_with_uncertainty(points([0.0, 1.0, 1.0], [0.0, 1.0, 0.0]))
    assert scores[0] < scores[2] < scores[1]
    assert deviation[2] > 3 * deviation[:2].max()


def test_a_correction_is_the_mean_over_the_nests_by_their_shares_of_the_time() -> None:
    model, column = XGBModel(), np.array([0.0, 1.0] * 20)
    rows = np.stack([column, np.zeros(40)], axis=1).astype(np.float32)[:, None, :]
    names = ("x", LOG_SECONDS)
    model.update_arrays(FeatureMatrix(rows, names), np.array([4.0, 1.0] * 20), "a")
    slow, quick, short = (0.0, 0.0), (1.0, 0.0), (1.0, -20.0)

    def score(*nests: tuple[float, float]) -> tuple[float, float]:
        matrix = FeatureMatrix(np.array([nests], dtype=np.float32), names)
        (mean,), (deviation,) = model.predict_with_uncertainty(matrix)
        return mean - matrix.prior_scores()[0], deviation

    assert score(quick)[0] - score(slow)[0] > 1.0
    assert score(quick, quick) == pytest.approx(score(quick), abs=1e-5)
    assert score(quick, slow)[0] == pytest.approx((score(quick)[0] + score(slow)[0]) / 2, abs=1e-5)
    assert score(slow, short) == pytest.approx(score(slow), abs=1e-5)


@pytest.mark.parametrize(("make", "enough"), [(XGBModel, 12), (MLPModel, 24)])
def test_before_it_has_learnt_the_estimate_ranks_and_nothing_is_uncertain(
    make: Callable[[], CostModel], enough: int
) -> None:
    model = make()
    features, seconds = measured(enough)
    model.update_arrays(features.take(slice(1, enough)), seconds[1:], "a")
    scores, deviation = model.predict_with_uncertainty(features)
    np.testing.assert_array_equal(scores, -np.log(features.prior_seconds()))
    assert not deviation.any()
    model.update_arrays(features.take([0]), seconds[:1], "a")
    scores, deviation = model.predict_with_uncertainty(features)
    assert deviation.any() and (scores != -np.log(features.prior_seconds())).any()


# ---- what they learn from --------------------------------------------------------------------------------------


def training_set(samples: Samples) -> TrainingSet:
    found = samples.training_set()
    assert found is not None
    return found


def test_workloads_have_their_own_best_times_and_offsets() -> None:
    """However much longer one of them takes, and however the estimate is off for it."""
    features, _ = measured(12)
    other, _ = measured(12, sketch=1)
    samples = Samples()
    samples.add(features.take(slice(0, 6)), features.prior_seconds()[:6] * 7.0, "a")
    samples.add(other, other.prior_seconds() * 1e-3, "b")
    samples.add(features.take(slice(6, 12)), features.prior_seconds()[6:] * 7.0, "a")
    training = training_set(samples)
    gains = [np.log(item.prior_seconds().min() / item.prior_seconds()) for item in (features, other)]
    wanted = np.concatenate([gains[0][:6], gains[1], gains[0][6:]])
    np.testing.assert_allclose(training.target, np.maximum(wanted, WORST), atol=1e-6)
    ran = wanted > WORST
    np.testing.assert_allclose(training.base[ran], wanted[ran], atol=1e-5)


def test_what_failed_or_took_for_ever_does_not_move_the_offset() -> None:
    features, _ = measured(20)
    seconds = features.prior_seconds() * 7.0
    seconds[3], seconds[5] = np.inf, seconds.min() * 1e6
    samples = Samples()
    samples.add(features, seconds, "a")
    training = training_set(samples)
    assert training.target[3] == training.target[5] == WORST
    told = training.target > WORST
    assert told.sum() > 10
    np.testing.assert_allclose(training.base[told], training.target[told], atol=1e-5)


def test_the_best_time_of_a_workload_stays_the_mark_when_it_is_no_longer_trained_on() -> None:
    features, _ = measured(4)
    samples = Samples(limit=2)
    samples.add(features.take([0, 1]), np.array([1.0, 2.0]), "a")
    samples.add(features.take([2, 3]), np.array([8.0, 4.0]), "a")
    np.testing.assert_allclose(training_set(samples).target, -np.log([8.0, 4.0]))


def test_each_measurement_has_its_own_noise() -> None:
    features, _ = measured(4)
    noise = [0.0, 0.3, 0.1, 0.05]
    samples = Samples()
    for place in range(4):
        samples.add(features.take([place]), np.ones(1), "a", np.array([noise[place]]))
    weights = training_set(samples).weight
    assert list(np.argsort(-weights)) == [0, 3, 2, 1]


def test_uncertain_times_hardly_move_the_offset() -> None:
    """A fifth of the times are half of what they should be, and known to be nonsense."""
    features, _ = measured(30)
    seconds, noise = features.prior_seconds() * 7.0, np.zeros(30)
    seconds[::5] *= 0.5
    noise[::5] = 10.0
    samples = Samples()
    samples.add(features, seconds, "a", noise)
    training = training_set(samples)
    known = (noise == 0.0) & (training.target > WORST)
    np.testing.assert_allclose(training.base[known], training.target[known], atol=1e-3)


def test_newest_measurements_of_one_candidate_leave_a_trained_model_usable() -> None:
    """They teach nothing; the trees go on as they are."""
    model = XGBModel(max_samples=12)
    model.update_arrays(points(list(range(12)), list(range(12))), np.arange(1.0, 13.0), "a")
    before = model.predict_arrays(points([1.0], [1.0]))
    model.update_arrays(points([3.0] * 12, [3.0] * 12), np.arange(1.0, 13.0), "a")
    assert np.array_equal(model.predict_arrays(points([1.0], [1.0])), before)
