"""PlaceThreadMemory: memory that a kernel allocates lies with the threads that use it."""

from __future__ import annotations

from dataclasses import dataclass

from ...error import IRValueError
from ...module import IRModule
from ...node import Mutator, Visitor
from ...transform import PassContext
from ..buffer import Buffer
from ..effects import has_effect
from ..expr import BufferLoad, PrimExpr, Var
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, BufferStore, For, Stmt
from ..stmt_functor import loads_in, substitute, variables_in
from ..thread_axis import COMMON_TO_VIRTUAL_THREADS, is_block_scope, is_launched, is_virtual
from .prim_func_pass import PrimFuncPass


class _Writers(Visitor):
    """Which buffers hold what no virtual thread changes: each element is a function of its place, made of what the kernel is given."""

    def __init__(self) -> None:
        super().__init__()
        self.varying: set[Var] = set()
        """Addresses of buffers of which that is not known."""
        self._written: set[Var] = set()
        """Addresses of what the kernel writes."""
        self._values: list[tuple[Var, set[Var]]] = []
        self._axes: set[Var] = set()
        self._is_inside = False

    def visit_For(self, loop: For) -> None:
        if self._is_inside or not is_launched(loop):
            self.generic_visit(loop)
            return
        self._is_inside, self._written, self._values = True, set(), []
        self.generic_visit(loop)
        self._is_inside = False
        # What is made of what the kernel writes is not made of what it is given.
        self.varying |= {data for data, sources in self._values if sources & self._written}

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        block = realize.block
        before, self._axes = self._axes, {item.var for item in block.iter_vars}
        self.generic_visit(realize)
        self._axes = before

    def visit_BufferStore(self, store: BufferStore) -> None:
        data = store.buffer.data
        self._written.add(data)
        used = set(variables_in(store.value)) - {load.buffer.data for load in loads_in(store.value)}
        if not used <= self._axes & set(store.indices) or has_effect(store.value):
            self.varying.add(data)
        self._values.append((data, {load.buffer.data for load in loads_in(store.value)}))
        self.generic_visit(store)

    def visit_Buffer(self, buffer: Buffer) -> None:
        pass

    def visit_Var(self, var: Var) -> None:
        if var.dtype == "handle":
            self.varying.add(var)  # whoever is given an address may write there


