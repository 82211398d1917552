"""Combiners that are written by hand: what in an update is the result so far, what comes in, and how both are combined.

That the order does not matter is the program's word (``[reduce-order]`` of ``docs/semantics.md``). How an update is to be read as a
combiner of two results is not always plain; a reading counts where it obeys the laws of a reducer on samples, and is the only one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from ... import dtype as dt
from ...error import IRValueError
from ...node import Node
from ...structural import structural_equal
from ..effects import has_effect
from ..evaluate import evaluate
from ..expr import FloatImm, IntImm, PrimExpr, Var
from ..stmt import Stmt
from ..stmt_functor import loads_in, substitute, variables_in
from .reducer import Abstraction, Reduction, UnknownReducerError, Updates, reduction_of, updates_of

_SAMPLES = 48
_MOST_VALUES = 3
"""Values that are combined together, at most: their operands may stand in any order."""


def reduction_with_any_combiner(init: Stmt | None, update: Stmt, name: str) -> Reduction:
    """What :func:`.reducer.reduction_of` finds, or the only way to read the update as a combiner that is written by hand.

    ``C[0] = C[0] + A[k] - C[0] * A[k]`` combines x and y as ``x + y - x * y``.

    Raises:
        UnknownReducerError: there is no such way, or there are several.
    """
    try:
        return reduction_of(init, update, name)
    except UnknownReducerError:
        found = _readings(updates_of(init, update, name))
        if len(found) != 1:
            raise
        return found[0]


def _readings(updates: Updates) -> list[Reduction]:
    """The ways to read updates as those of a reducer."""
    inits = [item.value for item in updates.inits]
    there = [Var(f"x{n}", load.dtype) for n, load in enumerate(updates.own)]
    hidden = Abstraction(list(zip(updates.own, there, strict=True)))
    values = [hidden.visit(value) for value in updates.values]
    if variables_in(*inits) or any(
        load.buffer in updates.outputs for value in values for load in loads_in(value)
    ):
        return []
    incoming = _incoming(values, set(there))
    if len(incoming) != len(there) or len(there) > _MOST_VALUES:
        return []
    found = []
    for operands in permutations(incoming):
        coming = [Var(f"y{n}", load.dtype) for n, load in enumerate(updates.own)]
        if any(operand.dtype != var.dtype for operand, var in zip(operands, coming, strict=True)):
            continue
        plain = Abstraction(list(zip(operands, coming, strict=True)))
        results = [plain.visit(value) for value in values]
        if _is_reducer(results, there, coming, inits):
            found.append(_reduction(updates, operands, results, [*there, *coming]))
    return found


def _reduction(
    updates: Updates, operands: Sequence[PrimExpr], results: Sequence[PrimExpr], names: Sequence[Var]
) -> Reduction:
    return Reduction(
        updates.outputs,
        updates.indices,
        updates.inits,
        list(operands),
        lambda there, coming: [
            substitute(result, dict(zip(names, [*there, *coming], strict=True))) for result in results
        ],
    )


def _incoming(values: Sequence[PrimExpr], there: set[Var]) -> list[PrimExpr]:
    """The largest expressions in which nothing is of the result so far, each once; numbers belong to the combiner."""
    found: list[PrimExpr] = []

    def visit(node: Node) -> None:
        if not isinstance(node, PrimExpr) or isinstance(node, IntImm | FloatImm) or node in there:
            return
        if there & set(variables_in(node)):
            node._visit_children(visit)
        elif not any(structural_equal(node, other) for other in found):
            found.append(node)

    for value in values:
        visit(value)
    return found


# -- the laws of a reducer ---------------------------------------------------------


def _is_reducer(
    results: Sequence[PrimExpr], there: Sequence[Var], coming: Sequence[Var], inits: Sequence[PrimExpr]
) -> bool:
    """Whether combiner and identity obey the laws of a reducer on samples."""
    known = {*there, *coming}
    if not set(variables_in(*results)) <= known or any(
        has_effect(result) or loads_in(result) for result in results
    ):
        return False
    generator = np.random.default_rng(0)
    try:
        identity = [np.full(_SAMPLES, evaluate(init, {}), _numpy(init.dtype)) for init in inits]
        a, b, c = ([_samples(generator, var.dtype) for var in there] for _ in range(3))
        with np.errstate(all="ignore"):

            def combined(x: Sequence[Any], y: Sequence[Any]) -> list[Any]:
                given: Mapping[Any, Any] = dict(zip([*there, *coming], [*x, *y], strict=True))
                return [
                    np.broadcast_to(np.asarray(evaluate(result, given)), _SAMPLES).astype(
                        _numpy(result.dtype)
                    )
                    for result in results
                ]

            laws = [
                (combined(identity, a), a),
                (combined(a, identity), a),
                (combined(identity, identity), identity),
                (combined(a, b), combined(b, a)),
                (combined(combined(a, b), c), combined(a, combined(b, c))),
            ]
    except IRValueError:  # something that has no meaning on arrays
        return False
    return all(_are_alike(one, other) for left, right in laws for one, other in zip(left, right, strict=True))


def _numpy(dtype: str) -> Any:
    """The type to compute in: rounding to a narrow one would hide the laws."""
    return np.dtype("float64") if dt.is_float(dtype) else dt.to_numpy(dtype)


def _samples(generator: np.random.Generator, dtype: str) -> Any:
    if dt.is_bool(dtype):
        return generator.integers(0, 2, _SAMPLES).astype(bool)
    if dt.is_float(dtype):
        return generator.uniform(-2, 2, _SAMPLES)
    low = 0 if dt.is_uint(dtype) else -7
    return generator.integers(low, 8, _SAMPLES).astype(dt.to_numpy(dtype))


def _are_alike(one: Any, other: Any) -> bool:
    if one.dtype.kind == "f":
        return bool(np.allclose(one, other, rtol=1e-6, atol=1e-9))
    return bool((one == other).all())


__all__ = ["reduction_with_any_combiner"]
