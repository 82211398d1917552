"""The Python functions that models call by name, which the compiler registers. Packages of models have another file here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def registered_function(name: str) -> Callable[..., Any] | None:
    """The function that ``ir.register_func`` registered under a name, or None."""
    try:
        # Registered functions live with the compiler; a model that calls none runs without it.
        from ir.registry import get_global_func
    except ImportError:
        return None
    return get_global_func(name, allow_missing=True)
