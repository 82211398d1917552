"""What tests of schedules share: structural comparison, refusals that change nothing, and programs run against each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import IRModule, assert_structural_equal
from ir.script import tir as T
from ir.tir import PrimFunc
from ir.tir.interpreter import Interpreter
from schedules import Schedule, ScheduleError, Trace


def main_of(program: Schedule | IRModule | PrimFunc) -> PrimFunc:
    """The function ``main`` of a schedule or module, or the function itself."""
    if isinstance(program, PrimFunc):
        return program
    mod = program.mod if isinstance(program, Schedule) else program
    return mod["main"]


def assert_program(sch: Schedule, expected: PrimFunc) -> None:
    """The scheduled function has the structure of ``expected``, names and attributes aside."""
    found = main_of(sch)
    assert_structural_equal(found.replace(attrs=None), expected.replace(attrs=None))


def assert_replays(sch: Schedule, original: PrimFunc) -> None:
    """The trace, through JSON, gives the same program to the letter."""
    assert sch.trace is not None
    again = Schedule(original)
    Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), again)
    assert again.mod.script() == sch.mod.script()
    assert again.trace is not None
    assert again.trace.as_json() == sch.trace.as_json()
    assert again.trace.as_python() == sch.trace.as_python()
    from_text = Schedule(original)
    exec("\n".join(sch.trace.as_python()), {"sch": from_text, "T": T})
    assert_structural_equal(from_text.mod, sch.mod)


def arrays_for(func: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    """Small integers in the shapes and dtypes of a function's parameters, so that any order of summation is exact."""
    generator = np.random.default_rng(seed)
    result = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = [int(extent.value) for extent in buffer.shape]
        result.append(generator.integers(-4, 5, size=shape).astype(buffer.dtype))
    return result


def outputs_of(func: PrimFunc, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """All parameters after a run of the interpreter."""
    copies = [item.copy() for item in arrays]
    Interpreter(IRModule({"main": func})).call(func, copies)
    return copies


def assert_same_meaning(before: PrimFunc, after: PrimFunc | Schedule, seed: int = 0) -> None:
    """Both functions compute the same from the same inputs."""
    arrays = arrays_for(before, seed)
    for expected, found in zip(outputs_of(before, arrays), outputs_of(main_of(after), arrays), strict=True):
        np.testing.assert_array_equal(found, expected)


def assert_refused(sch: Schedule, step: Callable[[], Any], *words: str) -> None:
    """The step raises a ScheduleError that contains the words, and leaves program and trace as they were."""
    assert sch.trace is not None
    before, steps = sch.mod.script(), _effects(sch)
    with pytest.raises(ScheduleError) as caught:
        step()
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert sch.mod.script() == before
    assert _effects(sch) == steps


def _effects(sch: Schedule) -> int:
    """How many instructions of the trace are more than a look at the program."""
    assert sch.trace is not None
    return sum(not inst.kind.is_pure for inst in sch.trace.insts)
