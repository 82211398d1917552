"""InjectVirtualThread: virtual threads become copies of statements within one thread, beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ... import dtype as dt
from ...error import IRValueError
from ...module import IRModule
from ...node import Visitor, post_order_visit
from ...transform import PassContext
from .. import expr as E
from ..analysis.reads_memory import reads_memory
from ..buffer import Buffer, decl_buffer
from ..effects import is_effect
from ..expr import IntImm, PrimExpr, Var
from ..faults import may_fault
from ..function import PrimFunc
from ..intrinsic.address_arguments import ADDRESSES
from ..operators import cast, const, logical_not
from ..spelled import spelled
from ..stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from ..stmt_functor import StmtExprMutator, substitute
from ..thread_axis import COMMON_TO_VIRTUAL_THREADS, is_virtual
from .fresh_copy import fresh_copy
from .prim_func_pass import PrimFuncPass

_MOST_COPIES = 16
"""Virtual threads whose copies are unrolled."""

_TOGETHER = ("tir.tvm_storage_sync", "tir.ptx_commit_group", "tir.ptx_wait_group")
"""Calls that all virtual threads of a thread make as one."""

_REPEATABLE = (
    *_TOGETHER, "tir.ptx_cp_async", "tir.ptx_ldmatrix", "tir.ptx_stmatrix", "tir.tvm_load_matrix_sync", "tir.tvm_store_matrix_sync",
    "tir.tvm_fill_fragment", "tir.mma_store", "tir.mma_fill", "tir.prefetch", "tir.tvm_warp_shuffle", "tir.tvm_warp_shuffle_up",
    "tir.tvm_warp_shuffle_down", "tir.tvm_warp_activemask", "tir.tvm_thread_invariant",
)  # fmt: skip
"""Calls that do the same once as several times, on the same arguments."""


def _name(node: Any) -> str:
    return getattr(getattr(node, "op", None), "name", "")


class _Dependence(Visitor):
    """What in a body is different for each virtual thread."""

    remembers: ClassVar[bool] = False

    def __init__(self, var: Var, body: Stmt) -> None:
        super().__init__()
        self.different: set[Var] = {var}
        """Variables, and address variables of memory whose content is different."""
        self._around = 0
        self._allocated: set[Var] = set()
        self._values: dict[Var, PrimExpr] = {}
        self._common: set[Var] = set()
        """Address variables of memory of which no virtual thread needs a copy."""
        post_order_visit(body, self._note)
        before = 0
        while before != len(self.different):
            before = len(self.different)
            self.visit(body)

    def _note(self, node: Any) -> None:
        if isinstance(node, Allocate):
            self._allocated.add(node.buffer_var)
            if COMMON_TO_VIRTUAL_THREADS in node.annotations:
                self._common.add(node.buffer_var)

    def of(self, *exprs: PrimExpr | None) -> bool:
        """Whether one of the expressions is different, or must be evaluated as often as there are virtual threads."""
        return any(self._found(expr) for expr in exprs if expr is not None)

    def _found(self, node: Any) -> bool:
        if isinstance(node, Var):
            return node in self.different
        if is_effect(node) and _name(node) not in _REPEATABLE:
            return True
        below: list[Any] = []
        if isinstance(node, E.BufferLoad) and node.buffer.data in self.different:
            return True
        node._visit_children(lambda child: None if isinstance(child, Buffer) else below.append(child))
        return any(self._found(item) for item in below)

    # -- the walk ------------------------------------------------------------------------------------------------------
    def visit_PrimExpr(self, expr: PrimExpr) -> None:
        """Statements say what they evaluate."""

    def visit_BufferStore(self, store: BufferStore) -> None:
        if store.buffer.data in self._common:
            return
        updates = store.buffer.data not in self._allocated and self._reads(store.value, store.buffer.data)
        if self._around or updates or self.of(store.value, *store.indices, store.predicate):
            self.different.add(store.buffer.data)

    def _reads(self, value: PrimExpr, data: Var) -> bool:
        """Whether a value is made of what is in a memory, which another virtual thread may have changed before."""
        found = False

        def look(node: Any) -> None:
            nonlocal found
            if isinstance(node, E.BufferLoad):
                found |= node.buffer.data is data
            elif node in self._values:
                found |= self._reads(self._values[node], data)

        post_order_visit(value, look)
        return found

    def visit_Evaluate(self, node: Evaluate) -> None:
        if _name(node.value) in _TOGETHER or not (self._around or self.of(node.value)):
            return
        post_order_visit(node.value, self._given)

    def _given(self, node: Any) -> None:
        """What a call with different arguments is given the address of may be different behind it."""
        if isinstance(node, Var) and node.dtype == "handle":
            self.different.add(node)

    def visit_LetStmt(self, let: LetStmt) -> None:
        self._values[let.var] = let.value
        differs = bool(self._around) or self.of(let.value)
        if differs:
            self.different.add(let.var)
        self._under(differs and not _is_taken_apart(let), let.body)

    def _under(self, is_different: bool, *parts: Stmt | None) -> None:
        self._around += is_different
        for part in parts:
            if part is not None:
                self.visit(part)
        self._around -= is_different

    def visit_For(self, loop: For) -> None:
        differs = self.of(loop.min, loop.extent)
        if differs:
            self.different.add(loop.loop_var)
        self._under(differs, loop.body)

    def visit_While(self, loop: While) -> None:
        self._under(self.of(loop.condition), loop.body)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self._under(self.of(node.condition), node.then_case, node.else_case)

    def visit_Buffer(self, buffer: Buffer) -> None:
        """A declaration."""


class _Copies:
    """Makes the copies for one virtual thread axis.

    Args:
        var: its variable.
        extent: how many there are.
        body: what they do.
    """

    def __init__(self, var: Var, extent: int, body: Stmt) -> None:
        self.var = var
        self.extent = extent
        self._dependence = _Dependence(var, body)
        self._shift = _Shift(var, extent)
        self._guard: PrimExpr | None = None
        """What a virtual thread must fulfil to do what the walk is in."""

    # -- copies --------------------------------------------------------------------------------------------------------
    def _each(self, stmt: Stmt) -> Stmt:
        """The statement for each virtual thread in turn."""
        if self._guard is not None:
            stmt = IfThenElse(self._guard, stmt)
        var = Var(self.var.name, self.var.dtype)
        kind = ForKind.UNROLLED if self.extent <= _MOST_COPIES else ForKind.SERIAL
        body = fresh_copy(substitute(self._shift.visit(stmt), {self.var: var}))
        return For(var, const(0, var.dtype), const(self.extent, var.dtype), kind, body)

    def _differs(self, *exprs: PrimExpr | None) -> bool:
        return self._guard is not None or self._dependence.of(*exprs)

    def _is_different(self, data: Var) -> bool:
        return data in self._dependence.different

    # -- statements ----------------------------------------------------------------------------------------------------
    def visit(self, stmt: Stmt) -> Stmt:
        """A statement for all virtual threads."""
        make = _MAKERS.get(stmt.__class__)
        if make is not None:
            return make(self, stmt)
        raise IRValueError(
            f"InjectVirtualThread does not know what {spelled(stmt)!r} means for virtual threads; blocks are lowered before"
        )

    def _sequence(self, stmt: SeqStmt) -> Stmt:
        return seq([self.visit(item) for item in stmt.seq])

    def _store(self, stmt: BufferStore) -> Stmt:
        if stmt.buffer.data in self._shift.sizes or self._differs(stmt.value, *stmt.indices, stmt.predicate):
            return self._each(stmt)
        return stmt

    def _evaluate(self, stmt: Evaluate) -> Stmt:
        if _name(stmt.value) in _TOGETHER or not self._differs(stmt.value):
            return stmt
        return self._each(stmt)

    def _for(self, loop: For) -> Stmt:
        if not _waits(loop.body):
            if self._differs(loop.min, loop.extent):
                return self._each(loop)
        elif self._dependence.of(loop.min, loop.extent):
            self._refuse(loop)
        elif self._guard is not None and (may_fault(loop.min) or may_fault(loop.extent)):
            self._refuse(loop)
        return loop.replace(body=self.visit(loop.body))

    def _while(self, loop: While) -> Stmt:
        if not self._differs(loop.condition):
            return loop.replace(body=self.visit(loop.body))
        if _waits(loop.body):
            self._refuse(loop)
        return self._each(loop)

    def _refuse(self, stmt: Stmt) -> None:
        raise IRValueError(
            f"a barrier stands within {spelled(stmt)!r}, which is different for the virtual threads {self.var.name}; "
            "let all of them run as often, with a condition around what only some do"
        )

    def _choice(self, stmt: IfThenElse) -> Stmt:
        if not self._differs(stmt.condition):
            other = None if stmt.else_case is None else self.visit(stmt.else_case)
            return stmt.replace(then_case=self.visit(stmt.then_case), else_case=other)
        if not _waits(stmt):
            return self._each(stmt)
        if reads_memory(stmt.condition) or may_fault(stmt.condition):
            return self._kept(Var("holds", "bool"), stmt.condition, self._guarded, stmt)
        return self._guarded(stmt.condition, stmt)

    def _guarded(self, condition: PrimExpr, stmt: IfThenElse) -> Stmt:
        """The branches of a condition, for those for which it holds, and for the others."""
        outer = self._guard
        parts = []
        for holds, branch in ((condition, stmt.then_case), (logical_not(condition), stmt.else_case)):
            if branch is not None:
                self._guard = holds if outer is None else E.And(outer, holds)
                parts.append(self.visit(branch))
        self._guard = outer
        return seq(parts)

    def _kept(self, var: Var, value: PrimExpr, body: Any, stmt: Stmt) -> Stmt:
        """A value of each virtual thread in a register, for what follows; ``body`` makes that of its load."""
        if value.dtype == "handle" or dt.lanes(value.dtype) != 1:
            self._refuse(stmt)
        register = decl_buffer((self.extent,), value.dtype, var.name, scope="local")
        computed = self._each(BufferStore(register, value, [self.var]))
        then = body(E.BufferLoad(register, [self.var]), stmt)
        inner = DeclBuffer(register, seq(computed, then))
        return Allocate(register.data, register.dtype, register.shape, const(True), inner)

    def _let(self, stmt: LetStmt) -> Stmt:
        harmless = self._guard is None or not may_fault(stmt.value)
        if harmless and not self._dependence.of(stmt.value, stmt.var):
            return stmt.replace(body=self.visit(stmt.body))
        if not _is_taken_apart(stmt):
            return self._each(stmt)
        if _is_arithmetic(stmt):
            return self.visit(substitute(stmt.body, {stmt.var: stmt.value}))
        self._dependence.different.discard(stmt.var)
        return self._kept(stmt.var, stmt.value, self._with_value, stmt)

    def _with_value(self, value: PrimExpr, stmt: LetStmt) -> Stmt:
        self._dependence.different.add(value.buffer.data)  # type: ignore[attr-defined]
        return self.visit(substitute(stmt.body, {stmt.var: value}))

    def _assert(self, stmt: AssertStmt) -> Stmt:
        if not self._differs(stmt.condition):
            return stmt.replace(body=self.visit(stmt.body))
        alone = AssertStmt(stmt.condition, stmt.message, Evaluate(const(0)))
        return seq(self._each(alone), self.visit(stmt.body))

    def _scope(self, stmt: AttrStmt | AllocateConst) -> Stmt:
        return stmt.replace(body=self.visit(stmt.body))

    def _allocate(self, stmt: Allocate) -> Stmt:
        if not self._is_different(stmt.buffer_var):
            return stmt.replace(body=self.visit(stmt.body))
        sizes = [extent.value for extent in stmt.extents if isinstance(extent, IntImm)]
        if len(sizes) != 1 or len(stmt.extents) != 1:
            raise IRValueError(
                f"allocation {stmt.buffer_var.name} gets a copy for each virtual thread {self.var.name}; it needs one constant extent,"
                f" which FlattenBuffer gives it, got {[str(extent) for extent in stmt.extents]}"
            )
        self._shift.sizes[stmt.buffer_var] = sizes[0], stmt.dtype
        extents = (const(sizes[0] * self.extent, stmt.extents[0].dtype),)
        return stmt.replace(extents=extents, body=self.visit(stmt.body))

    def _declare(self, stmt: DeclBuffer) -> Stmt:
        return stmt.replace(buffer=self._shift.visit(stmt.buffer), body=self.visit(stmt.body))


_MAKERS: dict[type, Any] = {
    SeqStmt: _Copies._sequence, BufferStore: _Copies._store, Evaluate: _Copies._evaluate, For: _Copies._for, While: _Copies._while,
    IfThenElse: _Copies._choice, LetStmt: _Copies._let, AssertStmt: _Copies._assert, AttrStmt: _Copies._scope,
    AllocateConst: _Copies._scope, Allocate: _Copies._allocate, DeclBuffer: _Copies._declare,
}  # fmt: skip


class _Shift(StmtExprMutator):
    """Moves accesses of memory that has a copy for each virtual thread to the copy of the one at hand."""

    remembers: ClassVar[bool] = False

    def __init__(self, var: Var, copies: int) -> None:
        super().__init__()
        self.var = var
        self.copies = copies
        self.sizes: dict[Var, tuple[int, str]] = {}
        """By address variable: elements of one copy, and their dtype."""

    def _elements(self, data: Var, dtype: str) -> int:
        """Elements of one copy, of a dtype."""
        count, element = self.sizes[data]
        size = count * dt.bytes_of(element)
        if size % dt.bytes_of(dtype):
            raise IRValueError(
                f"{data.name} gets a copy for each virtual thread {self.var.name}, of {size} bytes, which no number of {dtype} fills"
            )
        return size // dt.bytes_of(dtype)

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        """The buffer over all copies."""
        if buffer.data not in self.sizes:
            return buffer
        found = self._buffers.get(buffer)
        if found is None:
            if len(buffer.shape) != 1 or buffer.strides:
                raise IRValueError(
                    f"buffer {buffer.name} gets a copy for each virtual thread {self.var.name}; it needs one dimension, which FlattenBuffer"
                    " gives it"
                )
            whole = self._elements(buffer.data, buffer.dtype) * self.copies
            found = self._buffers[buffer] = buffer.replace(shape=(const(whole, buffer.shape[0].dtype),))
        return found

    def _offset(self, data: Var, dtype: str, index: PrimExpr) -> PrimExpr:
        """An index within the copy at hand."""
        first = cast(dt.element_of(index.dtype), self.var) * const(
            self._elements(data, dtype), dt.element_of(index.dtype)
        )
        lanes = dt.lanes(index.dtype)
        if isinstance(index, E.Ramp):
            return E.Ramp(index.base + first, index.stride, index.lanes)
        return index + (first if lanes == 1 else E.Broadcast(first, lanes))

    def _moved(self, access: Any) -> Any:
        buffer = access.buffer
        mapped = self.generic_visit(access)
        if buffer.data not in self.sizes:
            return mapped
        indices = [self._offset(buffer.data, buffer.dtype, mapped.indices[0])]
        return mapped.replace(buffer=self.visit_Buffer(buffer), indices=indices)

    def visit_BufferLoad(self, load: E.BufferLoad) -> PrimExpr:
        return self._moved(load)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        return self._moved(store)

    def visit_Call(self, call: E.Call) -> PrimExpr:
        args = list(call.args)
        is_access = _name(call) == "tir.tvm_access_ptr"
        pairs = ADDRESSES.get(_name(call), ())
        known = set()
        for position, offset in pairs:
            data = args[position]
            if isinstance(data, Var) and data in self.sizes:
                dtype = args[0].dtype if is_access else self.sizes[data][1]
                args[offset] = self._offset(data, dtype, self.visit(args[offset]))
                known |= {position, offset}
        for position, arg in enumerate(args):
            if position not in known and isinstance(arg, PrimExpr):
                args[position] = self.visit(arg)
        return call.replace(args=args) if any(a is not b for a, b in zip(args, call.args)) else call

    def visit_Var(self, var: Var) -> PrimExpr:
        if var in self.sizes:
            raise IRValueError(
                f"{var.name} gets a copy for each virtual thread {self.var.name}, of which a call that takes its address could not tell; "
                "give it T.address_of an element, or an access pointer"
            )
        return var


def _is_arithmetic(let: LetStmt) -> bool:
    """Whether a let only names a number that is made of variables: its scope can do without."""
    return dt.is_index(let.var.dtype) and not reads_memory(let.value) and not may_fault(let.value)


def _is_taken_apart(let: LetStmt) -> bool:
    """Whether statements in the scope of a let of different values are repeated by themselves, and not all of it."""
    return _is_arithmetic(let) or _waits(let.body)


def _waits(stmt: Stmt) -> bool:
    """Whether a statement holds what all virtual threads do as one."""
    found = False

    def look(node: Any) -> None:
        nonlocal found
        found |= isinstance(node, Evaluate) and _name(node.value) in _TOGETHER

    post_order_visit(stmt, look)
    return found


class _Inject(StmtExprMutator):
    """Removes virtual threads, the innermost first."""

    remembers: ClassVar[bool] = False

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        body = self.visit(stmt.body)
        thread = stmt.thread
        if thread is None or not (stmt.attr_key == "virtual_thread" or is_virtual(thread.thread_tag)):
            return stmt if body is stmt.body else stmt.replace(body=body)
        if not isinstance(stmt.value, IntImm):
            raise IRValueError(
                f"virtual thread {thread.var.name} has the extent {stmt.value}; the number of copies must be constant"
            )
        if stmt.value.value == 1:
            return substitute(body, {thread.var: const(0, thread.var.dtype)})
        return _Copies(thread.var, stmt.value.value, body).visit(body)


@dataclass(frozen=True)
class InjectVirtualThread(PrimFuncPass):
    """Let one thread do what its virtual threads (attribute ``virtual_thread``, tags ``vthread`` and ``cthread``) do.

    Memory that is allocated in them and whose content is different for each gets a copy for each; a statement that is different is
    repeated where it stands, so that the copies for all virtual threads are beside each other, and before the next barrier. Of up to
    16 virtual threads the copies are unrolled loops, else serial ones. What is the same for all is done once: barriers, and what is
    fetched for all of them. A condition that is different and holds a barrier is put around the statements between barriers.
    Expects one-dimensional accesses.

    Raises:
        IRValueError: a barrier stands in a loop whose bounds are different for virtual threads; their number, or the size of what gets
            copies, is not constant; the address of such memory is taken where an offset could not be added.

    Before::

        v = T.launch_thread("vthread.x", 2)
        acc = T.allocate([1], "float32", "local")
        acc_1[0] = 0.0
        for k in range(8):
            S[tx] = A[k * 32 + tx]
            acc_1[0] = acc_1[0] + S[v * 16 + k]
        B[v * 32 + tx] = acc_1[0]

    After::

        acc = T.allocate([2], "float32", "local")
        for v in T.unroll(2):
            acc_1[v] = 0.0
        for k in range(8):
            S[tx] = A[k * 32 + tx]
            for v in T.unroll(2):
                acc_1[v] = acc_1[v] + S[v * 16 + k]
        for v in T.unroll(2):
            B[v * 32 + tx] = acc_1[v]
    """

    pass_name = "tir.InjectVirtualThread"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without virtual threads."""
        body = _Inject().visit(func.body)
        return func if body is func.body else func.replace(body=body)
