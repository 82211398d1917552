"""Primitives that attach data to loops and blocks: annotate and unannotate."""

from __future__ import annotations

from typing import Any

from ..analysis import require
from ..tree import BlockNode, LoopNode


def annotate(node: BlockNode | LoopNode, key: str, value: Any) -> None:
    """Set an annotation; an equal one may be there already, another one may not."""
    existing = node.annotations.get(key)
    require(
        existing is None or existing == value,
        "annotate",
        f"annotation {key!r} is set to {existing!r} already; unannotate first",
    )
    node.annotations = {**node.annotations, key: value}
    node.touch()


def unannotate(node: BlockNode | LoopNode, key: str) -> None:
    """Remove an annotation."""
    require(
        key in node.annotations,
        "unannotate",
        f"there is no annotation {key!r}; there are {sorted(node.annotations)}",
    )
    node.annotations = {name: value for name, value in node.annotations.items() if name != key}
    node.touch()
