"""Random schedules of small kernels: each primitive either is refused or leaves the meaning as it was."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.script import from_source
from ir.tir.function import PrimFunc
from schedules import Schedule, ScheduleError
from tests.schedules.random_steps import Step

from .kernels import kernel
from .oracle import Backwards, interpreted, judge_native
from .verdict import Verdict, crash

_OFTEN = ["split", "compute_at", "reverse_compute_at", "vectorize last", "vectorize last", "split"]
"""Primitives that are drawn once more for each time they are named here, for others build on them."""


class WiderStep(Step):
    """The steps of the tests, and those that only code generation tells apart."""

    def actions(self) -> dict[str, Callable[[], Any]]:
        pick = self.random.choice
        return {
            **super().actions(),
            "unroll": lambda: self.sch.unroll(self.loop()),
            "vectorize last": lambda: [self.sch.vectorize(loop) for loop in self.loops[-1:]],
            "parallel first": lambda: [self.sch.parallel(loop) for loop in self.loops[:1]],
            "unroll pragma": lambda: self.sch.annotate(
                self.loop(), "pragma_auto_unroll_max_step", pick([4, 16, 64])
            ),
            "set_scope": lambda: self.sch.set_scope(self.name, 0, pick(["local", "global", "shared"])),
            "storage_align": lambda: self.sch.storage_align(self.name, 0, -2, 8, 3),
        }

    def run(self) -> None:
        """One primitive, or none where it is refused."""
        actions = self.actions()
        with contextlib.suppress(ScheduleError):
            actions[self.random.choice([*sorted(actions), *_OFTEN])]()


@dataclass(frozen=True)
class ScheduledKernel:
    """A kernel, what a random schedule made of it, and arguments for both."""

    kernel: PrimFunc
    scheduled: PrimFunc
    arguments: list[np.ndarray]


def scheduled_kernel(seed: int) -> ScheduledKernel:
    """The kernel and the schedule of a seed."""
    generator = random.Random(seed)
    func = from_source(kernel(generator))
    sch = Schedule(func, seed=seed, error_render_level="none")
    for _ in range(generator.randint(2, 9)):
        WiderStep(sch, generator).run()
    scheduled = sch.mod["main"]
    assert isinstance(scheduled, PrimFunc)
    return ScheduledKernel(func, scheduled, _arguments(func, seed))


def _arguments(func: PrimFunc, seed: int) -> list[np.ndarray]:
    """Small integers, so that sums of floats are exact in any order."""
    numbers = np.random.default_rng(seed)
    arrays = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = [int(extent) for extent in buffer.shape]  # type: ignore[call-overload]
        arrays.append(numbers.integers(-3, 4, shape).astype(dt.to_numpy(buffer.dtype)))
    return arrays


def judge_schedule(seed: int, targets: list[str]) -> Verdict:
    """Whether a schedule computes what its kernel does, interpreted in both directions and compiled for some targets."""
    try:
        found = scheduled_kernel(seed)
    except Exception as error:  # refusals are handled where steps are taken: what gets here is a finding
        return crash("schedule", error)
    expected = interpreted(found.kernel, found.arguments)
    try:
        forwards = interpreted(found.scheduled, found.arguments)
        backwards = interpreted(found.scheduled, found.arguments, Backwards)
    except Exception as error:  # the kernel itself could be interpreted
        return crash("the scheduled kernel, interpreted", error)
    if not forwards.agrees(expected):
        return Verdict("the schedule is wrong")
    if not backwards.agrees(expected):
        return Verdict("the schedule has a race")
    for target in targets:
        verdict = judge_native(found.scheduled, found.arguments, expected, target)
        if verdict.failed:
            return verdict
    return Verdict("ok")
