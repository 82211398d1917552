"""Which subexpressions of an expression occur often."""

from __future__ import annotations

from typing import Any

from ..tir import expr as E
from ..tir.expr import PrimExpr
from .deep_equal import expr_deep_equal

_COUNTED = (E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max, E.Cast, E.Select)


def detect_common_subexpr(expr: PrimExpr, threshold: int) -> dict[PrimExpr, int]:
    """Arithmetic subexpressions that occur at least ``threshold`` times, with how often they do.

    What occurs only inside a larger common subexpression, as often as that one, is left out.
    """
    counts: dict[tuple[str, str], list[tuple[Any, int]]] = {}

    def bucket(node: Any) -> list[tuple[Any, int]]:
        return counts.setdefault((type(node).__name__, node.dtype), [])

    def count(node: Any) -> None:
        node._visit_children(count)
        if isinstance(node, _COUNTED):
            items = bucket(node)
            for position, (known, times) in enumerate(items):
                if expr_deep_equal(known, node):
                    items[position] = (known, times + 1)
                    return
            items.append((node, 1))

    count(expr)
    found = {node: times for items in counts.values() for node, times in items if times >= threshold}
    inside: dict[int, int] = {}

    def mark(node: Any, limit: int) -> None:
        for other, times in found.items():
            if other is not node and times == limit and expr_deep_equal(other, node):
                inside[id(other)] = limit
        node._visit_children(lambda child: mark(child, limit))

    for node, times in found.items():
        node._visit_children(lambda child, limit=times: mark(child, limit))  # type: ignore[attr-defined]
    return {node: times for node, times in found.items() if id(node) not in inside}
