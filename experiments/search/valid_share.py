"""How many of the candidates that a search would propose are valid, by operator and target: `python -m experiments.search.valid_share`.

Random rows of every structure become programs and pass the postprocessors of their target, among them VerifyGPUCode; nothing is built,
so that GPUs need not be there. What a constraint forgets shows here.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ir import IRModule
from ir.target import Target
from schedules import ScheduleError
from schedules.postproc import postprocess
from schedules.space import PostOrderApply

from ..operators import suite

TARGETS = (
    "cpu", "nvidia/nvidia-h200", "nvidia/nvidia-a100", "nvidia/geforce-rtx-4090", "nvidia/nvidia-t4",
)  # fmt: skip
RESULTS = Path(__file__).parent.parent / "results"


def valid_share(name: str, shape: Sequence[int], target: Target, count: int, seed: int = 0) -> dict[str, Any]:
    """Structures, candidates made and valid ones of one row; a structure for which no row is drawn counts as one that is not valid."""
    module = IRModule({"main": suite.workload(name, shape)})
    generator = np.random.default_rng(seed)
    sketches = PostOrderApply().generate_sketches(module, target)
    per_sketch = -(-count // len(sketches))
    made, valid = 0, 0
    for sketch in sketches:
        rows = np.unique(sketch.sample(per_sketch, generator), axis=0)
        made += max(1, len(rows))
        for row in rows:
            try:
                valid += postprocess(sketch.materialize(module, row), target)
            except ScheduleError:
                continue
    return {"structures": len(sketches), "candidates": made, "valid": valid}


def main() -> None:
    """Prints a line per row and target, and writes experiments/results/valid_share.{json,md}."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="operators of the suites; all of them by default")
    parser.add_argument("--target", action="append", help=f"by default {', '.join(TARGETS)}")
    parser.add_argument("--count", type=int, default=64, help="candidates per row and target (default 64)")
    args = parser.parse_args()
    path = RESULTS / "valid_share.json"
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(path.read_text()) if path.exists() else {}
    for name in args.rows or suite.WORKLOADS:
        for shape in suite.find(name).shapes:
            row = f"{suite.find(name).name} {'x'.join(map(str, shape))}"
            for target in args.target or TARGETS:
                share = valid_share(name, shape, Target(target), args.count)
                found.setdefault(row, {})[target] = share
                print(f"{row:36s} {target:26s} {share['valid']} of {share['candidates']}", flush=True)
            path.write_text(json.dumps(found, indent=1) + "\n")
            (RESULTS / "valid_share.md").write_text(_page(found))


def _page(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    targets = list(dict.fromkeys(target for row in found.values() for target in row))
    lines = [
        "# Valid candidates",
        "",
        "Random candidates of all structures that pass the postprocessors of their target, of those made."
        " `python -m experiments.search.valid_share` writes this page.",
        "",
        "| row | " + " | ".join(targets) + " |",
        "|---|" + "---|" * len(targets),
    ]
    for row, shares in found.items():
        cells = [
            f"{item['valid']} of {item['candidates']}" if (item := shares.get(target)) else ""
            for target in targets
        ]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    totals = []
    for target in targets:
        own = [shares[target] for shares in found.values() if target in shares]
        totals.append(f"{sum(item['valid'] for item in own) / sum(item['candidates'] for item in own):.2%}")
    return "\n".join([*lines, "| **all** | " + " | ".join(totals) + " |", ""])


if __name__ == "__main__":
    main()
