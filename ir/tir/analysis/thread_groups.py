"""Threads that share memory: which variables tell them apart, and which values are the same for all of them.

A value is *uniform* in a group (the threads of a block, the lanes of a warp) if all threads of the group have the
same one wherever they come to it. Barriers may stand in loops and conditions that are uniform only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...arith.index_simplifier import IndexSimplifier
from ...error import IRValueError
from ...node import Visitor
from ...target.gpu_facts import WARP
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..expr import PrimExpr, Var
from ..intrinsic.declaration import CallEffectKind, effect_of
from ..operators import const, floordiv, floormod
from ..stmt_functor import pre_order_visit, substitute
from ..thread_axis import LAUNCH_ORDER, is_private_scope, is_virtual

_GRID_TAGS, _BLOCK_TAGS = LAUNCH_ORDER[:3], LAUNCH_ORDER[3:]


@dataclass(frozen=True)
class GroupKind:
    """Threads that meet at a barrier."""

    name: str
    barrier: str
    """The scope of their barrier."""
    barriers: tuple[str, ...]
    """Scopes of barriers at which at least these threads meet."""


BLOCK = GroupKind("block", "shared", ("shared", "shared.dyn", "global"))
LANES = GroupKind("warp", "warp", ("warp", "shared", "shared.dyn", "global"))


@dataclass
class ThreadGroup:
    """The threads of one group in one kernel."""

    kind: GroupKind
    simplifier: IndexSimplifier
    identity: dict[Var, int | None] = field(default_factory=dict)
    """The variables that tell its threads apart, with their extents where those are known."""
    uniform: set[Var] = field(default_factory=set)
    """Thread variables that are the same in all of the group."""
    values: dict[Var, PrimExpr] = field(default_factory=dict)
    """Thread variables in terms of the others."""

    @classmethod
    def of(cls, kernel: S.Stmt, kind: GroupKind) -> ThreadGroup:
        """The groups of a kernel.

        Raises:
            IRValueError: virtual threads are left, or two nests launch different numbers of threads.
        """
        group = cls(kind, IndexSimplifier())
        axes = _axes(kernel)
        for tag, variables in axes.items():
            first, extent = variables[0]
            group.values.update({var: first for var, _ in variables[1:]})
            count = extent.value if isinstance(extent, E.IntImm) else None
            group.simplifier.bind_range(first, const(0, first.dtype), extent)
            if tag in _BLOCK_TAGS:
                group.identity[first] = count
            else:
                group.uniform.add(first)
        if kind is LANES:
            group._take_lanes(axes)
        return group

    def _take_lanes(self, axes: dict[str, list[tuple[Var, PrimExpr]]]) -> None:
        """Threads by warps and lanes: the first of 32 threads in a row, x before y before z, begins a warp."""
        extents = list(self.identity.values())
        total = 1
        for extent in extents:
            if extent is None:
                raise IRValueError(
                    "warps of a block whose number of threads is not constant cannot be told apart"
                )
            total *= extent
        dtype = next(iter(self.identity)).dtype if self.identity else "int32"
        warp, lane = Var("warp", dtype), Var("lane", dtype)
        self.simplifier.bind(warp, 0, -(-total // WARP) - 1)
        self.simplifier.bind(lane, 0, min(total, WARP) - 1)
        number, before = warp * const(WARP, dtype) + lane, 1
        for tag in _BLOCK_TAGS:
            if tag not in axes:
                continue
            var = axes[tag][0][0]
            extent = self.identity[var]
            assert extent is not None
            value = floormod(floordiv(number, const(before, dtype)), const(extent, dtype))
            value = self.simplifier.simplify(value)
            self.values.update({item: value for item, _ in axes[tag]})
            before *= extent
        self.identity = {lane: min(total, WARP)}
        self.uniform.add(warp)

    @property
    def is_single(self) -> bool:
        """Whether it has one thread only."""
        return all(extent == 1 for extent in self.identity.values())

    def in_terms(self, expr: PrimExpr) -> PrimExpr:
        """An expression in terms of the group's variables."""
        return substitute(expr, self.values) if self.values else expr


def _axes(kernel: S.Stmt) -> dict[str, list[tuple[Var, PrimExpr]]]:
    found: dict[str, list[tuple[Var, PrimExpr]]] = {}

    def look(node: Any) -> bool:
        thread = node.thread if isinstance(node, S.AttrStmt) else None
        if thread is None:
            return isinstance(node, S.Stmt)
        if is_virtual(thread.thread_tag) or node.attr_key == "virtual_thread":
            raise IRValueError(
                f"virtual thread {thread.var.name} is left; InjectVirtualThread comes before barriers are placed"
            )
        known = found.setdefault(thread.thread_tag, [])
        known.append((thread.var, node.value))
        first = known[0][1]
        if (
            isinstance(first, E.IntImm)
            and isinstance(node.value, E.IntImm)
            and first.value != node.value.value
        ):
            raise IRValueError(
                f"{thread.thread_tag} has extents {first.value} and {node.value.value} in one kernel; UnifyThreadBinding makes them one"
            )
        return True

    pre_order_visit(kernel, look)
    return {tag: found[tag] for tag in (*_GRID_TAGS, *_BLOCK_TAGS) if tag in found}


