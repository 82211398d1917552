"""What the tests of rules for GPUs ask of a schedule: what it computes, in the emulation and in the interpreter, and how it looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ir import IRModule
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules import Schedule
from schedules.dlight import gpu_rules

TARGET = Target("nvidia/nvidia-a100")


def rule_of(func: PrimFunc) -> str:
    """The name of the first rule of the defaults that knows a function."""
    return next(type(rule).__name__ for rule in gpu_rules() if rule.apply(func, TARGET) is not None)


def kernels_of(mod: IRModule, target: Target = TARGET) -> list[str]:
    """The names of the kernels that a module becomes."""
    return list(generate(lower(mod, target)).kernels)


def assert_computes(
    mod: IRModule,
    cases: Sequence[tuple[Sequence[np.ndarray], np.ndarray]],
    target: Target = TARGET,
    tolerance: float = 1e-5,
) -> None:
    """A scheduled module computes results, relative to the largest one, from inputs: in the emulation, and the first ones in the
    interpreter, which looks for races and takes its time.
    """
    lowered = lower(mod, target)
    emulated = EmulatedProgram(lowered, generate(lowered))

    def interpreted(*arrays: np.ndarray) -> None:
        run(lowered, *arrays)

    ways: list[Callable[..., None]] = [emulated, interpreted]
    for number, (inputs, expected) in enumerate(cases):
        for way in ways if number == 0 else ways[:1]:
            found = np.full(expected.shape, 77, inputs[0].dtype)
            way(*inputs, found)
            np.testing.assert_allclose(
                found, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max())
            )


def assert_replays(sch: Schedule, func: PrimFunc) -> None:
    """The trace makes the same program of the function again."""
    assert sch.trace is not None
    again = Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert again.mod["main"].script() == sch.mod["main"].script()
