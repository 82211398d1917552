"""Candidates of every operator of both suites as CUDA kernels: `python -m experiments.cuda.coverage`.

Random candidates of all structures at small shapes are lowered and printed, compiled by NVRTC for some architectures, and run twice
without a GPU: as C++ in the emulation, and lowered in the interpreter, which looks for races. What they compute is compared with the
operator's reference, bit by bit where it is made of integers. With ``--default`` there is one candidate: the schedule of builds without
records, which is also compiled at the shapes of the suites.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
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
from schedules.population.sketch import Sketch
from schedules.postproc import postprocess
from schedules.space import PostOrderApply

from ..operators import suite, tensor_core_products
from ..operators.small_shapes import SMALL

TENSOR_CORES = ("int8_product", "bfloat16_product", *tensor_core_products.WORKLOADS)
"""Products that tensor cores multiply."""
_ROOMY: dict[str, tuple[int, ...]] = {
    "C1D": (1, 32, 8, 16, 3, 2, 1), "GRP": (1, 6, 6, 16, 32, 3, 2, 1, 1, 4), "gelu": (24, 96),
    "argmax": (8, 300), "cumsum": (8, 300), "topk": (4, 300, 5), "sort": (4, 300),
    "take": (36, 32, 40), "embedding": (36, 32, 40), "gather": (16, 64, 40), "scatter_add": (28, 32, 36),
    "transpose": (40, 48), "nchw_to_nhwc": (1, 32, 8, 12), "nhwc_to_nchw": (1, 8, 12, 32), "concat": (32, 24, 40), "matvec": (64, 128),
}  # fmt: skip
"""Where the shapes of other tests have next to no schedules."""
SHAPES = {**SMALL, **_ROOMY, **dict.fromkeys(TENSOR_CORES, (32, 48, 64))}
"""Small ones, of which tiles of tensor cores are whole parts where there are any."""
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
    for place, rows in _rows_of(sketches, count, generator).items():
        for row in rows:
            sketch = sketches[place]
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


def _rows_of(
    sketches: Sequence[Sketch], count: int, generator: np.random.Generator
) -> dict[int, list[np.ndarray]]:
    """Different random rows, of each sketch as many where it has so many, until there are enough or no new ones are found."""
    found: dict[int, dict[bytes, np.ndarray]] = {place: {} for place in range(len(sketches))}
    open_ones = list(found)
    while open_ones and (left := count - sum(map(len, found.values()))) > 0:
        share = -(-left // len(open_ones))
        for place in list(open_ones):
            known = len(found[place])
            for row in sketches[place].sample(4 * share, generator):
                if len(found[place]) < known + share:
                    found[place].setdefault(row.tobytes(), row)
            if len(found[place]) == known:
                open_ones.remove(place)
    return {place: list(rows.values()) for place, rows in found.items()}


def is_right(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether a result is the reference's, up to the rounding of its dtype."""
    if np.issubdtype(found.dtype, np.integer) or found.dtype == bool:
        return bool(np.array_equal(found, expected))
    wide, reference = found.astype("float64"), expected.astype("float64")
    largest = max(1.0, float(np.abs(reference).max(initial=0.0)))
    return bool(np.all(np.abs(wide - reference) <= TOLERANCE[str(found.dtype)] * largest))


class Computed:
    """What the candidates of one operator compute, each of them run once, for whatever architectures it is compiled.

    Args:
        name: of the operator.
    """

    def __init__(self, name: str) -> None:
        self._shape, self._name = SHAPES[name], name
        self._inputs = suite.inputs(name, self._shape)
        self._expected = suite.reference(name, self._inputs, self._shape)
        self._found: dict[tuple[str, str], dict[str, Exception | str | None]] = {}

    def of(self, lowered: IRModule, source: CudaSource) -> dict[str, Exception | str | None]:
        """What is wrong with it, by the stage that ran it: nothing, or an error."""
        key = (source.text, str(source.launches))
        if key not in self._found:
            self._found[key] = {
                "emulation": self._fault(EmulatedProgram, lowered, source),
                "interpreter": self._fault(_interpreted, lowered),
            }
        return self._found[key]

    def _fault(self, make: Any, *what: Any) -> Exception | str | None:
        out = np.zeros(
            suite.output_shape(self._name, self._shape), suite.output_dtype(self._name, self._shape)
        )
        try:
            make(*what)(*self._inputs, out)
        except IRError as error:
            return error
        return None if is_right(out, self._expected) else "wrong numbers"


class Judge:
    """Compiles and runs the candidates of one operator for one target.

    Args:
        computed: what its candidates compute.
        counts: where outcomes are added up.
    """

    def __init__(self, computed: Computed, counts: Counts) -> None:
        self._computed, self._counts = computed, counts
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
        faults = self._computed.of(lowered, source)
        self._counts.emulated += faults["emulation"] is None
        self._counts.interpreted += faults["interpreter"] is None
        for stage, fault in faults.items():
            if fault is not None:
                self._counts.fail(stage, fault)

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
        self._counts.spilled += sum(bool(item.spill_store_bytes) for item in code.resources.values())


def _interpreted(lowered: IRModule) -> Callable[..., None]:
    """A lowered program in the interpreter, its kernels included."""
    return partial(run, lowered)


def cover(name: str, target: Target, count: int, computed: Computed, seed: int = 0) -> Counts:
    """What becomes of some candidates of an operator."""
    counts = Counts()
    judge = Judge(computed, counts)
    for module in candidates(name, target, count, seed, counts):
        judge.judge(module, target)
    return counts


def cover_default(name: str, target: Target, computed: Computed, at_suite_shapes: bool = True) -> Counts:
    """What becomes of an operator's default schedule at its small shape and, compiled only, at those of the suite."""
    counts = Counts()
    judge = Judge(computed, counts)
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
        row = suite.find(name).name
        computed = Computed(row)
        for target in args.target or TARGETS:
            counts = (
                cover_default(row, Target(target), computed)
                if args.default
                else cover(row, Target(target), args.count, computed)
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
