"""What every cost model must do, whatever it is: subclass :class:`CostModelContract` and say how to make one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cost_models import CostModel, CostModelError, FeatureMatrix, PerStoreFeature

from .programs import TARGET, population, program, sketches


@dataclass
class Context:
    """A tuning context's part that models look at."""

    mod: Any
    target: Any = TARGET
    task_name: str = "matmul"


@dataclass
class Candidate:
    """A measure candidate's part that models look at."""

    sch: Any


@dataclass
class Result:
    """A measurement's part that models look at."""

    run_secs: list[float] | None


def measured(count: int, seed: int = 0, sketch: int = 0) -> tuple[FeatureMatrix, np.ndarray]:
    """Features of random matmul candidates, and times that the features explain but the estimate does not."""
    rows = population(sketches("matmul")[sketch], count, seed)
    features = PerStoreFeature().features_of(sketches("matmul")[sketch].skeleton(rows), TARGET)
    jobs = features.column("loop.parallel_jobs").max(axis=1)
    return features, features.prior_seconds() * np.exp(0.35 * jobs)


class CostModelContract:
    """The contract of :class:`cost_models.CostModel`."""

    depends_on_order = False
    """Whether a score depends on the calls before it."""

    def make(self, seed: int = 0) -> CostModel:
        raise AssertionError("a subclass makes the model")

    def trained(self, seed: int = 0) -> CostModel:
        model = self.make(seed)
        features, seconds = measured(64)
        seconds = seconds.copy()
        seconds[:3] = np.inf
        model.update_arrays(features, seconds, "a")
        other, other_seconds = measured(32, seed=1, sketch=1)
        model.update_arrays(other, other_seconds * 100, "b")
        return model

    def test_scores_are_finite_and_one_per_candidate(self) -> None:
        features, _ = measured(20, seed=5)
        for model in (self.make(), self.trained()):
            scores = model.predict_arrays(features)
            assert scores.shape == (20,) and scores.dtype == np.float64
            assert np.isfinite(scores).all()

    def test_no_candidates_no_scores(self) -> None:
        features, _ = measured(4)
        assert self.trained().predict_arrays(features.take(slice(0, 0))).shape == (0,)

    def test_programs_without_nests_have_scores(self) -> None:
        features, _ = measured(4)
        opaque = FeatureMatrix(features.values[:, :0], features.names)
        scores = self.trained().predict_arrays(opaque)
        assert scores.shape == (4,) and np.isfinite(scores).all()

    def test_uncertainty_has_the_shape_of_the_scores(self) -> None:
        features, _ = measured(10, seed=5)
        scores, deviation = self.trained().predict_with_uncertainty(features)
        assert scores.shape == deviation.shape == (10,)
        assert (deviation >= 0).all() and np.isfinite(deviation).all()

    def test_same_seed_same_scores(self) -> None:
        features, _ = measured(20, seed=5)
        np.testing.assert_array_equal(
            self.trained(3).predict_arrays(features), self.trained(3).predict_arrays(features)
        )

    def test_scores_do_not_depend_on_the_company(self) -> None:
        model = self.trained()
        features, _ = measured(20, seed=5)
        whole = model.predict_arrays(features)
        some = model.predict_arrays(features.take([7, 3]))
        if self.depends_on_order:
            assert some.shape == (2,) and not np.isin(some, whole).any()
        else:
            np.testing.assert_allclose(some, whole[[7, 3]], rtol=1e-4, atol=1e-5)

    def test_saved_and_loaded_it_predicts_the_same(self, tmp_path: Path) -> None:
        features, _ = measured(20, seed=5)
        model = self.trained()
        model.save(tmp_path / "model")
        loaded = self.make(seed=0)
        loaded.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict_arrays(features), model.predict_arrays(features))

    def test_a_loaded_model_goes_on_learning_as_the_saved_one(self, tmp_path: Path) -> None:
        features, _ = measured(20, seed=5)
        model = self.trained()
        model.save(tmp_path / "model")
        loaded = self.make(seed=0)
        loaded.load(tmp_path / "model")
        more, seconds = measured(16, seed=9)
        for item in (model, loaded):
            item.update_arrays(more, seconds, "a")
        np.testing.assert_array_equal(loaded.predict_arrays(features), model.predict_arrays(features))

    def test_noise_is_kept_as_well(self, tmp_path: Path) -> None:
        features, seconds = measured(60)
        noise = np.random.default_rng(0).uniform(0.0, 0.5, 60)
        model, loaded = self.make(), self.make()
        model.update_arrays(features, seconds, "a", noise)
        model.save(tmp_path / "model")
        loaded.load(tmp_path / "model")
        more, times = measured(30, seed=9)
        for item in (model, loaded):
            item.update_arrays(more, times, "a", noise[:30])
        np.testing.assert_array_equal(loaded.predict_arrays(features), model.predict_arrays(features))

    def test_a_file_that_is_no_model_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("not a model")
        with pytest.raises(CostModelError, match=r"notes\.txt"):
            self.make().load(path)
        with pytest.raises(CostModelError, match="absent"):
            self.make().load(tmp_path / "absent")

    def test_only_failures_leave_it_usable(self) -> None:
        model = self.make()
        features, _ = measured(30)
        model.update_arrays(features, np.full(30, np.inf), "a")
        assert np.isfinite(model.predict_arrays(features)).all()

    def test_schedules_are_scored_and_learnt_from(self) -> None:
        context = Context(program("matmul"))
        sketch = sketches("matmul")[0]
        candidates = [Candidate(sketch.materialize(context.mod, row)) for row in population(sketch, 3)]
        model = self.make()
        model.update(context, candidates, [Result([1e-3, 2e-3]), Result(None), Result([1e-4])])
        scores = model.predict(context, candidates)
        assert scores.shape == (3,) and np.isfinite(scores).all()
        with pytest.raises(CostModelError, match="3 candidates and 1 results"):
            model.update(context, candidates, [Result(None)])


