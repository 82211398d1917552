"""Random candidates of the design spaces: random workloads, random rows of the decisions of every structure, against the same kernel
without a schedule.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir import structural_equal
from ir.codegen.build import build
from ir.module import IRModule
from ir.target import Target
from ir.tir.function import PrimFunc
from schedules import Schedule, Trace
from schedules.layout_rewrite import MAPS_ATTRIBUTE, split_module
from schedules.population import Extraction, Skeleton, Sketch
from schedules.postproc import postprocess
from schedules.space import PostOrderApply

from .kernels_te import Workload, workload
from .oracle import TARGETS, Guarded, Outcome
from .schedules import agrees
from .verdict import Verdict, crash

DESCRIBED = {
    "sapphire rapids": "llvm -mcpu=sapphirerapids -num-cores 8",
    "cascade lake": "llvm -mcpu=cascadelake -num-cores 4",
}
"""Processors that this machine may not be: their candidates are made and not run."""

_ROWS = 3
_WORK = [60, 400, 4000, 20000]
"""Steps of a kernel: the small ones have extents that no tile fits."""


@dataclass(frozen=True)
class Space:
    """A workload and the structures of its design space for a target."""

    workload: Workload
    func: PrimFunc
    target: Target
    sketches: Sequence[Sketch]


@dataclass(frozen=True)
class Candidate:
    """A row of decisions, what became of it, and the schedule as JSON."""

    space: Space
    sketch: Sketch
    rows: np.ndarray
    position: int
    scheduled: Schedule
    accepted: bool
    """Whether the postprocessors take it."""
    trace: list[Any]


def space_of(seed: int, target: str) -> Space:
    """The design space of a seed; some weights are known when the kernel is compiled."""
    generator = random.Random(seed)
    made = workload(generator, generator.choice(_WORK))
    func = made.func
    if generator.random() < 0.3:
        func = func.with_attr("layout_free_buffers", [1] if len(func.params) > 2 else [0])
    description = {**TARGETS, **DESCRIBED}[target]
    chosen = Target(
        description if "-num-cores" in description or target == "cpu" else f"{description} -num-cores 2"
    )
    return Space(made, func, chosen, PostOrderApply().generate_sketches(func, chosen))


def candidates_of(space: Space, seed: int, rows: int = _ROWS) -> list[Candidate]:
    """Random candidates of a random structure."""
    numbers = np.random.default_rng(seed)
    sketch = space.sketches[int(numbers.integers(len(space.sketches)))]
    matrix = sketch.sample(rows, numbers)
    if len(matrix) and sketch.n_columns:
        mutants = sketch.mutate(matrix, numbers)
        matrix = np.concatenate([matrix, mutants[sketch.valid(mutants)]])[: rows + 1]
    found = []
    for position, row in enumerate(matrix):
        scheduled = sketch.materialize(space.func, row)
        accepted = postprocess(scheduled, space.target)
        assert scheduled.trace is not None
        found.append(
            Candidate(space, sketch, matrix, position, scheduled, accepted, scheduled.trace.as_json())
        )
    return found


def judge_candidates(seed: int, target: str) -> Verdict:
    """Whether random candidates of a seed's workload can be made, have the features that their arrays say, are replayed from JSON, and
    compute what the kernel without a schedule does.
    """
    try:
        space = space_of(seed, target)
    except Exception as error:  # any error is a verdict
        return crash("design space", error)
    try:
        candidates = candidates_of(space, seed)
    except Exception as error:  # a row that is valid must become a program
        return crash("materialize", error)
    arguments = space.workload.arguments(seed, special=seed % 4 == 0)
    expected: Outcome | None = None
    for candidate in candidates:
        try:
            verdict = _judge_features(candidate)
        except Exception as error:  # any error is a verdict
            return crash("features", error)
        if verdict.failed or not candidate.accepted:
            return verdict
        if target in DESCRIBED:
            continue
        if expected is None:
            try:
                expected = _unscheduled(space, arguments)
            except Exception as error:  # any error is a verdict
                return crash("without a schedule", error)
        verdict = judge_candidate_trace(space, candidate.trace, arguments, expected, candidate.scheduled)
        if verdict.failed:
            return verdict
    return Verdict("ok")


def _judge_features(candidate: Candidate) -> Verdict:
    """Whether the arrays of a population say of a row what is so in its program."""
    sketch, space = candidate.sketch, candidate.space
    skeleton = sketch.skeleton(candidate.rows)
    alone = sketch.materialize(space.func, candidate.rows[candidate.position])
    name = alone.func_working_on
    assert name is not None
    expected = Extraction(alone._root(name)).evaluate({}, 1)
    different = _difference(skeleton, candidate.position, expected)
    return Verdict("other features", different, different.partition(":")[0]) if different else Verdict("ok")


def _difference(skeleton: Skeleton, position: int, expected: Skeleton) -> str:
    """What is different between a row's skeleton and that of its program; empty where nothing is."""
    if len(skeleton.nests) != len(expected.nests):
        return f"nests: {len(skeleton.nests)} in the arrays, {len(expected.nests)} in the program"
    for nest, other in zip(skeleton.nests, expected.nests, strict=True):
        extents = [int(np.broadcast_to(loop.extent, skeleton.size)[position]) for loop in nest.loops]
        wanted = [int(np.broadcast_to(loop.extent, 1)[0]) for loop in other.loops]
        if extents != wanted:
            return f"extents: {extents} in the arrays, {wanted} in the program"
    return ""


