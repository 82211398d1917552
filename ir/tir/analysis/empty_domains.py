"""Loops and domains without iterations, of which reductions make something: their identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...node import Node, post_order_visit
from ..expr import IntImm, IterVar, PrimExpr
from ..stmt import Block, For

_Result = TypeVar("_Result")


def may_be_empty(extent: PrimExpr) -> bool:
    """Whether an extent is not a number above 0."""
    return not (isinstance(extent, IntImm) and extent.value > 0)


def initializes(loop: For) -> bool:
    """Whether a loop without iterations may still initialize what a reduction in it writes, so that no pass removes it.

    That is so until LowerInitBlock has written it out (rule ``[reduce-empty]`` of ``docs/semantics.md``).
    """
    return reduces_over_nothing(loop.body)


def reduces_over_nothing(node: Node) -> bool:
    """Whether a reduction inside of a node may have an empty domain.

    What stands around such a one says when its ``init`` runs without an iteration: which loops feed it, and which conditions do not
    depend on these. So conditions stay as they are written, though in an iteration they are known to hold, or say less.
    """
    found = False

    def look(node: Any) -> None:
        nonlocal found
        if isinstance(node, Block) and node.init is not None:
            reduced = [axis for axis in node.iter_vars if axis.iter_type == IterVar.CommReduce]
            found = found or any(may_be_empty(axis.dom.extent) for axis in reduced)

    post_order_visit(node, look)
    return found


class AroundReductions:
    """For walks that rewrite conditions: which of these stand below a loop, around a reduction that may be over nothing."""

    _holds: bool | None = None
    """Whether the innermost loop around holds such a one; None outside of loops."""

    def below(self, loop: For, walk: Callable[[], _Result]) -> _Result:
        """The result of a walk through the body of a loop."""
        outer = self._holds
        if outer is not False:
            self._holds = reduces_over_nothing(loop.body)
        try:
            return walk()
        finally:
            self._holds = outer

    def is_fixed(self, node: Node) -> bool:
        """Whether the condition, the bounds, the bindings or the value of a statement stay as they are written."""
        return bool(self._holds) and reduces_over_nothing(node)
