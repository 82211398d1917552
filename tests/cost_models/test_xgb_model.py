"""Parameters of XGBModel, in the way MetaSchedule's users write them."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from cost_models import (
    CostModelError,
    FeatureExtractor,
    PerStoreFeature,
    RandomFeatureExtractor,
    XGBConfig,
    XGBModel,
)
from cost_models.xgb_model import average_peak

from .contract import Candidate, Context, Result, measured
from .programs import program


def test_config_is_what_the_other_parameters_set() -> None:
    assert XGBModel().config == XGBConfig(10, 0.001, 0.0, 0.2, 43, 1, "auto")
    changed = XGBModel(config=XGBConfig(max_depth=3), seed=7, num_tuning_cores=2, tree_method="exact").config
    assert changed == XGBConfig(max_depth=3, seed=7, nthread=2, tree_method="exact")


def test_any_extractor_makes_a_model_that_is_saved_loaded_and_taught_again(tmp_path: Path) -> None:
    context = Context(program("matmul"))
    candidates = [Candidate(None) for _ in range(10)]
    model = XGBModel(extractor=RandomFeatureExtractor(max_block_num=5), num_warmup_samples=2)
    model.update(context, candidates, [Result([1.0 + number]) for number in range(10)])
    assert model.predict(context, candidates).shape == (10,)
    model.save(tmp_path / "model.bin")
    again = XGBModel(extractor=RandomFeatureExtractor(max_block_num=5), num_warmup_samples=2)
    again.load(tmp_path / "model.bin")
    again.update(context, candidates, [Result([2.0])] * 9 + [Result(None)])
    assert np.isfinite(again.predict(context, candidates)).all()


def test_extractors_by_name() -> None:
    assert isinstance(XGBModel(extractor="per-store-feature").extractor, PerStoreFeature)
    extractor = FeatureExtractor.create("per-store-feature", buffers_per_store=3)
    assert isinstance(extractor, PerStoreFeature) and extractor.buffers_per_store == 3
    with pytest.raises(
        CostModelError, match="unknown feature extractor 'pixels'; there are per-store-feature, random"
    ):
        XGBModel(extractor="pixels")


def test_random_features_are_of_the_size_asked_for() -> None:
    made = RandomFeatureExtractor(feature_size=7, max_block_num=3).extract_from(
        Context(None), [Candidate(None)] * 20
    )
    assert {item.shape[1] for item in made} == {7} and {len(item) for item in made} == {1, 2, 3}
    first, second = (
        RandomFeatureExtractor(seed=seed).extract_from(Context(None), [Candidate(None)])[0] for seed in (1, 1)
    )
    np.testing.assert_array_equal(first, second)


def test_training_stops_where_trees_do_not_help() -> None:
    features, seconds = measured(60)
    lengths = []
    for rounds in (50, 1):
        # Steps of length zero leave the error as it is.
        model = XGBModel(config=XGBConfig(eta=0.0), early_stopping_rounds=rounds)
        model.update_arrays(features, seconds, "a")
        model.predict_arrays(features)
        lengths.append(model._members[0].num_boosted_rounds())
    assert lengths == [16, 2]


def test_adaptive_training_waits_for_a_fifth_more() -> None:
    features, seconds = measured(120)
    for adaptive, same in ((True, True), (False, False)):
        model = XGBModel(adaptive_training=adaptive)
        model.update_arrays(features.take(slice(0, 60)), seconds[:60], "a")
        before = model.predict_arrays(features)
        model.update_arrays(features.take(slice(60, 70)), seconds[60:70], "a")
        assert np.array_equal(model.predict_arrays(features), before) == same
        model.update_arrays(features.take(slice(70, 90)), seconds[70:90], "a")
        assert not np.array_equal(model.predict_arrays(features), before)


def test_exact_trees_are_trees_too() -> None:
    features, seconds = measured(60)
    model = XGBModel(tree_method="exact")
    model.update_arrays(features, seconds, "a")
    assert np.isfinite(model.predict_arrays(features)).all() and len(model._members) == 4


def test_quality_is_logged_every_so_many_trainings(caplog: pytest.LogCaptureFixture) -> None:
    features, seconds = measured(90)
    model = XGBModel(verbose_eval=2, average_peak_n=4)
    with caplog.at_level(logging.INFO, logger="cost_models"):
        for start in (0, 30, 60):
            model.update_arrays(features.take(slice(start, start + 30)), seconds[start : start + 30], "a")
            model.predict_arrays(features)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("trained on 60 measurements: average peak score")


def test_average_peak_looks_at_the_best_so_far() -> None:
    scores, speeds = np.array([1.0, 3.0, 2.0]), np.array([1.0, 0.2, 0.6])
    assert average_peak(scores, speeds, 1) == pytest.approx(0.2)
    assert average_peak(scores, speeds, 2) == pytest.approx((0.2 + 0.6) / 2)
    assert average_peak(scores, speeds, 32) == pytest.approx((0.2 + 0.6 + 1.0) / 3)
