"""Printing programs as script: :func:`script` for whole programs, :func:`repr_node` for whatever ``repr`` is asked for."""

from __future__ import annotations

from .entry import repr_node, script

__all__ = ["repr_node", "script"]
