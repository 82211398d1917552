"""Candidates of every operator of both suites as CUDA kernels: `python -m experiments.cuda.coverage`.

Random candidates of all structures at small shapes are lowered and printed, compiled by NVRTC for some architectures, and run twice
without a GPU: as C++ in the emulation, and lowered in the interpreter, which looks for races. What they compute is compared with the
operator's reference, bit by bit where it is made of integers. With ``--default`` there is one candidate: the schedule of builds without
records, which is also compiled at the shapes of the suites.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ir import IRModule
from ir.codegen.cuda.codegen import CudaSource, generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.error import IRError
from ir.target import Target
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules import ScheduleError
from schedules.dlight import default_schedule
from schedules.postproc import postprocess
from schedules.space import PostOrderApply

from ..operators import suite
from ..operators.small_shapes import SMALL

SHAPES = {**SMALL, "int8_product": (32, 48, 64), "bfloat16_product": (32, 48, 64)}
"""Small ones, of which tiles of tensor cores are whole parts."""
TARGETS = ("nvidia/nvidia-t4", "nvidia/nvidia-a100", "nvidia/geforce-rtx-4090", "nvidia/nvidia-h200")
"""One of each of the architectures sm_75, sm_80, sm_89, sm_90a."""
RESULTS = Path(__file__).parent.parent / "results"
TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2, "float16": 2e-3}
"""Of results, relative to the largest one, by dtype; integers are exact."""


@dataclass
class Counts:
    """What became of the candidates of one operator for one target."""

    candidates: int = 0
    refused: int = 0
    """By the target's postprocessors."""
    sources: int = 0
    """Different ones, of which each is compiled once."""
    compiled: int = 0
    warnings: int = 0
    tensor_cores: int = 0
    """Compiled sources that multiply on tensor cores."""
    asynchronous: int = 0
    """Compiled sources that copy to shared memory without waiting."""
    spilled: int = 0
    """Kernels that keep registers in memory."""
    emulated: int = 0
    """Sources that compute the right numbers in the emulation."""
    interpreted: int = 0
    """Sources whose lowered programs do so in the interpreter, without races."""
    failures: list[str] = field(default_factory=list)

    def fail(self, stage: str, error: Exception | str) -> None:
        """Note what went wrong, once for each kind."""
        text = f"{stage}: {type(error).__name__ if isinstance(error, Exception) else ''} {str(error)[:200]}"
        if text not in self.failures:
            self.failures.append(text)


