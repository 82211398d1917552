"""LowerWarpMemory: memory of a warp becomes registers of its threads, which read each other's by shuffles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from ... import dtype as dt
from ...arith.index_simplifier import Linear
from ...error import IRValueError
from ...module import IRModule
from ...node import Visitor, post_order_visit
from ...target.gpu_facts import WARP
from ...transform import PassContext
from ...type import PointerType, PrimType
from .. import expr as E
from ..analysis.reads_memory import reads_memory
from ..analysis.thread_groups import BLOCK, LANES, ThreadGroup, Uniformity, storage_scope
from ..buffer import Buffer
from ..expr import IntImm, PrimExpr, Var
from ..faults import may_fault
from ..function import PrimFunc
from ..intrinsic.address_arguments import ADDRESSES
from ..intrinsic.declaration import call
from ..operators import const, floordiv, floormod
from ..spelled import spelled
from ..stmt import (
    Allocate,
    AssertStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    seq,
)
from ..stmt_functor import StmtExprMutator, variables_in
from .kernel_regions import KernelRegions
from .prim_func_pass import PrimFuncPass

_OF_THE_WARP = ("tir.mma_fill", "tir.mma_store")
"""Calls whose offset is that of the first thread of a warp, for the registers of all of them."""


@dataclass(eq=False)
class _Memory:
    """Memory of a warp, and how its threads share it: ``width`` neighbours, then those of the next thread."""

    data: Var
    dtype: str
    size: int
    """Elements in all."""
    width: int = 0
    is_partial: bool = False
    """Whether some threads write what others do not, so that a register may be read that nobody wrote."""
    registers: Var | None = None

    def elements(self, lanes: int) -> int:
        """Elements that one thread has."""
        return self.size // lanes


class _Lanes:
    """What indices into memory of warps say of lanes, in one kernel."""

    def __init__(self, kernel: Stmt) -> None:
        self._by_lane = ThreadGroup.of(kernel, LANES)
        self._as_written = ThreadGroup.of(kernel, BLOCK)
        self._uniformity = Uniformity(self._by_lane, kernel)
        ((self._lane, count),) = self._by_lane.identity.items()
        assert count is not None
        self.count = count
        """Threads of a warp."""

    def bind(self, loop: For) -> None:
        """The bounds of a loop's variable."""
        for group in (self._by_lane, self._as_written):
            group.simplifier.bind_range(loop.loop_var, group.in_terms(loop.min), group.in_terms(loop.extent))

    def define(self, let: LetStmt) -> None:
        """A name for a number that is made of variables."""
        if dt.is_index(let.var.dtype) and not reads_memory(let.value):
            for group in (self._by_lane, self._as_written):
                group.simplifier.define(let.var, group.in_terms(let.value))

    def width_of(self, index: PrimExpr) -> int:
        """How far from each other neighbouring threads are in an index; 0 where it does not say that."""
        return self._form(index).terms.get(self._lane, 0)

    def _form(self, expr: PrimExpr) -> Linear:
        """An expression in terms of lanes and warps."""
        simplifier = self._by_lane.simplifier
        return simplifier.recombine(simplifier.linear(self._by_lane.in_terms(expr)))

    def varies(self, expr: PrimExpr) -> bool:
        """Whether threads of a warp may see different values."""
        return self._uniformity.varies(expr)

    def local(self, memory: _Memory, index: PrimExpr) -> PrimExpr:
        """Where among the registers of its thread an element is."""
        dtype, row = index.dtype, memory.width * self.count
        found = floormod(index, const(memory.width, dtype))
        if memory.size > row:  # else an index in the memory has no round but the first
            found = floordiv(index, const(row, dtype)) * const(memory.width, dtype) + found
        return self._as_written.simplifier.simplify(found)

    def source(self, memory: _Memory, index: PrimExpr) -> PrimExpr:
        """The lane of the thread that has an element."""
        return self._as_written.simplifier.simplify(self._source(memory, index))

    def _source(self, memory: _Memory, index: PrimExpr) -> PrimExpr:
        dtype = index.dtype
        return floormod(floordiv(index, const(memory.width, dtype)), const(self.count, dtype))

    def is_own(self, memory: _Memory, index: PrimExpr) -> bool:
        """Whether each thread has the element itself."""
        form = self._form(self._source(memory, index))
        if form.const:
            return False
        is_lane = len(form.terms) == 1 and form.terms.get(self._lane) == 1
        return is_lane or (self.count == 1 and not form.terms)

    def is_first(self, memory: _Memory, index: PrimExpr) -> bool:
        """Whether the first thread of the warp has the element."""
        form = self._form(self._source(memory, index))
        return not form.terms and form.const == 0

    def is_within(self, index: PrimExpr, size: int) -> bool:
        """Whether an index is surely one of so many."""
        low, high = self._as_written.simplifier.bounds(index)
        return low >= 0 and high < size

    def keeps_together(self, memory: _Memory, base: PrimExpr, count: int) -> bool:
        """Whether so many neighbours from an element on are of one thread."""
        part = floormod(self._by_lane.in_terms(base), const(memory.width, base.dtype))
        low, high = self._by_lane.simplifier.bounds(part)
        if memory.width % count == 0 and count > 1:
            form = self._by_lane.simplifier.linear(part)
            if form.const % count == 0 and all(factor % count == 0 for factor in form.terms.values()):
                return True
        return low >= 0 and high + count <= memory.width


