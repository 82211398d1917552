"""What the parts of an analyzer (bounds, modular sets, simplifiers) ask of each other, through the analyzer that holds them.

Bounds need remainders, remainders need bounds, both simplifiers need all: each part is given the whole, and knows it by this
protocol alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..tir.expr import PrimExpr
from .index_arithmetic import IndexArithmetic


class AnalyzerParts(Protocol):
    """The analyzer as its parts see it."""

    @property
    def _bounds(self) -> Callable[[PrimExpr], tuple[int, int]]:
        """Least and greatest value of an integer expression."""

    @property
    def _modular(self) -> Callable[[PrimExpr], tuple[int, int]]:
        """Coefficient and base: the values are ``coefficient * n + base``."""

    @property
    def _rewrite(self) -> Any:
        """The simplifier by rewriting rules."""

    @property
    def _is_index(self) -> IndexArithmetic:
        """Whether an expression is index arithmetic."""

    @property
    def _data(self) -> Any:
        """The same questions about data, which wraps: the parts that know variables and conditions as this one does."""

    def _mark_data(self, var: Any) -> None:
        """A variable holds data."""

    @property
    def _branching(self) -> Any:
        """Visits sides of choices and connectives, knowing what decides between them."""

    def can_prove(self, expr: Any) -> bool:
        """Whether a condition holds for all values that the variables can have."""

    def _below(self, a: Any, b: Any) -> bool:
        """``a < b``, for a symbolic b."""

    def _prove_ge(self, expr: Any, value: int) -> bool:
        """``expr >= value``."""
