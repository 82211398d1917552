"""InjectPTXAsyncCopy: copies from global to shared memory that no thread waits for while it computes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from ... import dtype as dt
from ...arith.analyzer import Analyzer
from ...module import IRModule
from ...node import post_order_visit
from ...transform import PassContext
from .. import expr as E
from ..analysis.contiguous import first_of_piece
from ..expr import BufferLoad, Call, IntImm, PrimExpr, Range
from ..function import PrimFunc
from ..op import ptx_commit_group, ptx_cp_async, ptx_wait_group
from ..operators import const, logical_and
from ..stmt import AttrStmt, BufferStore, Evaluate, For, LetStmt, Stmt, seq
from ..stmt_functor import StmtExprMutator
from .pipeline_queues import ASYNC, COMMIT, IN_FLIGHT, WAIT
from .prim_func_pass import PrimFuncPass

_SIZES = (4, 8, 16)
"""How many bytes an instruction copies."""


class _Source(NamedTuple):
    """What is copied."""

    load: BufferLoad
    condition: PrimExpr | None
    """Zeros are written where it does not hold."""


def _uniform(condition: PrimExpr) -> PrimExpr | None:
    """A condition that all lanes share; None where they do not."""
    scalar = condition.value if isinstance(condition, E.Broadcast) else condition
    return scalar if dt.lanes(scalar.dtype) == 1 else None


def _is_zero(value: PrimExpr) -> bool:
    """Whether all bits of a value are 0."""
    scalar = value.value if isinstance(value, E.Broadcast) else value
    if isinstance(scalar, IntImm):
        return scalar.value == 0
    return isinstance(scalar, E.FloatImm) and scalar.value == 0 and math.copysign(1, scalar.value) > 0


def _source_of(value: PrimExpr) -> _Source | None:
    """A value that is loaded, or is zero where a condition does not hold; None for any other."""
    if isinstance(value, BufferLoad):
        if value.predicate is None:
            return _Source(value, None)
        condition = _uniform(value.predicate)
        return None if condition is None else _Source(value, condition)
    if not isinstance(value, Call) or getattr(value.op, "name", "") != "tir.if_then_else":
        return None
    outer, inner = _uniform(value.args[0]), _source_of(value.args[1])
    if outer is None or inner is None or not _is_zero(value.args[2]):
        return None
    return _Source(inner.load, outer if inner.condition is None else logical_and(outer, inner.condition))


class _Inject(StmtExprMutator):
    def __init__(self, has_waits: bool) -> None:
        super().__init__()
        self.copies = 0
        """How many became asynchronous."""
        self._analyzer = Analyzer()
        self._has_waits = has_waits
        self._is_async = self._is_queued = False

    def visit_Buffer(self, buffer: Any) -> Any:
        return buffer

    def visit_For(self, loop: For) -> Stmt:
        self._analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        return self.generic_visit(loop)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        if dt.is_index(stmt.var.dtype):
            self._analyzer.bind(stmt.var, stmt.value)
        return self.generic_visit(stmt)

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.thread is not None:
            first = const(0, stmt.value.dtype)
            self._analyzer.bind(stmt.thread.var, Range.from_min_extent(first, stmt.value))
        handler = _ATTRIBUTES.get(stmt.attr_key)
        return super().visit_AttrStmt(stmt) if handler is None else handler(self, stmt)

    def _scope(self, stmt: AttrStmt) -> Stmt:
        """The copies in a scope; where nothing else says when they must have arrived, that is at its end."""
        outer, self._is_async = self._is_async, True
        before = self.copies
        body = self.visit(stmt.body)
        self._is_async = outer
        if self.copies == before or outer or self._is_queued or self._has_waits:
            return body
        return seq(body, Evaluate(ptx_commit_group()), Evaluate(ptx_wait_group(0)))

    def _commit(self, stmt: AttrStmt) -> Stmt:
        outer, self._is_queued = self._is_queued, True
        body = self.visit(stmt.body)
        self._is_queued = outer
        return seq(body, Evaluate(ptx_commit_group()))

    def _wait(self, stmt: AttrStmt) -> Stmt:
        """The instruction takes a constant: the least number that the attribute can have."""
        inner = stmt.body
        if not isinstance(inner, AttrStmt) or inner.attr_key != IN_FLIGHT:
            return super().visit_AttrStmt(stmt)
        least = self._analyzer.const_int_bound(inner.value).min_value
        return seq(Evaluate(ptx_wait_group(max(least, 0))), self.visit(inner.body))

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        if not self._is_async or store.predicate is not None or not store.buffer.scope().startswith("shared"):
            return store
        source = _source_of(store.value)
        if source is None or source.load.buffer.scope() != "global" or source.load.dtype != store.value.dtype:
            return store
        if source.load.buffer.dtype != store.buffer.dtype:
            return store
        lanes = dt.lanes(store.value.dtype)
        size = dt.bytes_of(dt.element_of(store.value.dtype)) * lanes
        places = [self._first(item.indices, lanes) for item in (store, source.load)]
        if size not in _SIZES or places[0] is None or places[1] is None:
            return store
        self.copies += 1
        copy = ptx_cp_async(
            store.buffer.dtype,
            store.buffer.data,
            places[0],
            source.load.buffer.data,
            places[1],
            size,
            source.condition,
        )
        return Evaluate(copy, store.span)

    def _first(self, indices: tuple[PrimExpr, ...], lanes: int) -> PrimExpr | None:
        """Where an access of neighbours begins, at a multiple of their number; None for any other access."""
        if len(indices) != 1:
            return None
        is_piece, first = first_of_piece(indices[0])
        if not is_piece or first is None:
            return None
        found = self._analyzer.modular_set(first)
        return first if found.coeff % lanes == 0 and found.base % lanes == 0 else None


_ATTRIBUTES = {ASYNC: _Inject._scope, COMMIT: _Inject._commit, WAIT: _Inject._wait}


class _Plain(StmtExprMutator):
    """Drops the attributes of asynchronous copies."""

    def visit_Buffer(self, buffer: Any) -> Any:
        return buffer

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        return (
            self.visit(stmt.body)
            if stmt.attr_key in (*_ATTRIBUTES, IN_FLIGHT)
            else super().visit_AttrStmt(stmt)
        )


def _waits(func: PrimFunc) -> bool:
    """Whether a function says itself when copies must have arrived."""
    found: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, Call) and getattr(node.op, "name", "") == "tir.ptx_wait_group":
            found.append(node)

    post_order_visit(func.body, look)
    return bool(found)


@dataclass(frozen=True)
class InjectPTXAsyncCopy(PrimFuncPass):
    """Turn copies from global to shared memory inside of ``async_scope`` into the instruction ``cp.async``.

    Runs behind FlattenBuffer and VectorizeLoop. A copy is a store to shared memory of what a thread loads from global memory, 4, 8 or 16
    bytes of it, which begin at a multiple of their number in both; or of zeros where a condition, that of ``if_then_else`` or a
    predicate, does not hold. Everything else in the scope stays as it is. Arrays must be aligned to 16 bytes.

    ``async_commit_queue_scope`` becomes ``ptx_commit_group`` behind its body, ``async_wait_queue_scope`` with
    ``async_wait_inflight_count`` becomes ``ptx_wait_group`` before its body, for the least count that the loops around allow: the
    instruction takes a constant. Hardware has one queue: who waits for groups of one of several waits for those of others that are as
    old. A scope in no queue, of a function without ``ptx_wait_group``, ends with both. Where nothing becomes asynchronous, the attributes
    are dropped.

    Before::

        with T.attr(0, "async_commit_queue_scope", 0), T.attr(0, "async_scope", 1):
            B[tx * 4 : tx * 4 + 4] = A[i * 128 + tx * 4 : i * 128 + tx * 4 + 4]
        with T.attr(0, "async_wait_queue_scope", 0), T.attr(0, "async_wait_inflight_count", 1):
            C[tx] = B[tx]

    After::

        T.ptx_cp_async("float32", B.data, tx * 4, A.data, i * 128 + tx * 4, 16)
        T.ptx_commit_group()
        T.ptx_wait_group(1)
        C[tx] = B[tx]
    """

    pass_name = "tir.InjectPTXAsyncCopy"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with asynchronous copies."""
        inject = _Inject(_waits(func))
        body = inject.visit(func.body)
        return func.replace(body=body if inject.copies else _Plain().visit(func.body))
