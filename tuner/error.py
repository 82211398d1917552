"""Errors of tuning."""

from __future__ import annotations

from ir.error import IRError


class TunerError(IRError):
    """Tuning cannot start or go on; the message names the place and the fix."""
