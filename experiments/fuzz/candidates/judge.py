"""What candidates compute, compared with their kernel: interpreted it says what is right, and each candidate must say the same, interpreted
and compiled.

A seed is one candidate. Those of :data:`ROWS` seeds one after the other are of one design space, so that judged together they share
the kernel's meaning, its arguments, and one compilation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir import structural_equal
from ir.codegen.build import NativeModule, build
from ir.module import IRModule
from ir.node import post_order_visit
from ir.tir import interpreter
from ir.tir.function import PrimFunc
from ir.tir.kernel_attributes import LAYOUT_FREE_BUFFERS, LAYOUT_REWRITE_MAPS, WEIGHT_PROGRAMS
from ir.tir.lower import lower
from runners.kernel import pack_arguments
from schedules import Schedule, Trace
from schedules.layout_rewrite import split_module
from schedules.population import Extraction, Skeleton, Sketch

from ..oracle import Backwards, Guarded, Outcome, interpreted
from ..schedules import agrees
from ..verdict import Verdict, crash
from .programs import Pitched
from .spaces import Space, space_of

ROWS = 8
"""Candidates of a space."""
_MUTANTS = 0.3
"""Share of rows that are what a search makes of others."""
_TRIES = 4
_INTERPRETED = 3
"""Of the candidates that are compiled one in so many is interpreted too, which takes longer; of the others all are."""


@dataclass(frozen=True)
class Candidate:
    """A row of decisions and what became of it."""

    space: Space
    scheduled: Schedule
    accepted: bool
    """Whether the postprocessors take it; what they refuse is legal all the same."""
    different: str
    """What the arrays of a population say of the row that is not so in its program."""

    @property
    def trace(self) -> list[Any]:
        """The schedule as JSON."""
        assert self.scheduled.trace is not None
        return self.scheduled.trace.as_json()


# -- what a seed stands for --------------------------------------------------------
def rows_of(space: Space, seed: int) -> list[tuple[int, np.ndarray]]:
    """Up to :data:`ROWS` different candidates of a space: the numbers of their structures, and rows of decisions."""
    numbers = np.random.default_rng(seed)
    found: dict[tuple[int, bytes], tuple[int, np.ndarray]] = {}
    for _ in range(ROWS * _TRIES):
        chosen = int(numbers.integers(len(space.sketches)))
        sketch = space.sketches[chosen]
        rows = sketch.sample(1, numbers)
        if len(rows) and sketch.n_columns and numbers.random() < _MUTANTS:
            mutants = sketch.mutate(rows, numbers)
            rows = mutants[sketch.valid(mutants)]
        for row in rows:
            found[chosen, row.tobytes()] = (chosen, row)
        if len(found) == ROWS:
            break
    return list(found.values())


def candidates_of(
    space: Space, seed: int, positions: Iterable[int] = range(ROWS)
) -> dict[int, Candidate | Verdict]:
    """The candidates at some positions of a space; where making one fails, that."""
    rows = rows_of(space, seed)
    found: dict[int, Candidate | Verdict] = {}
    for position in positions:
        if position >= len(rows):
            found[position] = Verdict("none", "the space has no more candidates")
            continue
        number, row = rows[position]
        try:
            found[position] = _made(space, space.sketches[number], row)
        except Exception as error:  # a row that is valid must become a program
            found[position] = crash("materialize", error)
    return found


def _made(space: Space, sketch: Sketch, row: np.ndarray) -> Candidate:
    scheduled = sketch.materialize(space.func, row)
    name = scheduled.func_working_on
    assert name is not None
    expected = Extraction(scheduled._root(name)).evaluate({}, 1)
    different = _difference(sketch.skeleton(row[None]), expected)
    return Candidate(space, scheduled, space.generator.postprocess(scheduled, space.target), different)


def _difference(skeleton: Skeleton, expected: Skeleton) -> str:
    """What is different between a row's skeleton and that of its program; empty where nothing is.

    In the arrays a loop may be longer: what a tile reads is bounded while its factors are symbols, and known in the program.
    """
    if len(skeleton.nests) != len(expected.nests):
        return f"nests: {len(skeleton.nests)} in the arrays, {len(expected.nests)} in the program"
    for nest, other in zip(skeleton.nests, expected.nests, strict=True):
        extents, wanted = (
            [int(np.broadcast_to(loop.extent, 1)[0]) for loop in item.loops] for item in (nest, other)
        )
        if len(extents) != len(wanted) or any(a < b for a, b in zip(extents, wanted, strict=True)):
            return f"extents: {extents} in the arrays, {wanted} in the program"
    return ""


# -- verdicts ----------------------------------------------------------------------
@dataclass
class Kernel:
    """A candidate as what runs: weights that are packed when it is compiled are parameters."""

    func: PrimFunc
    space: Space

    def arguments(self) -> list[np.ndarray]:
        """The arguments of the program, with weights packed."""
        return pack_arguments(IRModule({"main": self.func}), list(self.space.program.arguments))

    def guarded(self) -> list[Guarded | Pitched]:
        """Copies of the arguments among memory that nobody may change."""
        pitches = self.space.program.pitches
        return [
            Pitched(item, pitches[i]) if i in pitches else Guarded(item)
            for i, item in enumerate(self.arguments())
        ]

    def judged(self, found: Sequence[Any], expected: Outcome, where: str) -> Verdict:
        """Whether arguments are after a call as they should be; packed weights are nobody's to write."""
        packed = {*self.func.attrs.get(LAYOUT_REWRITE_MAPS, {}), *self.func.attrs.get(WEIGHT_PROGRAMS, {})}
        seen = [expected.arguments[i] if i in packed else item for i, item in enumerate(found)]
        program = self.space.program
        if agrees(Outcome(seen, []), expected, program.tolerance):
            return Verdict("ok")
        return Verdict("wrong", f"{program.name} for {self.space.target}, {self.space.name}", where)


