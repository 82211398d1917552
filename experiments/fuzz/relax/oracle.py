"""What a Relax module computes, and whether native code computes the same.

The reference evaluator says it (:mod:`ir.relax.testing.evaluate`): operators by their numpy references, kernels by the TIR interpreter, one
binding at a time. How far right results may be from that is measured and not guessed: the evaluator runs again with every float that is not
exact moved by a few units in its last place, and results may differ by a multiple of what that changes. So an ill-conditioned
program is not called wrong, and a program of small integers has to be right to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import runners
from ir import relax as rx
from ir.error import IRError
from ir.module import IRModule
from ir.op import Op
from ir.relax.analysis import check_well_formed
from ir.relax.testing.evaluate import Evaluator
from ir.relax.testing.values import received, returned
from ir.script import from_source

from ..oracle import TARGETS, Guarded
from ..verdict import Verdict, crash
from .arguments import arguments
from .effects import Event, recorded

_NOISY_RUNS = 2
_FACTOR = 16.0
"""How many times what the noise changes a result may differ."""

_UNITS = {"float64": 2.0**-36, "float32": 2.0**-20, "float16": 2.0**-9, "bfloat16": 2.0**-6}
"""The relative size of the noise: some units in the last place, for polynomials stand for functions."""

_CANCELLATION = 0.125
"""The share of an operand's magnitude whose last place may be lost inside of an operator: 1 + tanh(x) for a large negative x."""

_EXACT_BITS = {"float64": 50, "float32": 23, "float16": 10, "bfloat16": 7}
_EXACT = frozenset(
    """
    abs add subtract multiply maximum minimum negative square sign ceil floor round trunc clip where
    nn.relu nn.relu6 sum max min matmul reshape permute_dims expand_dims squeeze flatten concat stack
    split take strided_slice flip repeat tile broadcast_to nn.pad tril triu gather_elements
    scatter_elements gather_nd scatter_nd one_hot full zeros ones zeros_like ones_like full_like arange
    eye astype nn.conv2d nn.max_pool2d sort topk cumsum ewise_fma memory.view memory.ensure_zero_offset
    call_tir call_tir_inplace call_pure_packed call_dps_packed call_inplace_packed floor_divide
    floor_mod mod nn.conv1d outer einsum nn.dropout
    """.split()
)
"""Operators that make small integers of small integers, without rounding."""


@dataclass(frozen=True)
class Outcome:
    """Arrays that a call leaves: results, what effects saw, and the arguments; with the labels of the effects in order."""

    arrays: list[np.ndarray]
    labels: list[str]


# -- the evaluator ----------------------------------------------------------------------
class Noisy(Evaluator):
    """Moves every float that rounding may have moved."""

    def __init__(self, mod: IRModule, seed: int) -> None:
        super().__init__(mod)
        self._random = np.random.default_rng(seed)

    def expr(self, expr: Any) -> Any:
        value = super().expr(expr)
        if isinstance(expr, rx.Constant):
            return self.moved(value)
        if not isinstance(expr, rx.Call) or not isinstance(expr.op, Op):
            return value
        if expr.op.name.removeprefix("relax.") in _EXACT:
            return self.moved(value)
        return self.moved(value, _magnitude([self.expr(arg) for arg in expr.args if isinstance(arg, rx.Var)]))

    def moved(self, value: Any, inside: float | None = None) -> Any:
        """A value with noise on its floats.

        Args:
            value: what an operator makes.
            inside: the magnitude of what the operator computed with, if it may round small integers too; otherwise they stay.
        """
        if isinstance(value, list):
            return [self.moved(item, inside) for item in value]
        if isinstance(value, tuple) and any(isinstance(item, np.ndarray) for item in value):
            return tuple(self.moved(item, inside) for item in value)
        if not isinstance(value, np.ndarray) or str(value.dtype) not in _UNITS:
            return value
        wide = value.astype("float64")
        # Of many magnitudes: steps of one size would cancel, and a result of many roundings seem exact.
        sizes = self._random.uniform(0.5, 1.5, wide.shape)
        noise = self._random.choice([-1.0, 1.0], wide.shape) * sizes * _UNITS[str(value.dtype)]
        with np.errstate(all="ignore"):
            whole = (wide == np.round(wide)) & (np.abs(wide) < 2.0 ** _EXACT_BITS[str(value.dtype)])
            still = ~np.isfinite(wide) | (whole if inside is None else False)
            moved = wide * (1 + noise) + noise * (inside or 0.0) * _CANCELLATION
            return np.where(still, wide, moved).astype(value.dtype)


