"""Reading programs from their text form; ``ir``, ``tir`` and ``relax`` are the namespaces I, T and R here too."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """The namespaces, and :func:`parse`, loaded when they are asked for."""
    import importlib

    if name in ("ir", "tir", "relax"):
        return importlib.import_module(f"ir.script.{name}")
    if name in ("parse", "from_source"):
        from .entry import from_source

        return from_source
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
