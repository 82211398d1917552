"""Building programs by frames, from Python: ``with IRBuilder() as ib: with T.prim_func(): ...``; the parser does the same."""

from __future__ import annotations

from .core import Frame, IRBuilder, name_value

__all__ = ["Frame", "IRBuilder", "name_value"]
