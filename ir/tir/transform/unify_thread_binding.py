"""UnifyThreadBinding: the loops of a kernel that are bound to one thread axis become one launch of that axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import NoReturn

from ... import dtype as dt
from ...arith.deep_equal import expr_deep_equal
from ...error import IRValueError
from ...module import IRModule
from ...node import Mutator, Visitor
from ...target.gpu_facts import WARP
from ...transform import PassContext
from ..analysis.thread_allreduce import ThreadAllreduce
from ..analysis.thread_groups import storage_scope
from ..buffer import Buffer
from ..expr import IntImm, IterVar, PrimExpr, Range, StringImm, Var
from ..function import PrimFunc
from ..operators import cast, const, logical_and
from ..spelled import spelled
from ..stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from ..stmt_functor import substitute, variables_in
from ..thread_axis import (
    LAUNCH_ORDER,
    WARP_CALLS,
    WARP_EXECUTION,
    is_barrier,
    is_block_scope,
    is_launched,
    is_private_scope,
)
from .auto_copy_nest import shared_out
from .prim_func_pass import PrimFuncPass

_THREADS = frozenset(tag for tag in LAUNCH_ORDER if tag.startswith("threadIdx"))


@dataclass(frozen=True)
class _Facts:
    """What a statement does, as far as threads are concerned."""

    tags: frozenset[str] = frozenset()
    """Of the thread axes that loops in it are bound to."""
    shared: bool = False
    """Whether it writes memory that all threads see, or calls what may."""
    blocks: bool = False
    """Whether it writes memory that the threads of a block see, of which each block has its own."""
    private: frozenset[Var] = frozenset()
    """Addresses of memory of a single thread that it writes and does not allocate."""
    meets: bool = False
    """Whether threads wait in it for all others of their block."""

    def __or__(self, other: _Facts) -> _Facts:
        return _Facts(
            self.tags | other.tags,
            self.shared or other.shared,
            self.blocks or other.blocks,
            self.private | other.private,
            self.meets or other.meets,
        )


_STORES_OF_WARPS = ("tir.tvm_store_matrix_sync", "tir.ptx_stmatrix", "tir.mma_store")
"""Those calls of a warp after which others may see what it wrote."""


def _is_held(address: Var) -> bool:
    """Whether memory belongs to a thread, or to a warp."""
    return address.dtype == "handle" and is_private_scope(storage_scope(address))


class _Look(Visitor):
    """Facts of every statement of a kernel, and the extents of its axes."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[int, _Facts] = {}
        self.extents: dict[str, list[PrimExpr]] = {}
        self.inner: set[Var] = set()
        """Variables of loops."""
        self._now = _Facts()

    def visit_Stmt(self, node: Stmt) -> None:
        before, self._now = self._now, _Facts()
        self._statement(node)
        self.facts[id(node)] = self._now
        self._now = before | self._now

    def _statement(self, node: Stmt) -> None:
        if isinstance(node, BufferStore):
            self._write(node.buffer)
        elif isinstance(node, Evaluate):
            self._evaluate(node)
        elif isinstance(node, For):
            self.inner.add(node.loop_var)
            if is_launched(node):
                assert node.thread_binding is not None
                self._bind(node.thread_binding.thread_tag, node.extent)
            if WARP_EXECUTION in node.annotations:
                self._bind("threadIdx.x", None)
        elif isinstance(node, Block) and WARP_EXECUTION in node.annotations:
            self._bind("threadIdx.x", None)
        elif isinstance(node, Block) and shared_out(node):
            self._now |= _Facts(tags=_THREADS)
        self.generic_visit(node)
        if isinstance(node, Block):
            own = {buffer.data for buffer in node.alloc_buffers}
            self._now = replace(self._now, private=self._now.private - own)

    def _evaluate(self, node: Evaluate) -> None:
        exchange = ThreadAllreduce.of(node.value)
        meets = exchange is not None or is_barrier(node)
        name = getattr(getattr(node.value, "op", None), "name", "")
        if name in WARP_CALLS:
            self._bind("threadIdx.x", None)
            held = [item for item in node.value.args if isinstance(item, Var) and _is_held(item)]  # type: ignore[attr-defined]
            self._now |= _Facts(shared=name in _STORES_OF_WARPS, private=frozenset(held))
            return
        self._now |= _Facts(shared=not meets, meets=meets)
        for result in exchange.results if exchange is not None else ():
            self._write(result.buffer)

    def _bind(self, tag: str, extent: PrimExpr | None) -> None:
        self._now |= _Facts(tags=frozenset([tag]))
        self.extents.setdefault(tag, []).extend([] if extent is None else [extent])

    def _write(self, buffer: Buffer) -> None:
        if is_private_scope(buffer.scope()):
            self._now |= _Facts(private=frozenset([buffer.data]))
        elif is_block_scope(buffer.scope()):
            self._now |= _Facts(blocks=True)
        else:
            self._now |= _Facts(shared=True)


