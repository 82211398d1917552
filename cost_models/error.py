"""The error of this package."""

from __future__ import annotations

from ir.error import IRError


class CostModelError(IRError):
    """Features or a model cannot do what is asked."""
