"""For each buffer, the innermost loop or block that holds all accesses to it."""

from __future__ import annotations

from typing import Any, ClassVar

from ...node import Visitor
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt_functor import variables_in


class _Detector(Visitor):
    remembers: ClassVar[bool] = True

    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self._path: list[Any] = []
        self.common: dict[Buffer, list[Any]] = {}
        self._by_data: dict[Any, list[Buffer]] = {}
        self._loop_depth: dict[Any, int] = {}
        for buffer in func.buffer_map.values():
            self._declare(buffer)

    def _declare(self, buffer: Buffer) -> None:
        self._by_data.setdefault(buffer.data, []).append(buffer)

    def _touch(self, buffer: Buffer, limit: int | None = None) -> None:
        path = self._path if limit is None else self._path[:limit]
        known = self.common.get(buffer)
        if known is None:
            self.common[buffer] = list(path)
            return
        depth = 0
        while depth < min(len(known), len(path)) and known[depth] is path[depth]:
            depth += 1
        del known[depth:]

    def visit_For(self, loop: S.For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self._loop_depth[loop.loop_var] = len(self._path)
        self._path.append(loop)
        self.visit(loop.body)
        self._path.pop()

    def visit_BlockRealize(self, realize: S.BlockRealize) -> None:
        block = realize.block
        for value in realize.iter_values:
            self.visit(value)
        self.visit(realize.predicate)
        for buffer in block.alloc_buffers:
            self._declare(buffer)
        for match in block.match_buffers:
            self._declare(match.buffer)
        self._path.append(block)
        for region in (*block.reads, *block.writes, *(match.source for match in block.match_buffers)):
            self._touch(region.buffer)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        self._path.pop()
        # What a reduction writes lives across the loops of its reduction.
        depths = [
            self._loop_depth[var]
            for iv, value in zip(block.iter_vars, realize.iter_values, strict=True)
            if iv.iter_type != E.IterVar.DataPar
            for var in variables_in(value)
            if var in self._loop_depth
        ]
        if depths:
            for region in block.writes:
                self._touch(region.buffer, min(depths))

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        self._touch(load.buffer)
        for index in load.indices:
            self.visit(index)

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self._touch(store.buffer)
        self.visit(store.value)
        for index in store.indices:
            self.visit(index)

    def visit_BufferRealize(self, stmt: S.BufferRealize) -> None:
        self._declare(stmt.buffer)
        self.visit(stmt.body)

    def visit_DeclBuffer(self, stmt: S.DeclBuffer) -> None:
        self._declare(stmt.buffer)
        self.visit(stmt.body)

    def visit_Var(self, var: E.Var) -> None:
        for buffer in self._by_data.get(var, ()):
            self._touch(buffer)

    def visit_Buffer(self, buffer: Buffer) -> None:
        """Declarations are no accesses."""


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, S.Stmt | None]:
    """The innermost loop or block that holds all accesses to each buffer; None stands for the whole function.

    A buffer that a reduction writes is held outside of the loops of the reduction.
    """
    detector = _Detector(func)
    detector.visit(func.body)
    return {buffer: path[-1] if path else None for buffer, path in detector.common.items()}
