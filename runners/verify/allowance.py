"""What the roundings of another algorithm may come to, for candidates that compute by one.

A convolution by Winograd's algorithm rounds other numbers than the sum of products that it stands for, and they count for more. Its
primitive leaves the program that it has made, before any loop of it is tiled, in an attribute of the function (``ROUNDING_PROGRAM`` in
:mod:`ir.tir.kernel_attributes`). That program is analysed like the unscheduled one (:mod:`.shadow`), which bounds the errors of every
stage element by element, on the inputs at hand.

The values stay those of the unscheduled program. So a wrong transform, in the primitive as in a kernel, is refused: the allowance counts
for an element only where both programs agree on it far within what it allows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ir import IRModule
from ir import dtype as dt
from ir.tir.kernel_attributes import ROUNDING_PROGRAM

from .compare import Bounds
from .expressions import Unanalysable
from .facts import entry
from .reference import Arguments, Case, MakeRun, Reference, case_in_float64, hides_terms
from .shadow import shadow_of

_AGREEMENT = 1 / 8
"""Values of the two programs differ by this share of what they allow together at most; in float64 it is a millionth, if they are right."""


def rounding_program(mod: Any) -> Any:
    """The program that rounds as a candidate does, if it says that it rounds otherwise than the unscheduled one."""
    return entry(mod).attrs.get(ROUNDING_PROGRAM)


def allowing(reference: Reference, program: Any, make_run: MakeRun) -> Reference:
    """A reference that accepts what the roundings of a program come to as well; the same one where they are not known.

    They are not known of a program that has NaN, or infinity, for small integers of which the unscheduled program makes numbers: it would
    allow anything there.

    Args:
        reference: of the unscheduled program.
        program: a PrimFunc of the same parameters, which computes the same by other operations.
        make_run: from a module to a function that calls it.
    """
    mod = IRModule({"main": program.with_attr("global_symbol", "main")})
    try:
        shadow = shadow_of(mod)
        if hides_terms(reference.facts, shadow.longest_sum):
            shadow = shadow_of(mod, counting=True)
    except Unanalysable:
        return reference
    run = make_run(shadow.mod)
    arguments = Arguments(reference.facts.params)
    outputs = [param for param in reference.facts.params if param.output]
    cases = []
    for case in reference.cases:
        other, _, _ = case_in_float64(run, shadow, reference.facts, arguments, case.kind, case.number)
        if case.kind.exact and any(map(_lacks_numbers, case.outputs, other.outputs)):
            return reference
        wider = [
            widened(mine, its) if dt.is_float(param.dtype) else mine
            for param, mine, its in zip(outputs, case.outputs, other.outputs, strict=True)
        ]
        cases.append(Case(case.kind, case.number, wider))
    return Reference(reference.facts, cases, reference.secs)


def _lacks_numbers(bounds: Bounds, other: Bounds) -> bool:
    """Whether another program has NaN, or infinity, where a program has a number."""
    mine, its = np.asarray(bounds.midpoint(), np.float64), np.asarray(other.midpoint(), np.float64)
    is_number = np.isfinite(bounds.low) & np.isfinite(mine)
    is_none = np.isnan(other.low) | (np.isinf(its) & (other.low == its))
    return bool((is_number & is_none).any())


def widened(bounds: Bounds, other: Bounds) -> Bounds:
    """Bounds of floats that contain those of another program where both programs agree.

    Where the other one has no number, because it takes differences of infinities, or may overflow, any number is right: it mixes
    inputs that a value does not depend on. Where it has one and the unscheduled program has none, nothing is allowed.
    """
    kept = bounds.low.dtype
    low, high, its_low, its_high = (
        np.asarray(item, np.float64)
        for item in (
            bounds.low,
            bounds.low if bounds.high is None else bounds.high,
            other.low,
            other.low if other.high is None else other.high,
        )
    )
    with np.errstate(all="ignore"):
        reach = (high - low) + (its_high - its_low)
        agrees = np.abs((high + low) - (its_high + its_low)) <= 2 * _AGREEMENT * reach
        is_number = np.isfinite(low) & np.isfinite(high) & (low <= high)
        allowed = is_number & np.isfinite(its_low) & np.isfinite(its_high) & (its_low <= its_high) & agrees
        is_open = (low > high) | (its_low > its_high) | (~np.isfinite(its_low) & ~np.isnan(low))
    new_low = np.where(allowed, np.minimum(low, its_low), low).astype(kept)
    new_high = np.where(allowed, np.maximum(high, its_high), high).astype(kept)
    new_low[is_open], new_high[is_open] = kept.type(np.inf), kept.type(-np.inf)
    return Bounds(new_low, new_high, not (is_open.any() or np.isnan(new_low).any()))
