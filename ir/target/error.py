"""The error of targets."""

from __future__ import annotations

from ..error import IRValueError


class TargetError(IRValueError):
    """A target's description names an unknown kind or option, or a value of the wrong type."""
