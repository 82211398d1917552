"""What was loaded is known until the next store or call that may touch it ([load-known] in docs/semantics.md)."""

from __future__ import annotations

from typing import Any

from ...node import post_order_visit
from .. import expr as E
from ..analysis.no_alias import promises_no_alias
from ..analysis.reads_memory import reads_memory
from ..buffer import Buffer
from ..expr import PrimExpr
from ..function import PrimFunc
from ..intrinsic.declaration import CallEffectKind, effect_of
from ..stmt import Block, BufferStore, Stmt


class MemoryFacts:
    """Which facts about memory outlast a statement of one function; None is a function of which nothing is known."""

    def __init__(self, func: PrimFunc | None) -> None:
        self._no_alias = func is not None and promises_no_alias(func) and not _has_views(func)
        self._written: dict[int, tuple[Stmt, set[Any] | None]] = {}

    def may_change(self, condition: PrimExpr, stmt: Stmt) -> bool:
        """Whether a condition may have another value after a part of the statement has run."""
        if not reads_memory(condition):
            return False
        read = _buffers_read(condition)
        written = self._written_by(stmt)
        if written is None or (read is None and written):
            return True
        if not written or read is None:
            return False
        return not self._no_alias or any(buffer.data in written for buffer in read)

    def _written_by(self, stmt: Stmt) -> set[Any] | None:
        """The memory that a statement stores to; None where a call may write any."""
        found = self._written.get(id(stmt))
        if found is None:
            found = self._written[id(stmt)] = (stmt, _memory_written(stmt))
        return found[1]


def _memory_written(stmt: Stmt) -> set[Any] | None:
    written: set[Any] = set()
    calls: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, BufferStore):
            written.add(node.buffer.data)
        elif isinstance(node, E.Call) and effect_of(node) > CallEffectKind.READ_STATE:
            calls.append(node)

    post_order_visit(stmt, look)
    return None if calls else written


def _buffers_read(condition: PrimExpr) -> list[Buffer] | None:
    """The buffers that a condition loads from; None where a call reads what is not said."""
    read: list[Buffer] = []
    calls: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, E.BufferLoad):
            read.append(node.buffer)
        elif isinstance(node, E.Call) and effect_of(node) > CallEffectKind.PURE:
            calls.append(node)

    post_order_visit(condition, look)
    return None if calls else read


def _has_views(func: PrimFunc) -> bool:
    """Whether blocks look at the memory of other buffers."""
    found: list[Any] = []
    post_order_visit(
        func.body,
        lambda node: found.append(node) if isinstance(node, Block) and node.match_buffers else None,
    )
    return bool(found)
