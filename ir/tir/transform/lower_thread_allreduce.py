"""LowerThreadAllreduce: what threads of a block combine becomes shuffles within their warps, and shared memory between these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from ... import dtype as dt
from ...error import IRValueError
from ...module import IRModule
from ...node import Visitor
from ...target.gpu_facts import WARP
from ...target.target import Target
from ...transform import PassContext
from ..analysis.thread_allreduce import ThreadAllreduce
from ..buffer import Buffer
from ..effects import is_effect
from ..expr import BufferLoad, Call, Cast, CommReducer, IntImm, IterVar, PrimExpr, Var
from ..function import PrimFunc
from ..intrinsic.control import if_then_else
from ..operators import cast, const
from ..stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass
from .thread_exchange import Exchange, Step, in_order, linear_index, without_unused_names

_TAGS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_INVARIANT = "tir.tvm_thread_invariant"
_COMMON = ("global", "shared", "shared.dyn")
"""Memory that the threads of a block share."""


def _refuse(reason: str) -> NoReturn:
    raise IRValueError(f"LowerThreadAllreduce: {reason}")


class _Lower(StmtExprMutator):
    def __init__(self, warp_size: int, unread: set[Var]) -> None:
        super().__init__()
        self._warp_size, self._unread = warp_size, unread
        self._combiners: list[CommReducer] = []
        self._threads: dict[str, IterVar] = {}
        """By tag, the axes of threads around."""
        self._extents: dict[str, PrimExpr] = {}
        self._own: set[Var] = set()
        """Variables that may be another number in each thread of a block."""
        self._apart: list[PrimExpr] = []
        """What decides how often threads come here, and may be different in each of them."""
        self._repeating = 0
        self._rooms: list[Buffer] = []

    # -- what stands around

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.attr_key == "reduce_scope" and isinstance(stmt.node, CommReducer):
            self._combiners.append(stmt.node)
            body: Stmt = self.visit(stmt.body)
            self._combiners.pop()
            return body
        thread = stmt.thread
        if thread is None or thread.thread_tag not in _TAGS:
            return super().visit_AttrStmt(stmt)
        return self._within_thread(stmt, thread)

    def _within_thread(self, stmt: AttrStmt, thread: IterVar) -> Stmt:
        around = self._threads, self._extents, self._own, self._rooms, self._repeating
        self._threads = {**self._threads, thread.thread_tag: thread}
        self._extents = {**self._extents, thread.thread_tag: stmt.value}
        self._own = (
            self._own
            if (isinstance(stmt.value, IntImm) and stmt.value.value == 1)
            else {*self._own, thread.var}
        )
        self._rooms, self._repeating = [], 0
        mapped: AttrStmt = self.generic_visit(stmt)
        rooms = self._rooms
        self._threads, self._extents, self._own, self._rooms, self._repeating = around
        if not rooms:
            return mapped
        body = mapped.body
        for room in reversed(rooms):
            body = Allocate(room.data, room.dtype, room.shape, const(True), body)
        return mapped.replace(body=body)

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        mapped: Allocate = self.generic_visit(stmt)
        return mapped.body if stmt.buffer_var in self._unread else mapped

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> Stmt:
        mapped: DeclBuffer = self.generic_visit(stmt)
        return mapped.body if stmt.buffer.data in self._unread else mapped

    def visit_For(self, loop: For) -> Stmt:
        apart = [bound for bound in (loop.min, loop.extent) if self._is_own(bound)]
        if loop.kind == ForKind.VECTORIZED:
            apart.append(loop.loop_var)
        if self._is_own(loop.min):
            self._own.add(loop.loop_var)
        is_once = isinstance(loop.extent, IntImm) and loop.extent.value <= 1
        return self._below(loop, apart, repeating=0 if is_once else 1)

    def visit_While(self, loop: While) -> Stmt:
        return self._below(loop, [loop.condition] if self._is_own(loop.condition) else [], repeating=1)

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        return self._below(stmt, [stmt.condition] if self._is_own(stmt.condition) else [])

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        if self._is_own(stmt.value):
            self._own.add(stmt.var)
        mapped: Stmt = self.generic_visit(stmt)
        return mapped

    def _below(self, stmt: Stmt, apart: Sequence[PrimExpr], repeating: int = 0) -> Stmt:
        self._apart += apart
        self._repeating += repeating
        mapped: Stmt = self.generic_visit(stmt)
        self._repeating -= repeating
        del self._apart[len(self._apart) - len(apart) :]
        return mapped

    def _is_own(self, value: PrimExpr) -> bool:
        """Whether a value may be another one in each thread of a block."""
        finder = _Own(self._own)
        finder.visit(value)
        return finder.is_found

    # -- what is lowered

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        given = ThreadAllreduce.of(stmt.value)
        if given is not None:
            return self._lowered(given)
        mapped: Stmt = self.generic_visit(stmt)
        return mapped

    def visit_Call(self, call: Call) -> PrimExpr:
        if ThreadAllreduce.of(call) is not None:
            _refuse("tvm_thread_allreduce stands in an expression; it is a statement of its own")
        mapped: PrimExpr = self.generic_visit(call)
        return mapped

    def _lowered(self, given: ThreadAllreduce) -> Stmt:
        combiner = self._combiner_of(given)
        exchange = self._exchange(given, combiner)
        if self._apart and exchange.size > 1:
            _refuse(
                f"whether threads come to the reduction over {_names(given.threads)} depends on {self._apart[0]}, which each of them"
                " may see differently; let all threads of a block come to it, and put the condition into what they give"
            )
        values: list[PrimExpr] = []
        for value, var, identity in zip(given.values, combiner.lhs, combiner.identity_element, strict=True):
            own = cast(var.dtype, self.visit(value))
            is_always = isinstance(given.condition, IntImm) and given.condition.value
            values.append(
                own
                if is_always
                else if_then_else(self.visit(given.condition), own, cast(var.dtype, identity))
            )
        steps, found, rooms = exchange.combined(values)
        self._rooms += rooms
        stores: list[Step] = [
            BufferStore(
                self.visit(result.buffer),
                cast(result.dtype, value),
                [self.visit(index) for index in result.indices],
            )
            for result, value in zip(given.results, found, strict=True)
            if result.buffer.data not in self._unread
        ]
        return in_order(without_unused_names([*steps, *stores]))

    def _combiner_of(self, given: ThreadAllreduce) -> CommReducer:
        if not self._combiners:
            _refuse("tvm_thread_allreduce stands in no attribute 'reduce_scope', which says how to combine")
        combiner = self._combiners[-1]
        if len(combiner.lhs) != len(given.values):
            _refuse(
                f"a combiner of {len(combiner.lhs)} values is given {len(given.values)} by tvm_thread_allreduce"
            )
        for item in (*given.values, *given.results):
            if dt.lanes(item.dtype) != 1:
                _refuse(f"threads combine numbers, and {item} is a vector ({item.dtype})")
        return combiner

    def _exchange(self, given: ThreadAllreduce, combiner: CommReducer) -> Exchange:
        shared = {self._tag_of(thread) for thread in given.threads if not isinstance(thread, IntImm)}
        axes = [(tag, _index(self._threads[tag]), self._extent(tag)) for tag in _TAGS if tag in self._threads]
        inner = [(index, extent) for tag, index, extent in axes if tag in shared]
        outer = [(index, extent) for tag, index, extent in axes if tag not in shared]
        which = [tag in shared for tag, _, extent in axes if extent > 1]
        return Exchange(
            combiner,
            size=math.prod(extent for _, extent in inner),
            groups=math.prod(extent for _, extent in outer),
            rank=linear_index(inner),
            group=linear_index(outer),
            linear=linear_index([(index, extent) for _, index, extent in axes]),
            is_in_order=which == sorted(which, reverse=True),
            warp_size=self._warp_size,
            is_repeated=self._repeating > 0,
        )

    def _tag_of(self, thread: PrimExpr) -> str:
        var = thread.value if isinstance(thread, Cast) else thread
        for tag, axis in self._threads.items():
            if axis.var is var:
                return tag
        _refuse(
            f"tvm_thread_allreduce is given {thread}, which is no axis of threads around it"
            f" ({', '.join(f'{axis.var.name}: {tag}' for tag, axis in self._threads.items()) or 'there is none'})"
        )

    def _extent(self, tag: str) -> int:
        extent = self._extents[tag]
        if not isinstance(extent, IntImm):
            _refuse(f"threads share a reduction, and the extent of {tag} is {extent}; it must be a number")
        return int(extent.value)


class _Uses(Visitor):
    """Collects memory that is allocated, and what is used otherwise than for results of reductions."""

    def __init__(self) -> None:
        super().__init__()
        self.allocated: set[Var] = set()
        self.used: set[Var] = set()

    def visit_Allocate(self, stmt: Allocate) -> None:
        self.allocated.add(stmt.buffer_var)
        for part in (*stmt.extents, stmt.condition, stmt.body):
            self.visit(part)

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> None:
        self.visit(stmt.body)

    def visit_Var(self, var: Var) -> None:
        self.used.add(var)

    def visit_Call(self, call: Call) -> None:
        given = ThreadAllreduce.of(call)
        if given is None:
            self.generic_visit(call)
            return
        for part in (*given.values, given.condition, *given.threads):
            self.visit(part)
        for result in given.results:
            for index in result.indices:
                self.visit(index)


def _unread_results(func: PrimFunc) -> set[Var]:
    """The memory that takes results of reductions, and that nobody reads: one of several results often is of no use."""
    uses = _Uses()
    uses.visit(func.body)
    return uses.allocated - uses.used


class _Own(Visitor):
    """Finds what may be different in each thread of a block."""

    def __init__(self, own: set[Var]) -> None:
        super().__init__()
        self._own = own
        self.is_found = False

    def visit_Var(self, var: Var) -> None:
        self.is_found |= var in self._own

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self.is_found |= load.buffer.scope() not in _COMMON
        for index in load.indices:
            self.visit(index)

    def visit_Call(self, call: Call) -> None:
        if getattr(call.op, "name", None) == _INVARIANT:
            return
        self.is_found |= is_effect(call)
        self.generic_visit(call)


def _index(axis: IterVar) -> PrimExpr:
    first = axis.dom.min if axis.dom is not None else const(0)
    return axis.var if isinstance(first, IntImm) and first.value == 0 else axis.var - first


def _names(threads: Sequence[PrimExpr]) -> str:
    return ", ".join(str(thread) for thread in threads)


def _warp_size(func: PrimFunc) -> int:
    target = func.attrs.get("target")
    found = target.thread_warp_size if isinstance(target, Target) and target.is_gpu else WARP
    if found & (found - 1):
        _refuse(f"threads of a warp combine in halves, and thread_warp_size is {found}, no power of two")
    return found


@dataclass(frozen=True)
class LowerThreadAllreduce(PrimFuncPass):
    """Replace ``tvm_thread_allreduce`` by what threads can do.

    Where the threads of a reduction are one warp, or groups of them within warps, they shuffle. Where they are several warps, each warp
    combines its own, leaves one value in shared memory, and combines what all of them have left. Where neither holds, because a group
    begins in the middle of a warp or its threads do not follow each other, halves of the threads combine values in shared memory. Threads
    count with x running fastest; how many are a warp is said by ``thread_warp_size`` of the function's target, 32 by default. All
    threads of a reduction have the result. Of several results those that nobody reads are not kept.

    Before::

        with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
            T.tvm_thread_allreduce(T.uint32(1), a[0], True, b[0], threadIdx_x)  # of 4 threads

    After::

        part = a[0]
        other = T.tvm_warp_shuffle_down(T.uint32(15), part, 2, 4, 32)
        part_1 = part + other
        other_1 = T.tvm_warp_shuffle_down(T.uint32(15), part_1, 1, 4, 32)
        part_2 = part_1 + other_1
        b[0] = T.tvm_warp_shuffle(T.uint32(15), part_2, 0, 4, 32)

    Raises:
        IRValueError: the extent of a thread axis is no number; a condition or a loop around, which threads of a block may see differently,
            decides whether they come to the reduction; the call is not of the form
            ``(number of values, values..., condition, results..., thread axes...)`` in an attribute ``reduce_scope``.
    """

    pass_name = "tir.LowerThreadAllreduce"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without ``tvm_thread_allreduce``."""
        return func.replace(body=_Lower(_warp_size(func), _unread_results(func)).visit(func.body))