class _Kernel(Mutator):
    """Rewrites the statements of one kernel."""

    def __init__(self, facts: Mapping[int, _Facts], axes: Mapping[str, IterVar]) -> None:
        super().__init__()
        self._facts, self._axes = facts, axes
        self._unbound = frozenset(axes)
        """Tags of axes along which all threads run what is visited."""
        self._around: dict[str, Var] = {}
        """By tag: the variable of the innermost loop that is bound to it, around what is visited."""
        self._active: dict[str, PrimExpr] = {}
        """By tag: which threads run iterations of that loop, if not all; it guards what binds the axis no more."""

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_Stmt(self, node: Stmt) -> Stmt:
        facts = self._facts[id(node)]
        is_whole = not isinstance(node, Block)  # which the statement that binds it holds
        guards = [self._active[tag] for tag in self._active if tag not in facts.tags]
        if guards and is_whole:
            before = self._active
            self._active = {tag: item for tag, item in before.items() if tag in facts.tags}
            body = self.visit_Stmt(node)
            self._active = before
            return IfThenElse(reduce(logical_and, guards), body)
        for tag in facts.tags & self._around.keys():
            if self._around[tag] in variables_in(*_deciding(node)):
                self._refuse_nested(tag, f"{spelled(node)!r} stands around one that is bound to it, too,")
        idle = self._unbound - facts.tags
        if facts.blocks:
            idle &= _THREADS
        elif not facts.shared:
            idle = frozenset()
        if not idle or facts.private or facts.meets or not is_whole:
            return self._inside(node, self._unbound)
        first = [self._axes[tag].var.equal(0) for tag in LAUNCH_ORDER if tag in idle]
        return IfThenElse(reduce(logical_and, first), self._inside(node, self._unbound - idle))

    def _inside(self, node: Stmt, unbound: frozenset[str]) -> Stmt:
        before, self._unbound = self._unbound, unbound
        if isinstance(node, For) and is_launched(node):
            result = self._bound(node)
        else:
            if isinstance(node, For | Block) and WARP_EXECUTION in node.annotations:
                self._unbound -= {"threadIdx.x"}
                kept = {key: item for key, item in node.annotations.items() if key != WARP_EXECUTION}
                node = node.replace(annotations=kept)
            elif isinstance(node, Block) and shared_out(node):
                self._unbound -= _THREADS
            result = self.generic_visit(node)
        self._unbound = before
        return result

    def _bound(self, loop: For) -> Stmt:
        """The body of a loop for the iteration that belongs to a thread."""
        assert loop.thread_binding is not None
        tag = loop.thread_binding.thread_tag
        axis = self._axes[tag]
        self._unbound -= {tag}
        outer = self._around.get(tag)
        if outer is not None and outer in variables_in(loop.body):
            self._refuse_nested(tag, f"what loop {loop.loop_var.name}, which is bound to it, too, runs")
        extent, launched = loop.extent, axis.dom.extent
        around, active = self._around, self._active
        self._around = {**around, tag: loop.loop_var}
        self._active = {key: item for key, item in active.items() if key != tag}
        if isinstance(extent, IntImm) and isinstance(launched, IntImm) and extent.value < launched.value:
            self._active[tag] = axis.var < cast(axis.var.dtype, extent)
        body = self.visit(loop.body)
        self._around, self._active = around, active
        index = cast(loop.loop_var.dtype, axis.var)
        body = substitute(body, {loop.loop_var: _plus(loop.min, index)})
        for key, value in loop.annotations.items():
            body = AttrStmt(StringImm(""), key, value, body)  # how loops inside of it are to be unrolled
        return body

    def _refuse_nested(self, tag: str, what: str) -> NoReturn:
        raise IRValueError(
            f"loop {self._around[tag].name} is bound to {tag}, and {what} depends on it: a thread has one index along an axis; bind one of"
            " the loops to another axis, or let the inner one not depend on the outer one"
        )


