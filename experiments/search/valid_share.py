"""How many of the candidates that a search would propose are valid, by operator and target: `python -m experiments.search.valid_share`.

Random rows of every structure become programs and pass the postprocessors of their target, among them VerifyGPUCode; GPUs need not be
there. What a constraint forgets shows here. With ``--compile`` NVRTC compiles some of those of each row and GPU: they count as
launchable where a multiprocessor has the registers and the shared memory that its report tells.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from ir import IRModule
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.codegen.cuda.resources import occupancy
from ir.error import IRError
from ir.target import Target
from ir.tir.lower import lower
from schedules import ScheduleError
from schedules.postproc import postprocess
from schedules.space import PostOrderApply

from ..operators import suite

TARGETS = (
    "cpu", "nvidia/nvidia-h200", "nvidia/nvidia-a100", "nvidia/geforce-rtx-4090", "nvidia/nvidia-t4",
)  # fmt: skip
RESULTS = Path(__file__).parent.parent / "results"


def valid_share(
    name: str, shape: Sequence[int], target: Target, count: int, compiled: int = 0, seed: int = 0
) -> dict[str, Any]:
    """Structures, candidates made and valid ones of one row; a structure for which no row is drawn counts as one that is not valid.

    Args:
        name: of the operator.
        shape: of the row.
        target: a CPU or a GPU.
        count: candidates to make, at least one of each structure.
        compiled: how many of the valid ones are compiled, of all structures in turn; those that could be launched are counted.
        seed: of the draws.
    """
    module = IRModule({"main": suite.workload(name, shape)})
    generator = np.random.default_rng(seed)
    sketches = PostOrderApply().generate_sketches(module, target)
    per_sketch = -(-count // len(sketches))
    made, valid = 0, 0
    programs: list[list[IRModule]] = []
    for sketch in sketches:
        rows = np.unique(sketch.sample(per_sketch, generator), axis=0)
        made += max(1, len(rows))
        programs.append([])
        for row in rows:
            try:
                schedule = sketch.materialize(module, row)
                is_valid = postprocess(schedule, target)
            except ScheduleError:
                continue
            valid += is_valid
            if is_valid:
                programs[-1].append(schedule.mod)
    found = {"structures": len(sketches), "candidates": made, "valid": valid}
    if compiled and target.is_gpu:
        turns = (item for turn in zip_longest(*programs) for item in turn if item is not None)
        chosen = list(islice(turns, compiled))
        found |= {"compiled": len(chosen), "launchable": sum(is_launchable(item, target) for item in chosen)}
    return found


def is_launchable(program: IRModule, target: Target) -> bool:
    """Whether NVRTC compiles a program, and a multiprocessor has what a block of each of its kernels takes."""
    arch = str(target.attrs["arch"])
    try:
        source = generate(lower(program, target))
        resources = compile_cuda(source.text, arch).resources
    except IRError:
        return False
    for name, launch in source.launches.items():
        threads = math.prod(
            int(extent)  # type: ignore[call-overload]
            for tag, extent in launch.extents.items()
            if tag.startswith("threadIdx")
        )
        shared = 0 if launch.dynamic_bytes is None else int(launch.dynamic_bytes)  # type: ignore[call-overload]
        if not occupancy(resources[name], threads, shared, arch).blocks:
            return False
    return True


def main() -> None:
    """Prints a line per row and target, and writes experiments/results/valid_share.{json,md}."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="operators of the suites; all of them by default")
    parser.add_argument("--target", action="append", help=f"by default {', '.join(TARGETS)}")
    parser.add_argument("--count", type=int, default=64, help="candidates per row and target (default 64)")
    parser.add_argument(
        "--compile", type=int, default=0, help="of those so many are compiled for each GPU (default 0)"
    )
    args = parser.parse_args()
    path = RESULTS / "valid_share.json"
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(path.read_text()) if path.exists() else {}
    for name in args.rows or suite.WORKLOADS:
        for shape in suite.find(name).shapes:
            row = f"{suite.find(name).name} {'x'.join(map(str, shape))}"
            for target in args.target or TARGETS:
                share = valid_share(name, shape, Target(target), args.count, args.compile)
                found.setdefault(row, {})[target] = share
                print(f"{row:36s} {target:26s} {_cell(share)}", flush=True)
            path.write_text(json.dumps(found, indent=1) + "\n")
            (RESULTS / "valid_share.md").write_text(_page(found))


def _page(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    targets = list(dict.fromkeys(target for row in found.values() for target in row))
    lines = [
        "# Valid candidates",
        "",
        "Random candidates of all structures that pass the postprocessors of their target, of those made; behind a comma those that a"
        " multiprocessor could run by NVRTC's report of registers and shared memory, of those compiled."
        " `python -m experiments.search.valid_share` writes this page.",
        "",
        "| row | " + " | ".join(targets) + " |",
        "|---|" + "---|" * len(targets),
    ]
    for row, shares in found.items():
        cells = [_cell(shares[target]) if target in shares else "" for target in targets]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    totals = []
    for target in targets:
        own = [shares[target] for shares in found.values() if target in shares]
        totals.append(_share(own, "valid", "candidates"))
        if any("compiled" in item for item in own):
            totals[-1] += f", {_share(own, 'launchable', 'compiled')}"
    return "\n".join([*lines, "| **all** | " + " | ".join(totals) + " |", ""])


def _cell(share: dict[str, Any]) -> str:
    text = f"{share['valid']} of {share['candidates']}"
    return f"{text}, {share['launchable']} of {share['compiled']}" if "compiled" in share else text


def _share(shares: Sequence[dict[str, Any]], part: str, whole: str) -> str:
    return f"{sum(item.get(part, 0) for item in shares) / sum(item.get(whole, 0) for item in shares):.2%}"


if __name__ == "__main__":
    main()
