"""The check as the tuner applies it to a candidate that would be the best, in this process, on native code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ir import IRModule, structural_hash
from ir.tir import interpreter
from ir.tir.lower import lower
from runners.candidate import RunSettings, _time
from runners.checking import confirmed
from runners.evaluator import EvaluatorConfig
from runners.kernel import Kernel, pack_arguments
from runners.native import build_native, build_reference
from runners.reference_order import in_fast_order
from runners.verify import Reference, allowing, compute_reference, rounding_program
from runners.verify.rounding import format_of

TARGET = "cpu"
_SECONDS = 30.0
_SETTINGS = RunSettings(EvaluatorConfig(number=1, repeat=1, min_repeat_ms=20), _SECONDS, 3.5)


def reference_of(mod: IRModule) -> Reference:
    """The reference of an unscheduled program, as workers compute it."""

    return compute_reference(mod, _make_run)


def reference_for(kernel: Kernel, reference: Reference) -> Reference:
    """The reference with what a kernel may round otherwise, if it says that it does."""
    program = rounding_program(kernel.mod)
    return reference if program is None else _allowing(reference, program)


class _Allowed:
    """Mutants of one kernel share what they are allowed."""

    def __init__(self) -> None:
        self._known: tuple[Reference, int, Reference] | None = None

    def __call__(self, reference: Reference, program: Any) -> Reference:
        key = structural_hash(program)
        if self._known is None or self._known[0] is not reference or self._known[1] != key:
            self._known = reference, key, allowing(reference, program, _make_run)
        return self._known[2]


_allowing = _Allowed()


def _make_run(program: Any) -> Callable[[list[Any]], object]:
    kernel = build_reference(in_fast_order(program), TARGET)
    return lambda arguments: kernel(*arguments)


def refusal(kernel: Kernel, reference: Reference) -> str | None:
    """Why the check refuses a kernel; None when it accepts it."""
    reference = reference_for(kernel, reference)
    report = _time(kernel, reference, None, _SETTINGS)
    if report.message is not None:
        return report.message
    return confirmed(kernel, reference, _SECONDS)


def every_second_call_wrong(kernel: Kernel) -> Kernel:
    """A kernel whose every second call changes one element of its last argument."""
    calls = 0

    def call(*arguments: Any) -> None:
        nonlocal calls
        kernel.call(*arguments)
        calls += 1
        if calls % 2 == 0:
            flat = arguments[-1].reshape(-1)
            place = calls % flat.size
            flat[place] = 1 if flat[place] == 0 else 0

    return Kernel(kernel.mod, call)


_ULPS = 4.0


def same_in_the_interpreter(
    mod: IRModule, mutant: IRModule, reference: Reference, *, lowered: bool = False
) -> str:
    """What the interpreter says of two scheduled programs on all kinds of inputs.

    Args:
        mod: the right one.
        mutant: the other one.
        reference: of the kernel.
        lowered: take the other one with vectors in place of loops: its lanes do at once what iterations do one after the other, and
            where they exchange what they hold, nothing is lost.

    Returns:
        "equivalent" when all arguments end up with the same values, "same to rounding" when floats differ by some units in the last place
        of their dtype at most (a sum in another order, a softmax shifted by another number), else "accepted".
    """
    found = "equivalent"
    vectors = lower(mutant, TARGET) if lowered else mutant
    for case in reference.cases:
        results = []
        for program, run in ((mod, mod), (mutant, vectors)):
            arguments = [array.copy() for array in reference.prepare(case).arrays]
            arguments = pack_arguments(program, arguments)
            try:
                with np.errstate(all="ignore"):
                    interpreter.run(run, *arguments)
            except Exception:  # what the interpreter refuses has no meaning, and so no equal one
                return "accepted"
            results.append(arguments)
        for param, one, other in zip(reference.facts.params, *results):
            if "float" not in param.dtype:
                if not np.array_equal(one, other):
                    return "accepted"
                continue
            a, b = one.astype(np.float64), other.astype(np.float64)
            if np.array_equal(a, b, equal_nan=True):
                continue
            with np.errstate(all="ignore"):
                size = np.abs(a[np.isfinite(a)])
                scale = np.maximum(np.abs(a), size.mean() if size.size else 0.0)
                near = np.abs(a - b) <= 2 * _ULPS * format_of(param.dtype).unit * scale
            if not (near | (a == b) | (np.isnan(a) & np.isnan(b))).all():
                return "accepted"
            found = "same to rounding"
    return found


def built(mod: IRModule) -> Kernel:
    """Native code of a scheduled program."""
    return Kernel(mod, build_native(mod, TARGET))
