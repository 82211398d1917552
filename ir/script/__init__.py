"""The text form of programs: ``from ir.script import ir as I, relax as R, tir as T``, :func:`from_source`, and the printer."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """The parser is loaded on first use: printing and importing the nodes do not need it."""
    if name in ("from_source", "parse"):
        from .parser.entry import from_source

        return from_source
    if name in ("ir_module", "parse_module"):
        from .ir import ir_module

        return ir_module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