class _Find(Visitor):
    """Finds the memory of warps in a kernel, and how its writes share it out."""

    remembers: ClassVar[bool] = False

    def __init__(self, lanes: _Lanes) -> None:
        super().__init__()
        self.found: dict[Var, _Memory] = {}
        self._lanes = lanes
        self._differs = 0
        self._written: list[tuple[_Memory, PrimExpr]] = []

    def check(self) -> None:
        """Raise for memory that does not lie with its threads, one after the other."""
        for memory in self.found.values():
            if not memory.width:
                raise IRValueError(
                    f"no write to {memory.data.name}, of a warp, says which thread has which element: {_WANTED}"
                )
            if memory.size % (memory.width * self._lanes.count):
                raise IRValueError(
                    f"{memory.data.name}, of a warp, has {memory.size} elements, of which {self._lanes.count} threads cannot have"
                    f" {memory.width} in a row each, as its writes say"
                )
        for memory, index in self._written:
            memory.is_partial |= self._lanes.varies(self._lanes.local(memory, index))

    def visit_Allocate(self, node: Allocate) -> None:
        if storage_scope(node.buffer_var) == "warp":
            extents = [extent.value for extent in node.extents if isinstance(extent, IntImm)]
            if len(extents) != 1 or len(node.extents) != 1:
                raise IRValueError(
                    f"{node.buffer_var.name}, of a warp, has extents {[str(extent) for extent in node.extents]}; it needs one"
                    " constant extent, which FlattenBuffer gives it"
                )
            self.found[node.buffer_var] = _Memory(node.buffer_var, node.dtype, extents[0])
        self.visit(node.body)

    @contextmanager
    def _under(self, *exprs: PrimExpr) -> Iterator[None]:
        differs = any([self._lanes.varies(expr) for expr in exprs])
        self._differs += differs
        yield
        self._differs -= differs

    def visit_For(self, loop: For) -> None:
        self._lanes.bind(loop)
        with self._under(loop.min, loop.extent):
            self.visit(loop.body)

    def visit_LetStmt(self, let: LetStmt) -> None:
        self._lanes.define(let)
        self.generic_visit(let)

    def visit_While(self, loop: While) -> None:
        with self._under(loop.condition):
            self.visit(loop.body)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        with self._under(node.condition):
            self.visit(node.then_case)
            if node.else_case is not None:
                self.visit(node.else_case)

    def visit_BufferStore(self, store: BufferStore) -> None:
        memory = self.found.get(store.buffer.data)
        if memory is not None:
            self._write(memory, _first(store), store)
            memory.is_partial |= store.predicate is not None
        self.generic_visit(store)

    def visit_Evaluate(self, node: Evaluate) -> None:
        post_order_visit(node.value, lambda item: self._given(item, node))

    def _given(self, item: Any, stmt: Stmt) -> None:
        name = getattr(getattr(item, "op", None), "name", "")
        for position, offset in ADDRESSES.get(name, ()):
            memory = self.found.get(item.args[position])
            if memory is not None and name not in _OF_THE_WARP:
                self._write(memory, item.args[offset], stmt)

    def _write(self, memory: _Memory, index: PrimExpr, stmt: Stmt) -> None:
        width = self._lanes.width_of(index)
        if width <= 0 or memory.width not in (0, width):
            raise IRValueError(
                f"{spelled(stmt)!r} does not say which thread has which element of {memory.data.name}, of a warp: {_WANTED}"
                + (f", and {memory.width} elsewhere" if memory.width and width > 0 else "")
            )
        memory.width = width
        memory.is_partial |= bool(self._differs)
        self._written.append((memory, index))


_WANTED = "an index is a number times the lane, so many elements in a row for each thread, and what is the same for all threads"


