"""What the search itself costs: candidates sampled, checked and scored per second on one core, and materializing one.

python -m experiments.search_speed C2D GMM --candidates 4000
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from cost_models import PerStoreFeature, XGBModel, estimate_seconds
from ir import tir  # noqa: F401  loads the intrinsics before timing
from ir.codegen.build import build
from ir.target import Target
from schedules.postproc import postprocess
from schedules.space import PostOrderApply

from . import suite


def main() -> None:
    """Print one line per row of the suite."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", default=["C2D", "GMM", "DEP", "C3D"])
    parser.add_argument("--candidates", type=int, default=4000)
    options = parser.parse_args()
    target, generator, extractor = Target("cpu"), np.random.default_rng(0), PerStoreFeature()
    for name in options.rows:
        shape = suite.WORKLOADS[name].shapes[-1]
        func = suite.workload(name, shape)
        begin = time.perf_counter()
        sketches = PostOrderApply().generate_sketches(func, target)
        generated = time.perf_counter() - begin
        sketch = max(sketches, key=lambda item: item.size())
        warm = sketch.sample(64, generator)
        model = XGBModel(seed=0)
        model.update_arrays(
            extractor.features_of(sketch.skeleton(warm), target),
            estimate_seconds(sketch.skeleton(warm), target),
            name,
        )
        model.predict_arrays(extractor.features_of(sketch.skeleton(warm), target))
        begin = time.perf_counter()
        rows = sketch.sample(options.candidates, generator)
        scores = model.predict_arrays(extractor.features_of(sketch.skeleton(rows), target))
        scored = len(scores) / (time.perf_counter() - begin)
        begin = time.perf_counter()
        estimate_seconds(sketch.skeleton(sketch.sample(options.candidates, generator)), target)
        prior = options.candidates / (time.perf_counter() - begin)
        begin, count = time.perf_counter(), 10
        for row in rows[:count]:
            sch = sketch.materialize(func, row)
            postprocess(sch, target)
        materialized = (time.perf_counter() - begin) / count
        begin = time.perf_counter()
        for row in rows[:3]:
            sch = sketch.materialize(func, row)
            postprocess(sch, target)
            build(sch.mod, target)
        built = (time.perf_counter() - begin) / 3 - materialized
        print(
            f"{name:4} {len(sketches)} sketches in {generated * 1e3:.0f} ms; {scored:,.0f} candidates/s scored by XGBoost,"
            f" {prior:,.0f}/s by the prior; materialized in {materialized * 1e3:.1f} ms, lowered and compiled in {built * 1e3:.0f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