def candidates(name: str, target: Target, count: int, seed: int, counts: Counts) -> Iterator[IRModule]:
    """Random valid candidates of all structures of an operator."""
    module = IRModule({"main": suite.workload(name, SHAPES[name])})
    generator = np.random.default_rng(seed)
    sketches = PostOrderApply().generate_sketches(module, target)
    for sketch in sketches:
        for row in np.unique(sketch.sample(-(-count // len(sketches)), generator), axis=0):
            counts.candidates += 1
            try:
                schedule = sketch.materialize(module, row)
                is_valid = postprocess(schedule, target)
            except ScheduleError as error:
                counts.fail("schedule", error)
                is_valid = False
            if is_valid:
                yield schedule.mod
            else:
                counts.refused += 1


def is_right(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether a result is the reference's, up to the rounding of its dtype."""
    if np.issubdtype(found.dtype, np.integer) or found.dtype == bool:
        return bool(np.array_equal(found, expected))
    wide, reference = found.astype("float64"), expected.astype("float64")
    largest = max(1.0, float(np.abs(reference).max(initial=0.0)))
    return bool(np.all(np.abs(wide - reference) <= TOLERANCE[str(found.dtype)] * largest))


class Judge:
    """Compiles and runs the candidates of one operator.

    Args:
        name: of the operator.
        counts: where outcomes are added up.
    """

    def __init__(self, name: str, counts: Counts) -> None:
        self._counts, self._shape, self._name = counts, SHAPES[name], name
        self._inputs = suite.inputs(name, self._shape)
        self._expected = suite.reference(name, self._inputs, self._shape)
        self._seen: set[str] = set()

    def judge(self, module: IRModule, target: Target, runs: bool = True) -> None:
        """Count what becomes of a candidate; it is compiled, and run unless it is said not to be."""
        try:
            lowered = lower(module, target)
            source = generate(lowered)
        except IRError as error:
            self._counts.fail("lower", error)
            return
        if source.text in self._seen:
            return
        self._seen.add(source.text)
        self._counts.sources += 1
        self._compile(source, str(target.attrs["arch"]))
        if not runs:
            return
        self._counts.emulated += self._is_computed("emulation", EmulatedProgram, lowered, source)
        self._counts.interpreted += self._is_computed("interpreter", _interpreted, lowered)

    def _compile(self, source: CudaSource, arch: str) -> None:
        try:
            code = compile_cuda(source.text, arch)
        except IRError as error:
            self._counts.fail("NVRTC", error)
            return
        self._counts.compiled += 1
        self._counts.warnings += bool(code.warnings)
        self._counts.tensor_cores += "mma.sync" in code.ptx
        self._counts.asynchronous += "cp.async" in code.ptx
        for warning in code.warnings:
            self._counts.fail("warning", warning.message)
        self._counts.spilled += sum(item.spill_store_bytes > 0 for item in code.resources.values())

    def _is_computed(self, stage: str, make: Any, *what: Any) -> bool:
        out = np.zeros(
            suite.output_shape(self._name, self._shape), suite.output_dtype(self._name, self._shape)
        )
        try:
            make(*what)(*self._inputs, out)
        except IRError as error:
            self._counts.fail(stage, error)
            return False
        if not is_right(out, self._expected):
            self._counts.fail(stage, "wrong numbers")
            return False
        return True


def _interpreted(lowered: IRModule) -> Callable[..., None]:
    """A lowered program in the interpreter, its kernels included."""
    return partial(run, lowered)


def cover(name: str, target: Target, count: int, seed: int = 0) -> Counts:
    """What becomes of some candidates of an operator."""
    counts = Counts()
    judge = Judge(name, counts)
    for module in candidates(name, target, count, seed, counts):
        judge.judge(module, target)
    return counts


def cover_default(name: str, target: Target, at_suite_shapes: bool = True) -> Counts:
    """What becomes of an operator's default schedule at its small shape and, compiled only, at those of the suite."""
    counts = Counts()
    judge = Judge(name, counts)
    for shape in (SHAPES[name], *(suite.find(name).shapes if at_suite_shapes else ())):
        counts.candidates += 1
        try:
            schedule = default_schedule(suite.workload(name, shape), target)
        except ScheduleError as error:
            counts.fail("schedule", error)
            counts.refused += 1
            continue
        judge.judge(schedule.mod, target, runs=shape == SHAPES[name])
    return counts


def main() -> None:
    """Prints a line per operator and target, and writes experiments/results/cuda_coverage.{json,md}, or cuda_default.{json,md}."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="operators of the suites; all of them by default")
    parser.add_argument("--target", action="append", help=f"by default {', '.join(TARGETS)}")
    parser.add_argument(
        "--count", type=int, default=50, help="candidates per operator and target (default 50)"
    )
    parser.add_argument("--default", action="store_true", help="the schedule of builds without records")
    args = parser.parse_args()
    path = RESULTS / ("cuda_default.json" if args.default else "cuda_coverage.json")
    text = _DEFAULT if args.default else _RANDOM
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(path.read_text()) if path.exists() else {}
    for name in args.rows or suite.WORKLOADS:
        for target in args.target or TARGETS:
            row = suite.find(name).name
            counts = (
                cover_default(row, Target(target)) if args.default else cover(row, Target(target), args.count)
            )
            found.setdefault(row, {})[target] = asdict(counts)
            print(f"{name:18s} {target:26s} {_line(asdict(counts))}", flush=True)
        path.write_text(json.dumps(found, indent=1) + "\n")
        path.with_suffix(".md").write_text(_page(found, text))


_COLUMNS = (
    "candidates", "refused", "sources", "compiled", "warnings", "tensor_cores", "asynchronous", "spilled", "emulated", "interpreted",
)  # fmt: skip


def _line(counts: dict[str, Any]) -> str:
    return ", ".join(f"{counts[key]} {key}" for key in _COLUMNS) + "".join(
        f"\n    {item}" for item in counts["failures"]
    )


_RANDOM = [
    "# Candidates as CUDA kernels",
    "",
    "Random candidates of every operator of both suites at small shapes, compiled by NVRTC and run without a GPU; of the different"
    " sources how many compile (with warnings, with registers kept in memory), and compute the right numbers in the emulation and in"
    " the interpreter. `python -m experiments.cuda.coverage` writes this page.",
]
_DEFAULT = [
    "# Default schedules as CUDA kernels",
    "",
    "The schedule that a build without records has of every operator of both suites: at a small shape compiled by NVRTC and run without a"
    " GPU, at the shapes of the suites compiled; of the different sources how many compile (with warnings, with registers kept in"
    " memory), and whether that of the small shape computes the right numbers in the emulation and in the interpreter."
    " `python -m experiments.cuda.coverage --default` writes this page.",
]


def _page(found: dict[str, dict[str, dict[str, Any]]], text: list[str]) -> str:
    lines = [
        *text,
        "",
        "| operator | target | " + " | ".join(_COLUMNS) + " |",
        "|---|---|" + "---:|" * len(_COLUMNS),
    ]
    totals = dict.fromkeys(_COLUMNS, 0)
    for name, targets in found.items():
        for target, counts in targets.items():
            lines.append(
                f"| {name} | {target} | " + " | ".join(str(counts.get(key, 0)) for key in _COLUMNS) + " |"
            )
            for key in _COLUMNS:
                totals[key] += counts.get(key, 0)
    lines.append("| all | | " + " | ".join(str(totals[key]) for key in _COLUMNS) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
