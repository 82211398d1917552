"""Masking elements: compositions of other operators."""

from __future__ import annotations

from typing import Any

from ..expr import Expr
from .create import full_like
from .search import where


def masked_fill(x: Expr, mask: Expr, value: Any) -> Expr:
    """``value`` where the mask (bool) holds, else ``x``."""
    return where(mask, full_like(x, value), x)


__all__ = ["masked_fill"]
