"""Random schedules: each primitive either is refused or leaves the meaning as it was, and a trace says all of it.

The programs are small kernels as script text, regular and irregular ones, kernels made of operators, the random TIR programs of
:mod:`experiments.fuzz.tir_programs`, and what :mod:`tests.programs.irregular` has: conditions and data around blocks, scans, updates in
place, several outputs.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ir import dtype as dt
from ir import structural_equal, tir
from ir.script import from_source
from ir.tir import interpreter
from ir.tir.function import PrimFunc
from runners.verify.instances import instances_of
from schedules import Schedule, Trace
from tests.programs.irregular import IRREGULAR

from .kernels import kernel
from .kernels_te import workload
from .oracle import Backwards, Guarded, Outcome, interpreted, run_native
from .schedules_steps import RefusalError, WiderStep, take_steps
from .tir_programs import tir_program
from .verdict import Verdict, crash, is_folded_divisor

_ORDERED = {"reduction that is no known one"}
"""Their reductions depend on the order of elements, which rule ``[reduce-order]`` leaves open."""
_SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])
_MOST_EXTENT = 5
"""The greatest number that a scalar parameter is given."""
_MOST_STORES = 1 << 20
"""Schedules that store more often, as those that compute again for each element what all of them read, run as native code alone: the
interpreter would take half a minute and more."""


@dataclass(frozen=True)
class Program:
    """What is scheduled, with arguments for it."""

    func: PrimFunc
    arguments: list[Any]
    tolerance: float = 0.0
    """How far results may differ, relative to the greatest, where sums are reordered."""


@dataclass(frozen=True)
class ScheduledKernel:
    """A program, what a random schedule made of it, and the schedule as JSON."""

    program: Program
    scheduled: PrimFunc
    trace: list[Any]
    counts: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """How often each primitive was (legal, or refused)."""


def program_of(generator: random.Random, seed: int) -> Program:
    """The program of a seed."""
    source = generator.random()
    if source < 0.15:
        irregular = IRREGULAR[generator.choice(sorted(IRREGULAR.keys() - _ORDERED))]
        return Program(irregular.func(), irregular.arrays(seed))
    if source < 0.6:
        func = from_source(kernel(generator))
        return Program(func, arguments_for(func, seed))
    if source < 0.9:
        made = workload(generator)
        return Program(made.func, made.arguments(seed, special=generator.random() < 0.3), made.tolerance)
    random_program = tir_program(seed, wrap=generator.random() < 0.5, plain_memory=True)
    if "T.block(" in random_program.text:
        return Program(from_source(random_program.text), random_program.arguments)
    func = from_source(kernel(generator))
    return Program(func, arguments_for(func, seed))


def scheduled_kernel(seed: int) -> ScheduledKernel:
    """The program and the schedule of a seed.

    Raises:
        RefusalError: a primitive refused and left something behind.
    """
    generator = random.Random(seed)
    return scheduled(program_of(generator, seed), generator, seed, WiderStep)


def scheduled(
    program: Program, generator: random.Random, seed: int, step: type[WiderStep]
) -> ScheduledKernel:
    """A random schedule of a program.

    Args:
        program: what is scheduled.
        generator: what says which steps are taken.
        seed: of the schedule's own decisions.
        step: what the steps are drawn from.

    Raises:
        RefusalError: a primitive refused and left something behind.
    """
    sch = Schedule(program.func, seed=seed, error_render_level="none")
    counts = take_steps(sch, generator, generator.randint(2, 12), step)
    found = sch.mod["main"]
    assert isinstance(found, PrimFunc) and sch.trace is not None
    return ScheduledKernel(program, found, sch.trace.as_json(), counts)


def trace_text(trace: list[Any]) -> str:
    """A trace in JSON form as Python."""
    return "\n".join(Trace.from_json(json.loads(json.dumps(trace))).as_python())


def arguments_for(func: PrimFunc, seed: int) -> list[Any]:
    """Small integers, so that sums of floats are exact in any order; for some seeds NaN and infinities, and all of an integer type; small
    extents for parameters that are numbers.
    """
    numbers = np.random.default_rng(seed)
    has_special, is_wide = numbers.random() < 0.25, numbers.random() < 0.3
    arguments: list[Any] = []
    for param in func.params:
        if param not in func.buffer_map:
            arguments.append(int(numbers.integers(0, _MOST_EXTENT, endpoint=True)))
            continue
        buffer = func.buffer_map[param]
        shape = [int(extent) for extent in buffer.shape]  # type: ignore[call-overload]
        array = numbers.integers(-3, 4, shape).astype(dt.to_numpy(buffer.dtype))
        if dt.is_float(buffer.dtype) and has_special:
            odd = numbers.choice(_SPECIAL, shape)
            array = np.where(numbers.random(shape) < 0.1, odd, array.astype("float64")).astype(array.dtype)
        elif buffer.dtype == "int8" and is_wide:
            array = numbers.integers(-128, 127, shape, dtype="int8", endpoint=True)
        arguments.append(array)
    return arguments


def judge_schedule(
    seed: int, targets: Sequence[str], made: Callable[[int], ScheduledKernel] = scheduled_kernel
) -> Verdict:
    """Whether a schedule computes what its program does, interpreted in both directions and compiled for some targets, and is replayed
    from JSON.

    Args:
        seed: what the schedule is drawn by.
        targets: names of targets to compile for.
        made: draws the program and the schedule of a seed.
    """
    try:
        found = made(seed)
    except RefusalError as error:
        return Verdict("a refusal changes the program", str(error), str(error).partition(" ")[0])
    except Exception as error:  # refusals are handled where steps are taken: any other error is a finding
        if is_folded_divisor(error):
            return Verdict("invalid", str(error))
        return crash("schedule", error)
    return judge_trace(found.program, found.trace, targets, found.scheduled)


def judge_trace(
    program: Program, trace: list[Any], targets: Sequence[str], scheduled: PrimFunc | None = None
) -> Verdict:
    """Whether a trace leaves the meaning of a program as it was.

    Args:
        program: what the trace belongs to.
        trace: as JSON.
        targets: names of targets to compile for.
        scheduled: what the schedule was when the trace was recorded, if it is known.
    """
    try:
        expected = interpreted(program.func, program.arguments)
        if not interpreted(program.func, program.arguments, Backwards).agrees(expected):
            return Verdict("invalid", "a race, or memory that is not initialized")
    except interpreter.InterpreterError as error:
        return Verdict("invalid", f"{type(error).__name__}: {error}")
    try:
        replayed = Schedule(program.func, error_render_level="none")
        Trace.apply_json_to_schedule(json.loads(json.dumps(trace)), replayed)
    except Exception as error:  # any error is a verdict
        return crash("replay", error)
    again = replayed.mod["main"]
    if scheduled is not None and not structural_equal(again, scheduled):
        return Verdict("replaying the trace gives another program")
    assert isinstance(again, PrimFunc)
    return _judge_scheduled(program, again, expected, targets)


def _judge_scheduled(
    program: Program, scheduled: PrimFunc, expected: Outcome, targets: Sequence[str]
) -> Verdict:
    has_threads = _has_threads(scheduled)  # which no native code has
    if has_threads or sum(item.runs for item in instances_of(scheduled.body)) <= _MOST_STORES:
        verdict = _judge_interpreted(program, scheduled, expected)
        if verdict.failed:
            return verdict
    for target in [] if has_threads else targets:
        verdict = _judge_native(program, scheduled, expected, target)
        if verdict.failed and _judge_native(program, program.func, expected, target).failed:
            return Verdict("native code is wrong without a schedule", str(verdict), target)
        if verdict.failed:
            return verdict
    return Verdict("ok")


def _judge_interpreted(program: Program, scheduled: PrimFunc, expected: Outcome) -> Verdict:
    try:
        forwards = interpreted(scheduled, program.arguments)
        backwards = interpreted(scheduled, program.arguments, Backwards)
    except interpreter.InterpreterError as error:
        is_race = error.rule == "parallel"
        return Verdict("the schedule has a race" if is_race else "the schedule is not defined", str(error))
    except Exception as error:  # the program itself could be interpreted
        return crash("the scheduled program, interpreted", error)
    if not agrees(forwards, expected, program.tolerance):
        return Verdict("the schedule is wrong")
    if not agrees(backwards, expected, program.tolerance):
        return Verdict("the schedule has a race")
    return Verdict("ok")


def _has_threads(func: PrimFunc) -> bool:
    """Whether loops are bound to threads, which processors do not have."""
    found: list[tir.For] = []

    def visit(node: object) -> None:
        if isinstance(node, tir.For) and node.kind == tir.ForKind.THREAD_BINDING:
            found.append(node)

    tir.post_order_visit(func.body, visit)
    return bool(found)


def _judge_native(program: Program, scheduled: PrimFunc, expected: Outcome, target: str) -> Verdict:
    guarded = [Guarded(value) if isinstance(value, np.ndarray) else value for value in program.arguments]
    try:
        found = run_native(scheduled, guarded, target)
    except Exception as error:  # whatever the compiler raises on a valid program is a finding
        return crash(target, error)
    if not agrees(found, expected, program.tolerance):
        return Verdict("wrong", target, target)
    if not all(value.intact for value in guarded if isinstance(value, Guarded)):
        return Verdict("wrote beside an array", target, target)
    return Verdict("ok")


def agrees(found: Outcome, expected: Outcome, tolerance: float) -> bool:
    """Whether results are equal, or differ by no more than a share of the greatest finite element."""
    if not tolerance:
        return found.agrees(expected)
    return found.calls == expected.calls and all(
        _is_close(a, b, tolerance) for a, b in zip(found.arguments, expected.arguments, strict=True)
    )


def _is_close(a: Any, b: Any, tolerance: float) -> bool:
    if not isinstance(a, np.ndarray) or not dt.is_float(str(a.dtype)):
        return bool(np.array_equal(a, b))
    wide_a, wide_b = a.astype("float64"), b.astype("float64")
    scale = np.abs(wide_b[np.isfinite(wide_b)]).max(initial=1e-30)
    return bool(np.allclose(wide_a, wide_b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
