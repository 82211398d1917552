"""Simplification of the expressions that become block bodies."""

from __future__ import annotations

from ..tir.expr import PrimExpr

try:
    from ..arith import Analyzer
except ImportError:

    class Analyzer:  # type: ignore[no-redef]
        """Leaves expressions as the operators folded them."""

        def simplify(self, expr: PrimExpr) -> PrimExpr:
            """The expression itself."""
            return expr
