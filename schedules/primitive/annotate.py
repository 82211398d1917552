"""Primitives that attach data to loops and blocks: annotate and unannotate."""

from __future__ import annotations

from typing import Any

from ..analysis import require
from ..tree import BlockNode, LoopNode


def annotate(node: BlockNode | LoopNode, key: str, value: Any) -> None:
    """Set an annotation; one that is there already stays as it is."""
    if key in node.annotations:
        return
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