def _first(access: Any) -> PrimExpr:
    """The index of the first element of an access."""
    index = access.indices[0] if len(access.indices) == 1 else None
    if index is None or access.buffer.strides:
        raise IRValueError(
            f"buffer {access.buffer.name}, of a warp, needs one dimension, which FlattenBuffer gives it"
        )
    if dt.lanes(index.dtype) > 1 and not (
        isinstance(index, E.Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1
    ):
        raise IRValueError(
            f"buffer {access.buffer.name}, of a warp, is accessed at {index}; vectors must be of neighbours"
        )
    base = index.base if isinstance(index, E.Ramp) else index
    found: PrimExpr = access.buffer.offset_of([base])[0]
    return found


class _Lower(StmtExprMutator):
    """Rewrites a kernel."""

    remembers: ClassVar[bool] = False

    def __init__(self, lanes: _Lanes, memories: dict[Var, _Memory]) -> None:
        super().__init__()
        self._lanes = lanes
        self._memories = memories
        self._read: list[tuple[Var, PrimExpr]] = []
        """What is read of other threads before the statement at hand."""
        self._around: Stmt | None = None
        """The outermost statement around that not all threads of a warp run the same way."""
        self._inner: set[Var] = set()
        """What is defined in it, or in the expression at hand."""
        self._lazy = 0
        self._stmt: Any = None

    # -- reading of others ---------------------------------------------------------------------------------------------
    def _before(self, made: Stmt, read: list[tuple[Var, PrimExpr]]) -> Stmt:
        """A statement behind what it needs of other threads."""
        for var, value in reversed(read):
            made = LetStmt(var, value, made)
        return made

    def _take(self) -> list[tuple[Var, PrimExpr]]:
        """What is to be read before the statement at hand; nothing where all threads come together further outside."""
        if self._around is not None:
            return []
        read, self._read = self._read, []
        return read

    def _of_another(self, memory: _Memory, load: E.BufferLoad, index: PrimExpr) -> PrimExpr:
        """The element that another thread has, in a variable."""
        if dt.lanes(load.indices[0].dtype) > 1:
            self._refuse(load, "is a vector that another thread may have; read its elements")
        local, source = self._lanes.local(memory, index), self._lanes.source(memory, index)
        if self._lanes.varies(local):
            self._refuse(load, "is, for different threads, at different places of their sources' registers")
        if self._lazy or self._around is not None:
            self._check_early(memory, load, index, local)
        value = E.BufferLoad(self._buffer(memory, load.buffer), [local])
        mask, warp = call("tvm_warp_activemask"), const(WARP)
        shuffle = call("tvm_warp_shuffle", mask, value, source, warp, warp)
        var = Var(f"{load.buffer.name}_of_lane", load.dtype)
        self._read.append((var, shuffle))
        return var

    def _check_early(self, memory: _Memory, load: E.BufferLoad, index: PrimExpr, local: PrimExpr) -> None:
        """Raise where an element cannot be read before the condition under which it is, as all threads must take part."""
        if any(var in self._inner for var in variables_in(index)) or may_fault(index):
            self._refuse(load, "is read by a part of the threads, at an index that is not known before")
        if self._around is not None and _writes(self._around, memory.data):
            self._refuse(
                load, "is read by a part of the threads, in a statement that writes such memory as well"
            )
        if not self._lanes.is_within(local, memory.elements(self._lanes.count)):
            self._refuse(load, "is read by a part of the threads, and lies elsewhere for the others")

    def _refuse(self, load: Any, why: str) -> None:
        raise IRValueError(f"{load} in {spelled(self._stmt)!r}, of a warp, {why}")

    # -- accesses --------------------------------------------------------------------------------------------------------
    def _buffer(self, memory: _Memory, buffer: Buffer) -> Buffer:
        found = self._buffers.get(buffer)
        if found is None:
            if buffer.dtype != memory.dtype:
                raise IRValueError(
                    f"buffer {buffer.name} of {buffer.dtype} is a view of {memory.data.name} of {memory.dtype}, which is of a warp;"
                    " its threads have whole elements"
                )
            shape = (const(memory.elements(self._lanes.count)),)
            found = buffer.replace(data=memory.registers, shape=shape, strides=(), elem_offset=None)
            self._buffers[buffer] = found
        return found

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        memory = self._memories.get(buffer.data)
        return buffer if memory is None else self._buffer(memory, buffer)

    def _own(self, memory: _Memory, access: Any, index: PrimExpr) -> PrimExpr:
        """The place of an access of the thread's own elements."""
        lanes = dt.lanes(access.indices[0].dtype)
        if lanes > 1 and not self._lanes.keeps_together(memory, index, lanes):
            self._refuse(access, "is a vector of which not all elements are surely of one thread")
        local = self._lanes.local(memory, index)
        return local if lanes == 1 else E.Ramp(local, const(1, local.dtype), lanes)

    def visit_BufferLoad(self, load: E.BufferLoad) -> PrimExpr:
        memory = self._memories.get(load.buffer.data)
        if memory is None:
            return self.generic_visit(load)  # type: ignore[no-any-return]
        index = self.visit(_first(load))
        if not self._lanes.is_own(memory, index):
            return self._of_another(memory, load, index)
        buffer, place = self._buffer(memory, load.buffer), self._own(memory, load, index)
        return load.replace(buffer=buffer, indices=[place])  # type: ignore[no-any-return]

    def visit_Call(self, node: E.Call) -> PrimExpr:
        name = getattr(node.op, "name", "")
        if name == "tir.if_then_else":
            condition = self.visit(node.args[0])
            self._lazy += 1
            args = [condition, *[self.visit(item) for item in node.args[1:]]]
            self._lazy -= 1
            return node.replace(args=args)  # type: ignore[no-any-return]
        if name == "tir.address_of" and isinstance(node.args[0], E.BufferLoad):
            load = node.args[0]
            memory = self._memories.get(load.buffer.data)
            if memory is not None and not self._lanes.is_own(memory, _first(load)):
                self._refuse(load, "is another thread's, and has no address in this one")
        args = list(node.args)
        for position, offset in ADDRESSES.get(name, ()):
            memory = self._memories.get(args[position])
            if memory is None:
                continue
            is_right = self._lanes.is_first if name in _OF_THE_WARP else self._lanes.is_own
            if not is_right(memory, args[offset]) and not self._lanes.is_own(memory, args[offset]):
                self._refuse(node, f"does not begin with what the thread has of {memory.data.name}")
            args[position], args[offset] = memory.registers, self._lanes.local(memory, args[offset])
        mapped = [self.visit(item) if isinstance(item, PrimExpr) else item for item in args]
        return node if all(a is b for a, b in zip(mapped, node.args)) else node.replace(args=mapped)  # type: ignore[no-any-return]

    def _connective(self, node: Any) -> PrimExpr:
        a = self.visit(node.a)
        self._lazy += 1
        b = self.visit(node.b)
        self._lazy -= 1
        return node if a is node.a and b is node.b else type(node)(a, b)  # type: ignore[no-any-return]

    visit_And = visit_Or = _connective

    def visit_Let(self, let: E.Let) -> PrimExpr:
        value = self.visit(let.value)
        self._inner.add(let.var)
        self._lazy += 1
        body = self.visit(let.body)
        self._lazy -= 1
        return E.Let(let.var, value, body)

    def visit_Var(self, var: Var) -> PrimExpr:
        if var in self._memories:
            raise IRValueError(
                f"the address of {var.name}, of a warp, is given to a call in {spelled(self._stmt)!r}, and registers have none"
            )
        return var

    # -- statements --------------------------------------------------------------------------------------------------------
    def visit_Allocate(self, node: Allocate) -> Stmt:
        memory = self._memories.get(node.buffer_var)
        if memory is None:
            return node.replace(body=self.visit(node.body))
        memory.registers = Var(node.buffer_var.name, PointerType(PrimType(node.dtype), "local"))
        count = memory.elements(self._lanes.count)
        body = self.visit(node.body)
        if memory.is_partial:
            body = seq(_zeros(memory.registers, node.dtype, count), body)
        extents = (const(count, node.extents[0].dtype),)
        return node.replace(buffer_var=memory.registers, extents=extents, body=body)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        self._stmt = store
        memory = self._memories.get(store.buffer.data)
        if memory is None:
            made = self.generic_visit(store)
        else:
            index = self.visit(_first(store))
            if not self._lanes.is_own(memory, index):
                self._refuse(store.buffer.name, "is written by threads that do not have the element")
            buffer, place = self._buffer(memory, store.buffer), self._own(memory, store, index)
            predicate = None if store.predicate is None else self.visit(store.predicate)
            made = store.replace(
                buffer=buffer, value=self.visit(store.value), indices=[place], predicate=predicate
            )
        return self._before(made, self._take())

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        self._stmt = node
        made = self.generic_visit(node)
        return self._before(made, self._take())

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        self._stmt = let
        value = self.visit(let.value)
        read = self._take()
        if self._around is not None:
            self._inner.add(let.var)
        return self._before(let.replace(value=value, body=self.visit(let.body)), read)

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        self._stmt = node
        condition = self.visit(node.condition)
        read = self._take()
        return self._before(node.replace(condition=condition, body=self.visit(node.body)), read)

    @contextmanager
    def _inside(self, stmt: Stmt, *exprs: PrimExpr) -> Iterator[None]:
        """The parts of a statement that threads may run differently."""
        outer = self._around
        if outer is None and any([self._lanes.varies(expr) for expr in exprs]):
            self._around, self._inner = stmt, set()
        yield
        self._around = outer

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        self._stmt = node
        condition = self.visit(node.condition)
        read = self._take()
        with self._inside(node, node.condition):
            then = self.visit(node.then_case)
            other = None if node.else_case is None else self.visit(node.else_case)
        made = node.replace(condition=condition, then_case=then, else_case=other)
        return self._before(made, [*read, *self._take()])

    def visit_For(self, loop: For) -> Stmt:
        self._stmt = loop
        begin, extent = self.visit(loop.min), self.visit(loop.extent)
        read = self._take()
        with self._inside(loop, loop.min, loop.extent):
            if self._around is not None:
                self._inner.add(loop.loop_var)
            body = self.visit(loop.body)
        made = loop.replace(min=begin, extent=extent, body=body)
        return self._before(made, [*read, *self._take()])

    def visit_While(self, loop: While) -> Stmt:
        self._stmt = loop
        count = len(self._read)
        condition = self.visit(loop.condition)
        if len(self._read) > count:
            raise IRValueError(
                f"{spelled(loop)!r} reads what other threads of the warp have, each time anew; read it in the body, into a register"
            )
        with self._inside(loop, loop.condition):
            body = self.visit(loop.body)
        return self._before(loop.replace(condition=condition, body=body), self._take())


def _writes(stmt: Stmt, data: Var) -> bool:
    """Whether a statement may write some memory."""
    found = False

    def look(node: Any) -> None:
        nonlocal found
        if isinstance(node, BufferStore):
            found |= node.buffer.data is data
        elif isinstance(node, E.Call):
            found |= any(arg is data for arg in node.args)

    post_order_visit(stmt, look)
    return found


def _zeros(data: Var, dtype: str, count: int) -> Stmt:
    """Something in every register."""
    index = Var("i", "int32")
    store = BufferStore(Buffer(data, dtype, (const(count),), name=data.name), const(0, dtype), [index])
    return For(index, const(0), const(count), ForKind.UNROLLED, store)


def _lowered(kernel: Stmt) -> Stmt:
    """A kernel without memory of warps."""
    has_any = False

    def look(node: Any) -> None:
        nonlocal has_any
        has_any |= isinstance(node, Allocate) and storage_scope(node.buffer_var) == "warp"

    post_order_visit(kernel, look)
    if not has_any:
        return kernel
    lanes = _Lanes(kernel)
    finder = _Find(lanes)
    finder.visit(kernel)
    finder.check()
    return _Lower(lanes, finder.found).visit(kernel)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class LowerWarpMemory(PrimFuncPass):
    """Give each thread of a warp its part of memory of scope "warp" as registers, and let threads read those of others by shuffles.

    The index of every write is a number ``m`` times the thread's lane, plus what is the same for all threads: then a thread has ``m``
    neighbours, behind which those of the next thread are, and behind those of the last one begins a next round. A read may be anywhere,
    as long as it is at the same place of all threads' registers. All threads of a warp take part in a shuffle: one that stands under a
    condition which they decide differently is done before it.

    Raises:
        IRValueError: the index of a write is of another form; a thread writes what another one has; a read is at different places of
            registers, or needed under a condition before which it is not known; an address is taken.

    Before::

        W = T.allocate([64], "float32", "warp")
        W[tx * 2] = A[tx]
        W[tx * 2 + 1] = B[tx]
        T.tvm_storage_sync("warp")
        C[tx] = W[(tx + 1) % 32 * 2 + 1]

    After::

        W = T.allocate([2], "float32", "local")
        W[0] = A[tx]
        W[1] = B[tx]
        T.tvm_storage_sync("warp")
        W_of_lane: T.float32 = T.tvm_warp_shuffle(T.tvm_warp_activemask(), W[1], (tx + 1) % 32, 32, 32)
        C[tx] = W_of_lane
    """

    pass_name = "tir.LowerWarpMemory"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without memory of warps."""
        body = KernelRegions(_lowered).visit(func.body)
        return func if body is func.body else func.replace(body=body)