class LearningModelContract(CostModelContract):
    """What models that learn must do besides."""

    def test_it_starts_from_the_estimate(self) -> None:
        features, _ = measured(50)
        order = np.argsort(self.make().predict_arrays(features))
        np.testing.assert_array_equal(order, np.argsort(-np.log(features.prior_seconds())))

    def test_it_believes_certain_times_more_than_uncertain_ones(self) -> None:
        """The same candidates twice: once as they are, once upside down and known to be nonsense."""
        features, seconds = measured(160)
        nonsense = seconds.max() * seconds.min() / seconds
        wrong = np.full(160, 2.0)
        model, doubting = self.make(), self.make()
        for item, noise in ((model, None), (doubting, wrong)):
            item.update_arrays(features, seconds, "a", None if noise is None else np.zeros(160))
            item.update_arrays(features, nonsense, "a", noise)
        truth = -np.log(seconds)
        told = [np.corrcoef(item.predict_arrays(features), truth)[0, 1] for item in (model, doubting)]
        assert told[1] > 0.9 and told[1] > told[0] + 0.1

    def test_it_learns_what_the_estimate_misses(self) -> None:
        features, seconds = measured(240)
        model = self.make()
        model.update_arrays(features.take(slice(0, 160)), seconds[:160], "a")
        held, truth = features.take(slice(160, 240)), seconds[160:]
        before = rank_correlation(held.prior_seconds(), truth)
        after = rank_correlation(-model.predict_arrays(held), truth)
        assert after > 0.9 and after > before + 0.1

    def test_groups_are_compared_within_themselves(self) -> None:
        features, seconds = measured(96)
        together, apart = self.make(), self.make()
        together.update_arrays(features, seconds, "a")
        apart.update_arrays(features, seconds * 1000.0, "b")
        held, _ = measured(30, seed=4)
        first, second = together.predict_arrays(held), apart.predict_arrays(held)
        np.testing.assert_allclose(first - first.mean(), second - second.mean(), rtol=1e-3, atol=1e-3)

    def test_it_is_less_certain_of_other_structures(self) -> None:
        features, seconds = measured(120)
        model = self.make()
        model.update_arrays(features, seconds, "a")
        known = model.predict_with_uncertainty(features)[1].mean()
        foreign = PerStoreFeature().features_of(
            sketches("conv2d")[0].skeleton(population(sketches("conv2d")[0], 60)), TARGET
        )
        assert model.predict_with_uncertainty(foreign)[1].mean() > known > 0

    def test_wrong_columns_are_refused(self) -> None:
        model = self.make()
        with pytest.raises(CostModelError, match=r"shape \[candidates, nests, \d+\], got \[2, 1, 7\]"):
            model.update_arrays(np.zeros((2, 1, 7), dtype=np.float32), np.ones(2))
        features, _ = measured(2)
        with pytest.raises(CostModelError, match="2 candidates have features, 3 have times"):
            model.update_arrays(features, np.ones(3))
        with pytest.raises(CostModelError, match="positive seconds"):
            model.update_arrays(features, np.array([0.0, 1.0]))


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's coefficient (ties broken by position)."""
    first, second = (
        np.argsort(np.argsort(item, kind="stable"), kind="stable").astype(float) for item in (a, b)
    )
    return float(np.corrcoef(first, second)[0, 1])
