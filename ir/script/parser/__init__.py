"""Reading programs from their text form; ``ir``, ``tir`` and ``relax`` are the namespaces I, T and R here too."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """The namespaces, and :func:`parse`, loaded when they are asked for: they stand above the modules of this package."""
    if name in ("ir", "tir", "relax"):
        return import_module(f"ir.script.{name}")
    if name in ("parse", "from_source"):
        return getattr(import_module(".entry", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