def _magnitude(values: Sequence[Any]) -> float:
    """The largest finite float in some values."""
    arrays = [item.astype("float64") for item in flattened(tuple(values)) if str(item.dtype) in _UNITS]
    return max((float(np.abs(item[np.isfinite(item)]).max(initial=0.0)) for item in arrays), default=0.0)


Run = Callable[[Evaluator, list[Any]], Any]
"""How a module is called: from an evaluator of it and the arguments of the program to the result."""


def evaluated(
    mod: IRModule, given: Sequence[Any], noise: int | None = None, run: Run | None = None
) -> Outcome:
    """What ``main`` of a module does, or another way to call it; with noise of a seed if one is given."""
    evaluator = Evaluator(mod) if noise is None else Noisy(mod, noise)
    values = [received(_copied(value)) for value in given]
    if isinstance(evaluator, Noisy):
        values = [evaluator.moved(value) for value in values]
    with recorded() as events:
        result = returned(evaluator.invoke(mod["main"], values) if run is None else run(evaluator, values))
    return _outcome(result, events, values)


def _copied(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_copied(item) for item in value)
    return value.copy() if isinstance(value, np.ndarray) else value


def _outcome(result: Any, events: Sequence[Event], given: Any) -> Outcome:
    seen = [array for event in events for array in event.values]
    return Outcome([*flattened(result), *seen, *flattened(given)], [event.label for event in events])


def flattened(value: Any) -> list[np.ndarray]:
    """The arrays in results or arguments, copied."""
    if isinstance(value, tuple | list):
        return [item for part in value for item in flattened(part)]
    return [np.array(value.numpy() if hasattr(value, "numpy") else value)]


# -- what it means -------------------------------------------------------------------------
@dataclass(frozen=True)
class Meaning:
    """A module, arguments for its ``main``, what that does with them, and how far from it right results may be."""

    mod: IRModule
    given: list[Any]
    expected: Outcome
    tolerances: list[np.ndarray | None]
    """For each array a bound on the error of each element; None where noise changes the shape."""

    def difference(self, found: Outcome) -> str:
        """Where an outcome is wrong; empty where it is not."""
        if found.labels != self.expected.labels:
            return f"effects {found.labels}, expected {self.expected.labels}"
        if len(found.arrays) != len(self.expected.arrays):
            return f"{len(found.arrays)} arrays, expected {len(self.expected.arrays)}"
        results = len(found.arrays) - len(flattened(tuple(self.given)))
        for number, (got, wanted, bound) in enumerate(
            zip(found.arrays, self.expected.arrays, self.tolerances, strict=True)
        ):
            what = f"result {number}" if number < results else f"argument {number - results}"
            if bound is None:
                continue
            if got.shape != wanted.shape or got.dtype != wanted.dtype:
                return f"{what}: {got.dtype} {got.shape}, expected {wanted.dtype} {wanted.shape}"
            wrong = _distance(got, wanted) > bound
            if wrong.any():
                place = tuple(int(index) for index in np.argwhere(wrong)[0])
                return f"{what}: {wrong.sum()} of {wrong.size} elements, at {place} {got[place]}, expected {wanted[place]}"
        return ""