def _deciding(node: Stmt) -> list[PrimExpr]:
    """What decides whether, and how often, the statements in another one run, and the values of its variables."""
    if isinstance(node, IfThenElse | While):
        return [node.condition]
    if isinstance(node, BlockRealize):
        return [node.predicate]
    if isinstance(node, For):
        return [node.min, node.extent]
    return [node.value] if isinstance(node, LetStmt) else []


def _plus(start: PrimExpr, index: PrimExpr) -> PrimExpr:
    return index if isinstance(start, IntImm) and start.value == 0 else start + index


class _Unify(Mutator):
    def __init__(self, warp_size: int) -> None:
        super().__init__()
        self._warp_size = warp_size

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_For(self, loop: For) -> Stmt:
        if not is_launched(loop):
            return self.generic_visit(loop)
        look = _Look()
        look.visit(loop)
        axes = {tag: self._axis(tag, look) for tag in LAUNCH_ORDER if tag in look.extents}
        body: Stmt = _Kernel(look.facts, axes).visit(loop)
        for tag in reversed(axes):
            axis = axes[tag]
            body = For(
                axis.var, const(0, axis.var.dtype), axis.dom.extent, ForKind.THREAD_BINDING, body,
                IterVar(None, Var("", axis.var.dtype), IterVar.ThreadIndex, tag),
            )  # fmt: skip
        return body

    def _axis(self, tag: str, look: _Look) -> IterVar:
        found = look.extents[tag] or [const(self._warp_size, "int32")]
        extent = found[0]
        for other in found[1:]:
            if isinstance(extent, IntImm) and isinstance(other, IntImm):
                extent = extent if extent.value >= other.value else other
            elif not expr_deep_equal(extent, other):
                raise IRValueError(
                    f"loops of one kernel are bound to {tag} with extents {extent} and {other}; they must be equal, or constant"
                )
        inner = [var.name for var in variables_in(extent) if var in look.inner]
        if inner:
            raise IRValueError(
                f"a loop over {extent} is bound to {tag}, which depends on {inner[0]}, a loop of the kernel: how many threads"
                " run must be known when it begins"
            )
        var = Var(tag.replace(".", "_"), extent.dtype if dt.is_index(extent.dtype) else "int32")
        return IterVar(Range.from_min_extent(const(0, var.dtype), extent), var, IterVar.ThreadIndex, tag)


@dataclass(frozen=True)
class UnifyThreadBinding(PrimFuncPass):
    """Bind each thread axis once, around everything that its threads run; runs on opaque blocks, before CompactBufferAllocation.

    A kernel begins at the outermost loop that is bound. Where one of its loops has fewer iterations than the axis has threads, the
    others do nothing. What stands in no loop of an axis is run by all its threads if it writes memory of their own or they meet in it,
    and by the first alone if several see what it writes. (Shared memory is a block's own.) Loops and blocks
    annotated ``warp_execution`` are run by the threads of a
    warp together: these are bound to ``threadIdx.x``. Blocks annotated ``auto_copy`` between memories that all
    threads see are run by all of them: LowerAutoCopy shares them out.

    Before::

        for bx in T.thread_binding(16, thread="blockIdx.x"):
            for i in T.thread_binding(32, thread="threadIdx.x"):
                shared[i] = A[bx * 32 + i]
            for j in T.thread_binding(32, thread="threadIdx.x"):
                B[bx * 32 + j] = shared[31 - j]

    After::

        for blockIdx_x in T.thread_binding(16, thread="blockIdx.x"):
            for threadIdx_x in T.thread_binding(32, thread="threadIdx.x"):
                shared[threadIdx_x] = A[blockIdx_x * 32 + threadIdx_x]
                B[blockIdx_x * 32 + threadIdx_x] = shared[31 - threadIdx_x]

    Raises:
        IRValueError: extents of an axis that are not constant differ, or depend on what is computed in the kernel; a loop stands in
            another one of its axis, and what it runs depends on both.
    """

    pass_name = "tir.UnifyThreadBinding"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function whose kernels bind every axis once, outside of everything."""
        warp_size = getattr(func.attrs.get("target"), "thread_warp_size", None) or WARP
        body = _Unify(warp_size).visit(func.body)
        return func if body is func.body else func.replace(body=body)