def barrier_of(stmt: S.Stmt, kind: GroupKind) -> bool:
    """Whether a statement is a barrier at which the threads of such a group meet."""
    if not isinstance(stmt, S.Evaluate) or not isinstance(stmt.value, E.Call):
        return False
    call = stmt.value
    if getattr(call.op, "name", "") != "tir.tvm_storage_sync":
        return False
    return isinstance(call.args[0], E.StringImm) and call.args[0].value in kind.barriers


class Uniformity(Visitor):
    """Which variables, and private buffers, may be different in the threads of a group."""

    remembers: ClassVar[bool] = False

    def __init__(self, group: ThreadGroup, kernel: S.Stmt) -> None:
        super().__init__()
        self.group = group
        self.varying: set[Var] = {*group.identity}
        """Variables, and address variables of private buffers."""
        self._different = 0
        """Around how many statements that not all threads run the same way the walk is."""
        before = -1
        while before != len(self.varying):
            before = len(self.varying)
            self.visit(kernel)

    # -- questions ---------------------------------------------------------------------------------------------------
    def varies(self, expr: PrimExpr) -> bool:
        """Whether threads of the group may see different values of an expression."""
        if isinstance(expr, E.And | E.Or | E.CmpExpr):
            return self.varies(expr.a) or self.varies(expr.b)
        if isinstance(expr, E.Not):
            return self.varies(expr.a)
        expr = self.group.in_terms(expr)
        if not self._may_vary(expr):
            return False
        if E.dt.is_index(expr.dtype) and self.group.simplifier.is_index(expr):
            return self._may_vary(self.group.simplifier.simplify(expr))
        return True

    def _may_vary(self, expr: PrimExpr) -> bool:
        if isinstance(expr, E.Call):
            name = getattr(expr.op, "name", "")
            if name == "tir.tvm_thread_invariant":
                return False
            if effect_of(expr) > CallEffectKind.PURE:
                return True
        if isinstance(expr, E.BufferLoad):
            if expr.buffer.data in self.varying:
                return True
            return any(self.varies(index) for index in expr.indices)
        if isinstance(expr, Var):
            return expr in self.varying
        below: list[Any] = []
        expr._visit_children(below.append)
        return any(self._may_vary(item) for item in below if isinstance(item, PrimExpr))

    # -- the walk ------------------------------------------------------------------------------------------------------
    @contextmanager
    def _differently(self, expr: PrimExpr) -> Iterator[bool]:
        differs = self.varies(expr)
        self._different += differs
        yield differs
        self._different -= differs

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        """Nothing is written."""
        for index in load.indices:
            self.visit(index)

    def visit_Call(self, call: E.Call) -> None:
        for arg in call.args:
            if isinstance(arg, E.BufferLoad) and getattr(call.op, "name", "") == "tir.address_of":
                self._written(arg.buffer)
            elif isinstance(arg, PrimExpr):
                self.visit(arg)

    def visit_Var(self, var: Var) -> None:
        """An address that goes somewhere: what is there may be written there."""
        if var.dtype == "handle" and self._is_private(var):
            self.varying.add(var)

    def visit_Buffer(self, buffer: Buffer) -> None:
        """A declaration."""

    def _is_private(self, data: Var) -> bool:
        """Whether each thread of the group has memory of its own behind an address variable."""
        scope = storage_scope(data)
        return is_private_scope(scope) and not (scope == "warp" and self.group.kind is LANES)

    def _written(self, buffer: Buffer) -> None:
        if self._is_private(buffer.data):
            self.varying.add(buffer.data)

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self.visit(store.value)
        values: Sequence[PrimExpr] = (store.value, *store.indices)
        if self._different or store.predicate is not None or any(self.varies(item) for item in values):
            self._written(store.buffer)

    def visit_LetStmt(self, let: S.LetStmt) -> None:
        self.visit(let.value)
        if self.varies(let.value):
            self.varying.add(let.var)
        self.visit(let.body)

    def visit_For(self, loop: S.For) -> None:
        with self._differently(loop.min) as begin, self._differently(loop.extent) as end:
            if begin or end:
                self.varying.add(loop.loop_var)
            self.visit(loop.body)

    def visit_While(self, loop: S.While) -> None:
        with self._differently(loop.condition):
            self.visit(loop.body)

    def visit_IfThenElse(self, node: S.IfThenElse) -> None:
        with self._differently(node.condition):
            self.visit(node.then_case)
            if node.else_case is not None:
                self.visit(node.else_case)

    def visit_AttrStmt(self, stmt: S.AttrStmt) -> None:
        self.visit(stmt.body)

    def visit_Allocate(self, node: S.Allocate) -> None:
        self.visit(node.body)

    visit_AllocateConst = visit_Allocate

    def visit_DeclBuffer(self, node: S.DeclBuffer) -> None:
        self.visit(node.body)


def storage_scope(data: Var) -> str:
    """The scope of the memory behind an address variable."""
    return getattr(data.type_annotation, "storage_scope", "") or "global"
