"""Primitives that attach data to loops and blocks: annotate and unannotate."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

import numpy as np

from ir import tir
from ir.node import Node

from ..analysis import require
from ..argument import Argument, BlockOrLoop, Input, Show
from ..declaration import PrimitiveFamily, primitive
from ..error import ScheduleError
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..state import ScheduleState

_STORED = (str, int, float, NoneType, Node, ExprRV)
"""What the JSON form of a trace holds; bool is an int."""


def _unstorable(value: Any) -> list[Any]:
    """The first part of a value that a trace cannot keep, in a list; empty where it keeps all."""
    if value.__class__ in (list, tuple):
        return next((found for item in value if (found := _unstorable(item))), [])
    if value.__class__ is dict:
        keys = [key for key in value if not isinstance(key, str)]
        return keys[:1] or _unstorable(list(value.values()))
    return [] if isinstance(value, _STORED) and not isinstance(value, np.generic) else [value]


class _Value(Input):
    """The value of an annotation; the field prints True as 1."""

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        for part in _unstorable(value):
            what = f"a value of type {type(part).__name__}" + ("" if part is value else f" in {value!r}")
            raise ScheduleError(
                f"annotate: {what} cannot be stored: {part!r}; use numbers, strings, booleans, None, IR nodes, and lists,"
                " tuples and dicts (with strings as keys) of them"
            )
        return value

    def text(self, name: str, value: Any, show: Show) -> str | None:
        return f"{name}={show(int(value) if isinstance(value, bool) else value)}"


class _Key(Argument):
    """The name of an annotation."""

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        if not isinstance(value, str):
            raise ScheduleError(f"annotate: the name of an annotation is a string, got {value!r}")
        return value


class AnnotationPrimitives(PrimitiveFamily):
    """Annotations of blocks and loops."""

    @primitive("Annotate", block_or_loop=BlockOrLoop(), ann_key=_Key(), ann_val=_Value())
    def annotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Attach a value to a block or loop; one that is there under this key already stays as it is.

        Args:
            block_or_loop: what to annotate.
            ann_key: the name of the annotation.
            ann_val: numbers, strings, booleans, None, IR nodes, sampled numbers, and lists, tuples and dicts (with strings as keys)
                of them.

        Raises:
            ScheduleError: a trace cannot store the value.
        """
        node = self._node(block_or_loop)
        if ann_key in node.annotations:
            return
        node.annotations = {**node.annotations, ann_key: self._annotation(ann_val)}
        node.touch()

    def _annotation(self, value: Any) -> Any:
        if isinstance(value, ExprRV):
            value = self._value(value)
        if isinstance(value, tir.IntImm | tir.FloatImm | tir.StringImm):
            return value.value  # as a trace keeps it
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
