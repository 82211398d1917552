"""Candidates made, checked and scored per second of one core, for every structure: `python -m experiments.search.candidate_rates`.

A population is sampled, which keeps the valid ones, its features are computed, and the learned model scores them after it has seen some
candidates of the row. Seconds are CPU seconds of a process of its own, all threads together. A second figure is what a population of
100,000 of the row's slowest structure adds to the memory of that process at its peak.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..harness.contestant import Job, run_job
from ..operators import suite

RESULTS = Path(__file__).parent.parent / "results"
_POPULATION = 4096
"""Candidates whose rate is measured."""
_LARGE = 100_000


def rates(name: str, shape: Sequence[int]) -> dict[str, Any]:
    """Candidates per second of each structure of a row in order, None for one that has fewer; and MiB of the large population."""
    from cost_models import PerStoreFeature, XGBModel, estimate_seconds
    from ir.target import Target
    from schedules.space import PostOrderApply
    from tuner.search.evolutionary_search import SCORED_AT_ONCE

    target, generator, extractor = Target("cpu"), np.random.default_rng(0), PerStoreFeature()
    sketches = PostOrderApply().generate_sketches(suite.workload(name, shape), target)
    model = XGBModel(seed=0)
    for sketch in sketches:
        warm = sketch.skeleton(sketch.sample(32, generator))
        model.update_arrays(extractor.features_of(warm, target), estimate_seconds(warm, target), name)

    def score(number: int, count: int) -> float | None:
        begin = time.process_time()
        rows = sketches[number].sample(count, generator)
        for start in range(0, count, SCORED_AT_ONCE):
            skeleton = sketches[number].skeleton(rows[start : start + SCORED_AT_ONCE])
            model.predict_arrays(extractor.features_of(skeleton, target))
        return len(rows) / (time.process_time() - begin) if len(rows) == count else None

    found = []
    for number in range(len(sketches)):
        score(number, 64)  # what is cached by structure
        found.append(max((score(number, _POPULATION) for _ in range(3)), key=lambda rate: rate or 0.0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    large = [(rate, number) for number, rate in enumerate(found) if rate is not None]
    if large:
        score(min(large)[1], _LARGE)
    return {"rates": found, "mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}


def main() -> None:
    """Prints a line per row, and writes results/candidate_rates.{json,md}."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="operators of the suites; all of them by default")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "candidate_rates.json"
    found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    for name in args.rows or suite.WORKLOADS:
        for shape in suite.find(name).shapes:
            row = f"{suite.find(name).name} {'x'.join(map(str, shape))}"
            options = {"name": suite.find(name).name, "shape": list(shape)}
            found[row] = run_job(Job("rates", f"{__package__}.candidate_rates:rates", options, threads=1))
            print(_line(row, found[row]), flush=True)
            path.write_text(json.dumps(found, indent=1) + "\n")
            (args.out / "candidate_rates.md").write_text(_page(found))


def _line(row: str, item: dict[str, Any]) -> str:
    large = [rate for rate in item["rates"] if rate is not None]
    if not large:
        return f"| {row} | {len(item['rates'])} | 0 | - | - | - |"
    slowest, middle = min(large), float(np.median(large))
    return f"| {row} | {len(item['rates'])} | {len(large)} | {slowest:,.0f} | {middle:,.0f} | {item['mib']:.0f} |"


def _page(found: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# Candidates per second",
        "",
        "Made, checked and scored by the trained model, per second of one core; of all structures of a row the slowest and the median, and"
        f" MiB that 100,000 candidates of the slowest take. Structures with fewer candidates than {_POPULATION:,} are left out: all of"
        " theirs are scored at once. `python -m experiments.search.candidate_rates` writes this page.",
        "",
        "| row | structures | large | slowest | median | MiB |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_line(row, item) for row, item in found.items()), ""])


if __name__ == "__main__":
    main()
