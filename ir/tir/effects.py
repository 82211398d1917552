"""Which expressions have effects: calls that print, draw random numbers, move bytes. They run as often as the program says."""

from __future__ import annotations

from typing import Any

from . import expr as E
from .intrinsic.declaration import CallEffectKind, effect_of


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
