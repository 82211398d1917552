"""Building programs by frames: what the parser drives, usable from Python with ``with``."""

from __future__ import annotations

from .core import Frame, IRBuilder, name_value

__all__ = ["Frame", "IRBuilder", "name_value"]
