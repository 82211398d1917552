"""The box of a buffer that a statement touches while the loops inside of it run."""

from __future__ import annotations

from typing import Any, ClassVar

from ..error import IRValueError
from ..node import Visitor
from ..tir import expr as E
from ..tir import operators
from ..tir.buffer import Buffer
from ..tir.expr import Range
from ..tir.stmt import AttrStmt, BufferStore, For, LetStmt, Stmt
from .analyzer import Analyzer
from .int_set.evaluation import eval_set
from .int_set.interval_set import IntervalSet, from_range, range_of, union


class _Touched(Visitor):
    remembers: ClassVar[bool] = True

    def __init__(self, buffer: Buffer, loads: bool, stores: bool) -> None:
        super().__init__()
        self._buffer, self._loads, self._stores = buffer, loads, stores
        self._domains: dict[Any, IntervalSet] = {}
        self.analyzer = Analyzer()
        self.found: list[list[IntervalSet]] = [[] for _ in buffer.shape]

    def _touch(self, indices: Any) -> None:
        for sets, index in zip(self.found, indices, strict=True):
            sets.append(eval_set(index, self._domains, self.analyzer))

    def visit_For(self, loop: For) -> None:
        self._domains[loop.loop_var] = from_range(Range.from_min_extent(loop.min, loop.extent))
        self.generic_visit(loop)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self._domains[node.var] = eval_set(node.value, self._domains, self.analyzer)
        self.generic_visit(node)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if node.attr_key == "thread_extent" and isinstance(node.node, E.IterVar):
            zero = operators.const(0, node.value.dtype)
            self._domains[node.node.var] = from_range(Range.from_min_extent(zero, node.value))
        self.generic_visit(node)

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        if self._loads and load.buffer is self._buffer:
            self._touch(load.indices)
        self.generic_visit(load)

    def visit_BufferStore(self, store: BufferStore) -> None:
        if self._stores and store.buffer is self._buffer:
            self._touch(store.indices)
        self.generic_visit(store)


def domain_touched(
    stmt: Stmt, buffer: Buffer, consider_loads: bool = True, consider_stores: bool = True
) -> list[Range]:
    """The Ranges of a buffer's dimensions that the loads and stores in a statement cover.

    Args:
        stmt: the statement; variables of loops outside of it are fixed unknowns.
        buffer: the buffer.
        consider_loads: count loads.
        consider_stores: count stores.

    Raises:
        IRValueError: nothing of that kind accesses the buffer.
    """
    visitor = _Touched(buffer, consider_loads, consider_stores)
    visitor.visit(stmt)
    if buffer.shape and not visitor.found[0]:
        raise IRValueError(f"domain_touched: the statement does not access {buffer.name}")
    return [
        range_of(
            union(sets, visitor.analyzer),
            Range.from_min_extent(operators.const(0, extent.dtype), extent),
            visitor.analyzer,
        )
        for sets, extent in zip(visitor.found, buffer.shape, strict=True)
    ]
