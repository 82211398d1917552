"""Primitives that attach data to loops and blocks: annotate and unannotate."""

from __future__ import annotations

from typing import Any

from ir import tir

from ..analysis import require
from ..argument import Argument, BlockOrLoop, Input, Show
from ..declaration import PrimitiveFamily, primitive
from ..random_variable import BlockRV, ExprRV, LoopRV


class _Value(Input):
    """The value of an annotation; the field prints True as 1."""

    def text(self, name: str, value: Any, show: Show) -> str | None:
        return f"{name}={show(int(value) if isinstance(value, bool) else value)}"


class AnnotationPrimitives(PrimitiveFamily):
    """Annotations of blocks and loops."""

    @primitive("Annotate", block_or_loop=BlockOrLoop(), ann_key=Argument(), ann_val=_Value())
    def annotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Attach a value to a block or loop; one that is there under this key already stays as it is."""
        node = self._node(block_or_loop)
        if ann_key in node.annotations:
            return
        node.annotations = {**node.annotations, ann_key: self._annotation(ann_val)}
        node.touch()

    def _annotation(self, value: Any) -> Any:
        if isinstance(value, ExprRV):
            found = self._value(value)
            return found.value if isinstance(found, tir.IntImm) else found
        if isinstance(value, list | tuple):
            return tuple(self._annotation(item) for item in value)
        if isinstance(value, dict):
            return {key: self._annotation(item) for key, item in value.items()}
        return value

    @primitive("Unannotate", block_or_loop=BlockOrLoop(), ann_key=Argument())
    def unannotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
        """Remove an annotation.

        Raises:
            ScheduleError: there is none under this key.
        """
        node = self._node(block_or_loop)
        require(
            ann_key in node.annotations,
            "unannotate",
            f"there is no annotation {ann_key!r}; there are {sorted(node.annotations)}",
        )
        node.annotations = {name: value for name, value in node.annotations.items() if name != ann_key}
        node.touch()
