"""A block that copies between memories: its loops, its one store, and how far an iteration of each loop moves in both buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...arith.analyzer import Analyzer
from ...error import IRValueError
from ..buffer import Buffer
from ..expr import BufferLoad, IntImm, PrimExpr, Var
from ..operators import const
from ..stmt import Block, BlockRealize, BufferStore, For, IfThenElse, Stmt
from ..stmt_functor import loads_in, substitute

AUTO_COPY = "auto_copy"
"""Annotation of blocks that copy from one memory to another, in whatever way is quick."""


def shared_out(block: Block) -> bool:
    """Whether the threads of a block of threads share out what a block copies: it is annotated, and all of them see both memories."""
    if not is_auto_copy(block):
        return False
    scopes = [region.buffer.scope() for region in (*block.reads, *block.writes)]
    return len(scopes) > 1 and all(scope.startswith(("global", "shared")) for scope in scopes)


def is_auto_copy(block: Block) -> bool:
    """Whether a block is annotated as a copy."""
    given = block.annotations.get(AUTO_COPY, False)
    return bool(getattr(given, "value", given))


def holds_statements_alone(block: Block) -> bool:
    """Whether a block has no variables, init, views or buffers of its own."""
    return not (block.iter_vars or block.match_buffers or block.alloc_buffers) and block.init is None


class CopyNest:
    """The loops of a block around a store of what is loaded from another buffer.

    Raises:
        IRValueError: the block does something else.
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        self.loops: list[For] = []
        self.conditions: list[PrimExpr] = []
        if block.iter_vars or block.init is not None or block.match_buffers:
            raise self.refusal(
                "it has variables, an init or views; run ConvertBlocksToOpaque and LowerMatchBuffer first"
            )
        self.store: BufferStore = self._found(block.body)
        loads = [load for load in loads_in(self.store.value) if load.dtype == self.store.value.dtype]
        if not loads or self.store.predicate is not None:
            raise self.refusal("it stores what is no element of another buffer")
        self.load: BufferLoad = loads[0]

    @property
    def source(self) -> Buffer:
        """What is copied from."""
        return self.load.buffer

    @property
    def target(self) -> Buffer:
        """What is copied to."""
        return self.store.buffer

    def _found(self, stmt: Stmt) -> BufferStore:
        while not isinstance(stmt, BufferStore):
            if isinstance(stmt, For):
                self.loops.append(stmt)
                stmt = stmt.body
            elif isinstance(stmt, IfThenElse) and stmt.else_case is None:
                self.conditions.append(stmt.condition)
                stmt = stmt.then_case
            elif isinstance(stmt, BlockRealize) and holds_statements_alone(stmt.block):
                if number(stmt.predicate) != 1:
                    self.conditions.append(stmt.predicate)
                stmt = stmt.block.body
            else:
                raise self.refusal(f"there is a {type(stmt).__name__} where one store is expected")
        return stmt

    def refusal(self, why: str) -> IRValueError:
        """The error that says why the block is no copy of this kind."""
        return IRValueError(f"block {self.block.name_hint!r} is annotated {AUTO_COPY!r}, but {why}")

    def mentioned(self) -> list[Any]:
        """All expressions that say what is copied."""
        bounds = [part for loop in self.loops for part in (loop.min, loop.extent)]
        return [*bounds, *self.conditions, self.store.value, *self.store.indices]

    def strides(self, access: BufferLoad | BufferStore) -> list[PrimExpr]:
        """By how many elements an iteration of each loop moves an access."""
        analyzer = Analyzer()
        offset = access.buffer.offset_of(access.indices)[0]
        return [_stride(offset, loop.loop_var, analyzer) for loop in self.loops]

    def at(self, values: Mapping[Var, PrimExpr]) -> tuple[BufferStore, Sequence[PrimExpr]]:
        """The store, and the conditions under which it happens, for values of the loops' variables."""
        return substitute(self.store, values), [substitute(item, values) for item in self.conditions]


def _stride(offset: PrimExpr, var: Var, analyzer: Analyzer) -> PrimExpr:
    moved = substitute(offset, {var: var + const(1, var.dtype)})
    found: PrimExpr = analyzer.simplify_index(moved - offset)
    return found


def number(expr: PrimExpr) -> int | None:
    """The value of a constant."""
    return expr.value if isinstance(expr, IntImm) else None