def judge_candidate(seed: int, target: str) -> Verdict:
    """What :func:`judge_candidates` says of one."""
    return judge_candidates([seed], target)[0]


def judge_candidates(seeds: Sequence[int], target: str) -> list[Verdict]:
    """Whether candidates can be made, have the features that their arrays say, and compute what their kernel does; one of them is
    replayed from JSON.

    Args:
        seeds: of one space, so with one ``seed // ROWS``.
        target: a name of :func:`~experiments.fuzz.candidates.spaces.target_names`.
    """
    (number,) = {seed // ROWS for seed in seeds}
    try:
        space = space_of(number, target)
    except Exception as error:  # any error is a verdict
        return [crash("design space", error)] * len(seeds)
    expected = _meaning(space)
    if isinstance(expected, Verdict):
        return [expected] * len(seeds)
    made = candidates_of(space, number, [seed % ROWS for seed in seeds])
    verdicts: dict[int, Verdict] = {}
    kernels: dict[int, Kernel] = {}
    for position, candidate in made.items():
        if isinstance(candidate, Verdict):
            verdicts[position] = candidate
            continue
        verdict = _judge_made(candidate, replay=position == number % ROWS)
        is_compiled = candidate.accepted and space.is_native
        kernel = _kernel(candidate.scheduled.mod, space)
        if not verdict.failed and (not is_compiled or (position + number) % _INTERPRETED == 0):
            by = Backwards if position % 2 else interpreter.Interpreter
            verdict = _judge_interpreted(kernel, expected, by)
        if not verdict.failed and is_compiled:
            kernels[position] = kernel
        verdicts[position] = verdict
    verdicts.update(_judge_native(kernels, expected))
    return [verdicts[seed % ROWS] for seed in seeds]


def _meaning(space: Space) -> Outcome | Verdict:
    """What the kernel does as it is: its loops are serial, so that one order says all."""
    func = space.func.without_attr(LAYOUT_FREE_BUFFERS)
    kernel = Kernel(func, space)
    try:
        return _interpreted(kernel, interpreter.Interpreter)
    except (interpreter.InterpreterError, ZeroDivisionError) as error:
        return Verdict("invalid", f"{type(error).__name__}: {error}")


def _interpreted(kernel: Kernel, by: type[interpreter.Interpreter]) -> Outcome:
    if _exchanges(kernel.func):  # what has a meaning in threads only: they are real ones in lowered kernels
        return interpreted(lower(kernel.func, kernel.space.target), kernel.arguments())
    if not kernel.space.program.pitches:
        return interpreted(kernel.func, kernel.arguments(), by)
    passed = [item.array for item in kernel.guarded()]
    by(None).call(kernel.func, passed)
    return Outcome(passed, [])


def _exchanges(func: PrimFunc) -> bool:
    """Whether threads hand values over to each other."""
    found: list[bool] = []
    post_order_visit(
        func.body,
        lambda node: found.append(
            getattr(getattr(node, "op", None), "name", "").startswith("tir.tvm_warp_shuffle")
        ),
    )
    return any(found)


def _kernel(mod: IRModule, space: Space) -> Kernel:
    func = split_module(mod)["main"]
    assert isinstance(func, PrimFunc)
    return Kernel(func, space)


def _judge_made(candidate: Candidate, replay: bool) -> Verdict:
    """Whether a candidate has the features that it should, and can be replayed."""
    if candidate.different:
        return Verdict("other features", candidate.different, candidate.different.partition(":")[0])
    return _judge_replay(candidate.space, candidate.trace, candidate.scheduled) if replay else Verdict("ok")


def _judge_interpreted(kernel: Kernel, expected: Outcome, by: type[interpreter.Interpreter]) -> Verdict:
    try:
        return kernel.judged(_interpreted(kernel, by).arguments, expected, "interpreted")
    except interpreter.InterpreterError as error:
        is_race = error.rule == "parallel"
        return Verdict("the candidate has a race" if is_race else "the candidate is not defined", str(error))
    except Exception as error:  # the kernel itself could be interpreted
        return crash("the candidate, interpreted", error)


def _judge_replay(space: Space, trace: list[Any], recorded: Schedule) -> Verdict:
    try:
        replayed = _replayed(space, trace)
    except Exception as error:  # any error is a verdict
        return crash("replay", error)
    if structural_equal(replayed.mod["main"], recorded.mod["main"]):
        return Verdict("ok")
    return Verdict("replaying the trace gives another program")


def _replayed(space: Space, trace: list[Any]) -> Schedule:
    replayed = Schedule(space.func, error_render_level="none")
    Trace.apply_json_to_schedule(json.loads(json.dumps(trace)), replayed)
    return replayed


def _judge_native(kernels: dict[int, Kernel], expected: Outcome) -> dict[int, Verdict]:
    """Verdicts on kernels of one space, compiled together; alone where that fails."""
    if not kernels:
        return {}
    functions = {
        f"main_{position}": kernel.func.with_attr("global_symbol", f"main_{position}")
        for position, kernel in kernels.items()
    }
    target = next(iter(kernels.values())).space.target
    try:
        native = build(IRModule(functions), target)
    except Exception as error:  # whatever the compiler raises on a valid program is a finding
        if len(kernels) == 1:
            return {position: crash("candidate", error) for position in kernels}
        return {
            key: verdict
            for item in kernels.items()
            for key, verdict in _judge_native(dict([item]), expected).items()
        }
    return {
        position: _judge_compiled(native, f"main_{position}", kernel, expected)
        for position, kernel in kernels.items()
    }


def _judge_compiled(native: NativeModule, name: str, kernel: Kernel, expected: Outcome) -> Verdict:
    guarded = kernel.guarded()
    try:
        native[name](*[item.array for item in guarded])
    except Exception as error:  # any error is a verdict
        return crash("candidate", error)
    verdict = kernel.judged([item.array for item in guarded], expected, str(kernel.space.target))
    if verdict.failed or all(item.intact for item in guarded):
        return verdict
    return Verdict("wrote beside an array", kernel.space.program.name, str(kernel.space.target))


def judge_trace(space: Space, trace: list[Any]) -> Verdict:
    """Whether a trace in JSON form makes a kernel of the space that computes what it should, interpreted and compiled."""
    expected = _meaning(space)
    if isinstance(expected, Verdict):
        return expected
    try:
        kernel = _kernel(_replayed(space, trace).mod, space)
    except Exception as error:  # any error is a verdict
        return crash("replay", error)
    for by in (interpreter.Interpreter, Backwards):
        verdict = _judge_interpreted(kernel, expected, by)
        if verdict.failed:
            return verdict
    return _judge_native({0: kernel}, expected)[0] if space.is_native else Verdict("ok")
