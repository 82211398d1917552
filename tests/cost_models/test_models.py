"""Every model under the contract."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cost_models import CostModel, CostModelError, MLPModel, PriorModel, PyCostModel, RandomModel, XGBModel

from .contract import Candidate, Context, CostModelContract, LearningModelContract, Result, measured
from .programs import population, program, sketches


class TestRandomModel(CostModelContract):
    depends_on_order = True

    def make(self, seed: int = 0) -> CostModel:
        return RandomModel(seed)

    def test_other_seeds_other_scores(self) -> None:
        features, _ = measured(8)
        assert (RandomModel(0).predict_arrays(features) != RandomModel(1).predict_arrays(features)).all()


class TestPriorModel(CostModelContract):
    def make(self, seed: int = 0) -> CostModel:
        return PriorModel()

    def test_the_fastest_by_the_estimate_scores_highest(self) -> None:
        features, _ = measured(40)
        assert PriorModel().predict_arrays(features).argmax() == features.prior_seconds().argmin()


class TestXGBModel(LearningModelContract):
    def make(self, seed: int = 0) -> CostModel:
        return XGBModel(seed=seed)


class TestMLPModel(LearningModelContract):
    def make(self, seed: int = 0) -> CostModel:
        return MLPModel(seed)


class _LoopCounter(PyCostModel):
    """A user's model: fewer loops are better."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def load(self, path: object) -> None:
        self.seen = int(Path(str(path)).read_text())

    def save(self, path: object) -> None:
        Path(str(path)).write_text(str(self.seen))

    def update(self, context: object, candidates: object, results: list[Result]) -> None:  # type: ignore[override]
        self.seen += len(results)

    def predict(self, context: object, candidates: list[Candidate]) -> np.ndarray:  # type: ignore[override]
        return np.array([-float(len(item.sch.get_loops(item.sch.get_block("C")))) for item in candidates])


def test_a_users_model_scores_schedules_and_ranks_arrays_by_the_estimate(tmp_path: Path) -> None:
    model = _LoopCounter()
    sketch = sketches("matmul")[0]
    candidates = [Candidate(sketch.materialize(program("matmul"), row)) for row in population(sketch, 2)]
    assert (model.predict(Context(program("matmul")), candidates) < 0).all()
    features, seconds = measured(10)
    model.update_arrays(features, seconds)
    assert model.predict_arrays(features).argmax() == features.prior_seconds().argmin()


def test_models_by_name() -> None:
    kinds = {"xgb": XGBModel, "mlp": MLPModel, "random": RandomModel, "prior": PriorModel}
    for name, kind in kinds.items():
        assert type(CostModel.create(name)) is kind
    with pytest.raises(CostModelError, match="unknown cost model 'tree'; there are mlp, prior, random, xgb"):
        CostModel.create("tree")


def test_only_models_that_make_random_choices_take_a_seed() -> None:
    assert CostModel.create("mlp", seed=7).seed == 7
    assert isinstance(CostModel.create("prior", seed=7), PriorModel)
    with pytest.raises(TypeError, match="seed"):
        PriorModel(seed=7)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    PriorModel().save(tmp_path / "model")
    with pytest.raises(CostModelError, match="holds a model of kind 'prior', expected 'xgb'"):
        XGBModel().load(tmp_path / "model")


def test_candidates_of_different_structure_are_scored_together() -> None:
    candidates = [
        Candidate(sketch.materialize(program("matmul"), population(sketch, 1)[0]))
        for sketch in (*sketches("matmul"), sketches("matmul")[0])
    ]
    context = Context(program("matmul"))
    scores = PriorModel().predict(context, candidates)
    single = [PriorModel().predict(context, [item])[0] for item in candidates]
    np.testing.assert_array_equal(scores, single)
    assert scores[0] == scores[2]


def test_training_ignores_all_but_the_newest_measurements() -> None:
    model = XGBModel(max_samples=40)
    old, seconds = measured(40)
    model.update_arrays(old, np.full(40, 1e-9) * np.arange(1, 41), "a")
    new, new_seconds = measured(40, seed=1)
    model.update_arrays(new, new_seconds, "b")
    fresh = XGBModel(max_samples=40)
    fresh.update_arrays(new, new_seconds, "b")
    np.testing.assert_array_equal(model.predict_arrays(old), fresh.predict_arrays(old))
