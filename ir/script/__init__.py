"""The text form of programs: ``from ir.script import ir as I, relax as R, tir as T``, :func:`from_source`, and the printer."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_LAZY = {
    "from_source": ".parser.entry",
    "parse": ".parser.entry",
    "ir_module": ".ir",
}
"""The parser is loaded on first use: printing and importing the nodes do not need it."""


def __getattr__(name: str) -> Any:
    """What needs the parser."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
