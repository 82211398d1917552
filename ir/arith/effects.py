"""Calls with effects in expressions: each runs as often as the program says, so that nothing is made of two of them.

The simplifiers of an analyzer raise :class:`HasEffect` when they come to one: no result that holds it is remembered, and the outermost
question simplifies what stands around the call part by part (:func:`part_by_part`). To the linear forms of indices each is an atom
of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tir import expr as E
from ..tir.intrinsic.declaration import CallEffectKind, effect_of


class HasEffect(Exception):
    """An expression that was to be simplified as a whole holds a call with effects."""


def is_effect(expr: Any) -> bool:
    """Whether an expression itself is a call with effects."""
    return expr.__class__ is E.Call and effect_of(expr) > CallEffectKind.READ_STATE


def has_effect(expr: Any, seen: dict[int, tuple[Any, bool]] | None = None) -> bool:
    """Whether an expression holds a call with effects.

    Args:
        expr: the expression.
        seen: what is known of expressions by identity, for many questions about the same ones.
    """
    if not expr.is_compound:
        return False
    known = {} if seen is None else seen
    found = known.get(id(expr))
    if found is None:
        below: list[Any] = []
        expr._visit_children(below.append)
        answer = is_effect(expr) or any([has_effect(item, known) for item in below])
        found = known[id(expr)] = (expr, answer)
    return found[1]


def copied(expr: Any) -> Any:
    """Another object of the same parts."""
    return type(expr)(
        **{item.name: getattr(expr, item.name) for item in expr._fields if item.derived is None}
    )


def part_by_part(expr: Any, simplify: Callable[[Any], Any]) -> Any:
    """The expression with its operands simplified, each by itself."""
    return expr._map_children(lambda part: simplify(part) if isinstance(part, E.PrimExpr) else part)
