"""How far a build's outputs may be from another runtime's, and whether they are.

Runtimes round in other orders, so outputs agree up to a tolerance that depends on the narrowest number format in the model. Where
they differ by more, that alone does not say who is wrong: a float64 run of the model decides (:mod:`.float64_reference`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from runners import Executable

from ..error import TunerError

TOLERANCES = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 5e-2,
    "float8_e4m3fn": 0.25,
    "float8_e5m2": 0.25,
    "int8": 2e-2,
    "uint8": 2e-2,
}
"""Relative error, of the largest magnitude of each output, that a model with numbers of a format must keep: about ten units in
the last place of narrow floats, and two or three steps of quantised values, each of which may be rounded the other way."""

_EXACT = frozenset({"bool", "int32", "uint32", "int64", "uint64"})
"""Formats of indices, counts and conditions, which are right or wrong: the index behind the right one is another thing."""

_ROUNDINGS = 2.0
"""How many times as far as the other runtime a build may be from the float64 run."""


def tolerance_for(dtypes: Iterable[str]) -> float:
    """The tolerance of a model with numbers of these formats; formats without roundings count for nothing.

    >>> tolerance_for(["int64", "float16", "float32"]), tolerance_for(["int64"])
    (0.01, 0.0001)
    """
    return max((TOLERANCES[name] for name in dtypes if name in TOLERANCES), default=TOLERANCES["float32"])


def formats_of(executable: Executable, outputs: Iterable[np.ndarray]) -> set[str]:
    """The number formats of a built model: of its weights, of the inputs of ``main``, and of these outputs."""
    params = executable.signature("main")["params"]
    arrays = (*executable.constants, *outputs)
    return {array.dtype.name for array in arrays} | {str(param.get("dtype")) for param in params}


def require_tolerance(tolerance: float | None) -> None:
    """Refuse a tolerance that is no relative error.

    Raises:
        TunerError: it is negative, infinite, or no number.
    """
    if tolerance is not None and not (0 <= tolerance < math.inf):
        raise TunerError(
            f"--tolerance {tolerance:g} is no relative error; give a number from 0 on, such as 0.001"
        )


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Largest difference over the largest finite magnitude of what was wanted.

    NaN agrees with NaN, and infinity with infinity of the same sign; where only one of both is NaN, or infinite, the error is infinite.
    Indices and conditions (whole numbers of 32 and 64 bits, and bool) that differ at all have an error of at least 1.
    """
    if found.shape != wanted.shape:
        return math.inf
    if not wanted.size:
        return 0.0
    least = 0.0
    if wanted.dtype.name in _EXACT:
        if np.array_equal(found, wanted):  # float64 does not tell all of them apart
            return 0.0
        least = 1.0
    ours, theirs = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(ours) & np.isfinite(theirs)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    if not (finite | same).all():
        return math.inf
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(theirs[finite]).max()), 1e-30)
    return max(least, float(np.abs(ours[finite] - theirs[finite]).max() / scale))


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far outputs are from another runtime's, and both from the float64 run where that was needed."""

    errors: tuple[float, ...]
    """Relative error of each output."""
    tolerance: float
    in_float64: tuple[tuple[float, float], ...] = ()
    """Relative errors of each output against the float64 run: of the build, and of the other runtime."""

    @property
    def error(self) -> float:
        """The largest of all outputs."""
        return max(self.errors, default=0.0)

    @property
    def holds(self) -> bool:
        """Whether each output is within the tolerance, or about as close to the float64 run as the other runtime's."""
        if self.error <= self.tolerance:
            return True
        return bool(self.in_float64) and all(
            ours <= max(self.tolerance, _ROUNDINGS * theirs) for ours, theirs in self.in_float64
        )

    def lines(self, other: str) -> list[str]:
        """What is to be said of each output, in sentences; ``other`` is the other runtime's name."""
        found = [
            f"output {number} against {other}: relative error {error:.2e}"
            for number, error in enumerate(self.errors)
        ]
        found += [
            f"output {number} against a float64 run: relative error {ours:.2e}, that of {other} {theirs:.2e}"
            for number, (ours, theirs) in enumerate(self.in_float64)
        ]
        return found

    def refusal(self, other: str) -> str:
        """What is to be said where it does not hold."""
        text = f"outputs differ from {other}'s by {self.error:.2e}, more than {self.tolerance:g}"
        if self.in_float64:
            return f"{text}, and are further from a float64 run of the model than {other}'s are"
        return text


def compare_outputs(
    found: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    tolerance: float,
    in_float64: Callable[[], Sequence[np.ndarray] | None],
) -> Accuracy:
    """Compare a build's outputs with another runtime's.

    Args:
        found: of the build.
        wanted: of the other runtime, as many.
        tolerance: relative error up to which they agree.
        in_float64: runs the model in float64, which takes long, and gives None where it cannot; called where they do not agree.
    """
    errors = tuple(map(relative_error, found, wanted))
    if max(errors, default=0.0) <= tolerance:
        return Accuracy(errors, tolerance)
    exact = in_float64()
    if exact is None or len(exact) != len(found):
        return Accuracy(errors, tolerance)
    both = zip(found, wanted, exact, strict=True)
    return Accuracy(
        errors,
        tolerance,
        tuple((relative_error(ours, right), relative_error(theirs, right)) for ours, theirs, right in both),
    )
