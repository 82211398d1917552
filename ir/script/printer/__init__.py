"""Printing programs as script: :func:`script` for whole programs, :func:`repr_node` for whatever ``repr`` is asked for.

Each dialect's module registers how its nodes are written when it is imported here.
"""

from __future__ import annotations

from . import module, relax, tir_buffer, tir_expr, tir_func, tir_stmt
from .entry import repr_node, script

__all__ = ["repr_node", "script"]
