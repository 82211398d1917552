"""Printing programs (being written: generic form until the script printer is there)."""

from __future__ import annotations

from typing import Any


def repr_node(node: Any) -> str:
    """The node's class and fields."""
    return f"{type(node).__name__}({', '.join(f'{item.name}={getattr(node, item.name)!r}' for item in node._fields if item.name != 'span')})"


def script(node: Any, **options: Any) -> str:
    """The node's class and fields."""
    return repr_node(node)
