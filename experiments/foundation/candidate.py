"""What a candidate costs between its schedule and native code: lowering, code generation, LLVM."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ir import IRModule
from ir.codegen.build import compile_generated
from ir.codegen.llvm.codegen import generate
from ir.codegen.llvm.compile import options_of
from ir.target import Target
from ir.tir.lower import lower
from schedules.postproc import postprocess
from schedules.space import PostOrderApply

from ..operators import suite


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    """Result and milliseconds."""
    start = time.perf_counter()
    result = action()
    return result, (time.perf_counter() - start) * 1e3


def figures(rounds: int = 5) -> dict[str, tuple[float, str]]:
    """Median milliseconds of each stage over random candidates of some rows of the suite."""
    target = Target("cpu")
    rows = {
        "C2D": (1, 14, 14, 256, 256, 3, 1, 1),
        "CBR": (1, 28, 28, 128, 128, 3, 1, 1),
        "GMM": (1, 512, 512, 512),
        "SFM": (512, 512),
    }
    found: dict[str, tuple[float, str]] = {}
    for name, shape in rows.items():
        module = IRModule({"main": suite.workload(name, shape)})
        sketches, generator = PostOrderApply().generate_sketches(module, target), np.random.default_rng(0)
        stages: dict[str, list[float]] = {"lower": [], "generate": [], "LLVM": []}
        for _ in range(rounds):
            for sketch in sketches:
                candidate = sketch.materialize(module, sketch.sample(1, generator)[0])
                if not postprocess(candidate, target):
                    continue
                lowered, ms = timed(partial(lower, candidate.mod))
                stages["lower"].append(ms)
                generated, ms = timed(partial(generate, lowered))
                stages["generate"].append(ms)
                _, ms = timed(partial(compile_generated, generated, options_of(target)))
                stages["LLVM"].append(ms)
        for stage, times in stages.items():
            found[f"{stage} a candidate of {name}"] = float(np.median(times)), "ms"
    return found
