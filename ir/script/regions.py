"""Regions and vector indices from slices: the extent between two ends, found without the analyzer where the text shows it."""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..structural import structural_equal
from ..tir.expr import Add, IntImm, PrimExpr
from ..tir.operators import const, convert, match_dtypes, subtract


def extent_between(start: Any, stop: Any) -> PrimExpr:
    """The number of integers in ``[start, stop)``: exactly ``e`` for ``stop == start + e``, else the simplified difference."""
    low, high = match_dtypes(convert(start), convert(stop))
    if isinstance(low, IntImm):
        if low.value == 0:
            return high
        if isinstance(high, IntImm):
            return const(high.value - low.value, low.dtype)
    if isinstance(high, Add) and structural_equal(high.a, low):
        return high.b
    if structural_equal(low, high):
        return const(0, low.dtype)
    return Analyzer().simplify(subtract(high, low))