def _unscheduled(space: Space, arguments: Sequence[Any]) -> Outcome:
    """What the kernel does as it is, compiled."""
    passed = [value.copy() for value in arguments]
    func = space.func.without_attr("layout_free_buffers")
    build(func.with_attr("global_symbol", "main"), "cpu")["main"](*passed)
    return Outcome(passed, [])


def judge_candidate_trace(
    space: Space,
    trace: list[Any],
    arguments: Sequence[np.ndarray],
    expected: Outcome | None = None,
    recorded: Schedule | None = None,
) -> Verdict:
    """Whether a trace, replayed from JSON, makes a kernel that computes what is expected.

    Args:
        space: what the trace belongs to.
        trace: as JSON.
        arguments: for the kernel.
        expected: what the kernel does without a schedule; computed where it is not given.
        recorded: the schedule of which the trace was recorded.
    """
    wanted = _unscheduled(space, arguments) if expected is None else expected
    try:
        replayed = Schedule(space.func, error_render_level="none")
        Trace.apply_json_to_schedule(json.loads(json.dumps(trace)), replayed)
    except Exception as error:  # any error is a verdict
        return crash("replay", error)
    if recorded is not None and not structural_equal(replayed.mod["main"], recorded.mod["main"]):
        return Verdict("replaying the trace gives another program")
    kernel = split_module(replayed.mod)["main"]
    assert isinstance(kernel, PrimFunc)
    maps = kernel.attrs.get(MAPS_ATTRIBUTE, {})
    packed = [maps[i].map_ndarray(item) if i in maps else item for i, item in enumerate(arguments)]
    guarded = [Guarded(item) for item in packed]
    try:
        build(IRModule({"main": kernel.with_attr("global_symbol", "main")}), space.target)["main"](
            *[item.array for item in guarded]
        )
    except Exception as error:  # any error is a verdict
        return crash("candidate", error)
    found = [
        wanted.arguments[i] if i in maps else item.array for i, item in enumerate(guarded)
    ]  # packed weights are nobody's to write
    if not agrees(Outcome(found, []), wanted, space.workload.tolerance):
        return Verdict("wrong", space.workload.name, str(space.target))
    if not all(item.intact for item in guarded):
        return Verdict("wrote beside an array", space.workload.name, str(space.target))
    return Verdict("ok")