class _HandedOver(Visitor):
    """Looks for shared memory around kernels that one of them reads under other loops of threads than it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Buffer] = []
        self._outside: dict[Var, Buffer] = {}
        self._kernel: For | None = None
        self._threads: tuple[For, ...] = ()
        """The loops that are bound to threads around what is visited."""
        self._reads: set[tuple[Var, tuple[For, ...]]] = set()
        self._writes: dict[Var, set[tuple[For, ...]]] = {}

    def visit_Block(self, block: Block) -> None:
        if self._kernel is None:
            shared = [buffer for buffer in block.alloc_buffers if is_block_scope(buffer.scope())]
            self._outside.update({buffer.data: buffer for buffer in shared})
        for part in (block.init, block.body):
            if part is not None:
                self.visit(part)

    def visit_For(self, loop: For) -> None:
        if not is_launched(loop):
            self.generic_visit(loop)
            return
        assert loop.thread_binding is not None
        before, is_kernel = self._threads, self._kernel is None
        if is_kernel:
            self._kernel, self._reads, self._writes = loop, set(), {}
        if loop.thread_binding.thread_tag.startswith("threadIdx"):
            self._threads = (*before, loop)
        self.generic_visit(loop)
        self._threads = before
        if is_kernel:
            self._kernel = None
            self.found += [
                self._outside[data]
                for data, threads in self._reads
                if data in self._outside and self._writes.get(data, set()) - {threads}
            ]

    def visit_BufferStore(self, store: BufferStore) -> None:
        self._writes.setdefault(store.buffer.data, set()).add(self._threads)
        self.generic_visit(store)

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self._reads.add((load.buffer.data, self._threads))
        self.generic_visit(load)

    def visit_Buffer(self, buffer: Buffer) -> None:
        pass


class _Place(Mutator):
    def __init__(self, varying: set[Var]) -> None:
        super().__init__()
        self._varying = varying
        self._launches = False
        """Whether a kernel was met."""
        self._tags: list[str] = []
        """Of the thread axes around what is visited."""
        self.moved: dict[Buffer, Buffer] = {}

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_For(self, loop: For) -> Stmt:
        if loop.thread_binding is None:
            return self.generic_visit(loop)  # type: ignore[no-any-return]
        self._launches |= is_launched(loop)
        self._tags.append(loop.thread_binding.thread_tag)
        mapped: Stmt = self.generic_visit(loop)
        self._tags.pop()
        return mapped

    def visit_Block(self, block: Block) -> Block:
        mapped: Block = self.generic_visit(block)
        if any(not is_virtual(tag) for tag in self._tags):
            is_one_threads = any(tag.startswith("threadIdx") for tag in self._tags)
            for buffer in block.alloc_buffers:
                if buffer.scope() == "global":
                    self.moved[buffer] = _in_scope(buffer, "local" if is_one_threads else "shared")
        elif self._launches:
            for buffer in block.alloc_buffers:
                if buffer.scope() == "local" or is_block_scope(buffer.scope()):
                    self.moved[buffer] = _in_scope(buffer, "global")
        common = [n for n, buffer in enumerate(block.alloc_buffers) if self._is_common(buffer)]
        if not common:
            return mapped
        return mapped.replace(annotations={**mapped.annotations, COMMON_TO_VIRTUAL_THREADS: common})

    def _is_common(self, buffer: Buffer) -> bool:
        is_shared = self.moved.get(buffer, buffer).scope().startswith("shared")
        return is_shared and any(map(is_virtual, self._tags)) and buffer.data not in self._varying


def _in_scope(buffer: Buffer, scope: str) -> Buffer:
    pointer = buffer.data.type_annotation
    assert pointer is not None
    return buffer.replace(data=Var(buffer.data.name, pointer.replace(storage_scope=scope)))


@dataclass(frozen=True)
class PlaceThreadMemory(PrimFuncPass):
    """Give memory of scope "global" that is allocated within a kernel the scope "local" where one thread uses it, else "shared".

    What is allocated around kernels has the scope "global": registers and shared memory do not outlive the kernel that has them. Shared
    memory that threads of one of these kernels hand over is refused, as they would not wait for each other.

    Shared memory whose elements are copies of what the kernel is given, each at its place, is common to all virtual threads: the block
    that allocates it says so (``tir.common_to_virtual_threads``), and InjectVirtualThread makes no copies of it.

    Runs behind PlanAndUpdateBufferAllocationLocation, when an allocation stands where all its uses are, and before UnifyThreadBinding.

    Before::

        for i in T.thread_binding(4, thread="blockIdx.x"):
            with T.block(""):
                mean = T.alloc_buffer((1,))
                for j in T.thread_binding(32, thread="threadIdx.x"): ...  # writes mean
                for j in T.thread_binding(32, thread="threadIdx.x"): ...  # reads mean

    After::

        for i in T.thread_binding(4, thread="blockIdx.x"):
            with T.block(""):
                mean = T.alloc_buffer((1,), scope="shared")
                ...
    """

    pass_name = "tir.PlaceThreadMemory"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function whose kernels allocate memory of threads and blocks only."""
        handed_over = _HandedOver()
        handed_over.visit(func.body)
        if handed_over.found:
            buffer = handed_over.found[0]
            raise IRValueError(
                f"buffer {buffer.name} of scope {buffer.scope()} is needed by several launches, and threads of one of them hand it over:"
                " a block's memory ends with its launch, and threads do not wait for each other in the device's. Bind the loop around the"
                f" launches, or compute {buffer.name} below loops that are bound"
            )
        writers = _Writers()
        writers.visit(func.body)
        place = _Place(writers.varying)
        body = place.visit(func.body)
        if place.moved:
            data = {old.data: new.data for old, new in place.moved.items()}
            body = substitute(body, {**place.moved, **data})
        return func if body is func.body else func.replace(body=body)
