"""Candidates made, checked and scored per second of one core, without building or measuring; and materializing one.

A candidate of the peer costs a replay of its trace; here candidates are rows of a matrix. A small row is scored by the
learned model after it has seen some candidates, as in the second round of a search.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..operators import suite


def candidates(name: str, shape: Sequence[int], count: int = 4000) -> dict[str, Any]:
    """Figures of one row; seconds are CPU seconds of this process, all its threads together, so rates are per core."""
    from cost_models import PerStoreFeature, XGBModel, estimate_seconds
    from ir.codegen.build import build
    from ir.target import Target
    from schedules.postproc import postprocess
    from schedules.space import PostOrderApply

    target, generator, extractor = Target("cpu"), np.random.default_rng(0), PerStoreFeature()
    func = suite.workload(name, shape)
    begin = time.process_time()
    sketches = PostOrderApply().generate_sketches(func, target)
    generated = time.process_time() - begin
    sketch = max(sketches, key=lambda item: item.size())
    warm = sketch.sample(64, generator)
    features, model = extractor.features_of(sketch.skeleton(warm), target), XGBModel(seed=0)
    model.update_arrays(features, estimate_seconds(sketch.skeleton(warm), target), name)
    model.predict_arrays(features)
    begin = time.process_time()
    rows = sketch.sample(count, generator)
    scores = model.predict_arrays(extractor.features_of(sketch.skeleton(rows), target))
    scored = len(scores) / (time.process_time() - begin)
    begin = time.process_time()
    estimate_seconds(sketch.skeleton(sketch.sample(count, generator)), target)
    prior = count / (time.process_time() - begin)
    materialized, built = [], []
    for row in rows[:10]:
        begin = time.process_time()
        sch = sketch.materialize(func, row)
        postprocess(sch, target)
        materialized.append(time.process_time() - begin)
    for row in rows[:3]:
        sch = sketch.materialize(func, row)
        postprocess(sch, target)
        begin = time.process_time()
        build(sch.mod, target)
        built.append(time.process_time() - begin)
    return {
        "sketches": len(sketches),
        "space_ms": generated * 1e3,
        "candidates_per_core_second": scored,
        "by_prior_per_core_second": prior,
        "materialize_ms": float(np.median(materialized)) * 1e3,
        "compile_ms": float(np.median(built)) * 1e3,
    }
