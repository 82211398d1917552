"""Closures of operations: on scalars as they are, on vectors lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Closure = Callable[..., Any]
"""``value(env)`` of a scalar, ``lanes(env, active)`` of a vector."""


def lifted(
    operation: Callable[..., Any], operands: Sequence[Closure], widths: Sequence[int], lanes: int
) -> Closure:
    """An operation on scalars applied to operands, lane by lane if there are several; scalar operands are the same in all lanes."""
    if lanes > 1:
        columns = [
            operand if width > 1 else spread(operand, lanes) for operand, width in zip(operands, widths)
        ]

        def each_lane(env: dict[Any, Any], active: Sequence[bool]) -> list[Any]:
            values = zip(active, *[column(env, active) for column in columns])
            return [operation(*lane) if is_on else None for is_on, *lane in values]

        return each_lane
    if len(operands) == 2:
        a, b = operands
        return lambda env: operation(a(env), b(env))
    if len(operands) == 1:
        (only,) = operands
        return lambda env: operation(only(env))
    return lambda env: operation(*[operand(env) for operand in operands])


def spread(scalar: Closure, lanes: int) -> Closure:
    """A scalar in every lane of a vector."""
    return lambda env, active: [scalar(env)] * lanes