def _distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How far elements are apart: nothing where both are NaN or the same infinity, infinitely where one is."""
    wide, wide_other = (array.astype("float64") for array in (one, other))
    with np.errstate(all="ignore"):
        apart = np.abs(wide - wide_other)
        apart = np.where(np.isnan(apart), np.inf, apart)
    return np.where((one == other) | (np.isnan(wide) & np.isnan(wide_other)), 0.0, apart)


def meaning(text: str, seed: int) -> Meaning | Verdict:
    """What a module computes, or why that is not defined."""
    try:
        mod = from_source(text)
    except Exception as error:  # the printer wrote the text: whatever the parser raises is a finding
        return crash("parse", error)
    try:
        check_well_formed(mod)
    except IRError as error:
        return Verdict("invalid", f"{type(error).__name__}: {error}")
    given = arguments(mod["main"], seed)
    try:
        expected = evaluated(mod, given)
        noisy = [evaluated(mod, given, run) for run in range(_NOISY_RUNS)]
    except IRError as error:
        return Verdict("invalid", f"{type(error).__name__}: {error}")
    if _written(given, expected):
        return Verdict("invalid", "it writes to its arguments")
    if any(other.labels != expected.labels or len(other.arrays) != len(expected.arrays) for other in noisy):
        return Verdict("invalid", "what it calls depends on rounding")
    tolerances = [
        _tolerance(wanted, [other.arrays[number] for other in noisy])
        for number, wanted in enumerate(expected.arrays)
    ]
    untouched = len(tolerances) - len(flattened(tuple(given)))
    exact = [np.zeros(array.shape) for array in expected.arrays[untouched:]]
    return Meaning(mod, given, expected, [*tolerances[:untouched], *exact])


def _written(given: list[Any], expected: Outcome) -> bool:
    """Whether an argument, which belongs to the caller, is not what it was."""
    before = flattened(tuple(given))
    after = expected.arrays[len(expected.arrays) - len(before) :]
    return any(one.tobytes() != other.tobytes() for one, other in zip(before, after, strict=True))


def _tolerance(wanted: np.ndarray, noisy: Sequence[np.ndarray]) -> np.ndarray | None:
    if any(other.shape != wanted.shape for other in noisy):
        return None
    moved = np.max([_distance(other, wanted) for other in noisy], axis=0)
    if str(wanted.dtype) not in _UNITS:
        return np.where(moved > 0, np.inf, 0.0)
    # The noise has a random sign: where it cancels, or met nothing but zeros, the neighbourhood says how large it is.
    floor = (
        _UNITS[str(wanted.dtype)] * (np.abs(wanted.astype("float64")) + 1e-3) if (moved > 0).any() else 0.0
    )
    finite = moved[np.isfinite(moved)]
    common = np.median(finite) if finite.size else 0.0
    return np.nan_to_num(_FACTOR * (moved + common) + floor, nan=np.inf, posinf=np.inf)


# -- native code --------------------------------------------------------------------------
def judge_native(program: Meaning, target: str) -> Verdict:
    """Whether ``relax.build`` makes code for a target that does what a module means, and writes nothing else."""
    try:
        executable = rx.build(rx.transform.LambdaLift()(program.mod), TARGETS[target])
        machine = runners.VirtualMachine(executable, runners.cpu())
    except Exception as error:  # whatever the compiler raises on a valid program is a finding
        return crash("build", error)
    guarded: list[Guarded] = []
    passed = [_passed(value, guarded) for value in program.given]
    try:
        with recorded() as events:
            result = machine["main"](*passed)
    except Exception as error:  # any error is a verdict
        return crash("run", error)
    found = _outcome(result, events, tuple(item.array for item in guarded))
    difference = program.difference(found)
    if difference:
        return Verdict("wrong", difference)
    if not all(item.intact for item in guarded):
        return Verdict("wrote beside an array", target)
    return Verdict("ok")


def _passed(value: Any, guarded: list[Guarded]) -> Any:
    if isinstance(value, tuple):
        return tuple(_passed(item, guarded) for item in value)
    if not isinstance(value, np.ndarray):
        return value
    guarded.append(Guarded(value))
    return guarded[-1].array


def judge_text(text: str, seed: int, targets: Sequence[str]) -> Verdict:
    """Whether the code of a module for some targets computes what the module means."""
    found = meaning(text, seed)
    if isinstance(found, Verdict):
        return found
    for target in targets:
        verdict = judge_native(found, target)
        if verdict.failed:
            return verdict
    return Verdict("ok")
