"""MergeSharedMemoryAllocations: what threads of a block share gets places in one piece of memory, by when it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import ClassVar

from ... import dtype as dt
from ...error import IRValueError
from ...module import IRModule
from ...node import Mutator, Visitor
from ...target.gpu_facts import ACCESS_BYTES
from ...transform import PassContext
from ...type import PointerType, PrimType
from .. import expr as E
from ..analysis.thread_accesses import Access, Touch
from ..analysis.thread_conflicts import Apart, Meets
from ..analysis.thread_groups import BLOCK, storage_scope
from ..buffer import Buffer
from ..expr import IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, Evaluate, For, LetStmt, Stmt, While
from .barrier_plan import BarrierPlan, KernelTree
from .kernel_regions import KernelRegions
from .prim_func_pass import PrimFuncPass

_ALIGNMENT = ACCESS_BYTES
"""Bytes at whose multiples places begin."""

_WIDE_ALIGNMENT = 128
"""The same for what instructions read and write that a warp executes as one."""

_WIDE_CALLS = (
    "tir.ptx_ldmatrix", "tir.ptx_stmatrix", "tir.mma_store", "tir.tvm_load_matrix_sync", "tir.tvm_store_matrix_sync",
)  # fmt: skip
_SWIZZLED_ALIGNMENT = 1024
"""The same for what is exchanged within a pattern of so many bytes."""
_SWIZZLED_CALLS = ("tir.ptx_cp_async_bulk_tensor", "tir.ptx_wgmma_mma_async")


@dataclass(eq=False)
class _Shared:
    """An allocation that threads of a block share, and when it is used."""

    var: Var
    size: int
    """In bytes."""
    alignment: int
    loops: tuple[Stmt, ...]
    """Those around it: what is in it lasts for one iteration of them."""
    first: int = -1
    last: int = -1
    """Numbers of statements; of a loop around the use, but not around the allocation, those of all of the loop."""
    copied: int = -1
    """The last statement that begins to copy into it."""
    place: int = 0

    def overlaps(self, other: _Shared) -> bool:
        """Whether both are used at one time."""
        return self.first <= other.last and other.first <= self.last

    def collides(self, other: _Shared) -> bool:
        """Whether their places have bytes in common."""
        return self.place < other.place + other.size and other.place < self.place + self.size


class _Find(Visitor):
    """Finds the allocations of some scope in a kernel, and when they are used."""

    remembers: ClassVar[bool] = False

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.found: dict[Var, _Shared] = {}
        self.waits: list[int] = []
        """Statements that wait for all copies."""
        self._scope = scope
        self._loops: list[tuple[Stmt, int]] = []
        self._number = 0
        self._uses: list[tuple[_Shared, int, tuple[Stmt, ...]]] = []
        self._ends: dict[int, tuple[int, int]] = {}

    def in_kernel(self, kernel: Stmt) -> list[_Shared]:
        """The allocations in the order in which they are met."""
        self.visit(kernel)
        for item, number, loops in self._uses:
            first = last = number
            for loop in loops[len(item.loops) : len(item.loops) + 1]:
                first, last = self._ends[id(loop)]
            item.first = first if item.first < 0 else min(item.first, first)
            item.last = max(item.last, last)
        return list(self.found.values())

    def visit_Allocate(self, node: Allocate) -> None:
        if storage_scope(node.buffer_var) == self._scope:
            sizes = [extent.value for extent in node.extents if isinstance(extent, IntImm)]
            if len(sizes) != len(node.extents):
                raise IRValueError(
                    f"shared allocation {node.buffer_var.name} has extents {[str(extent) for extent in node.extents]};"
                    " a place in one piece of memory needs constant ones"
                )
            if node.buffer_var in self.found:
                raise IRValueError(
                    f"{node.buffer_var.name} is allocated twice; ConvertSSA gives each allocation its variable"
                )
            asked = int(
                getattr(
                    node.annotations.get("data_alignment", 0),
                    "value",
                    node.annotations.get("data_alignment", 0),
                )
            )
            self.found[node.buffer_var] = _Shared(
                node.buffer_var, prod(sizes) * dt.bytes_of(node.dtype), max(_ALIGNMENT, asked), self._around()
            )
        self.visit(node.body)

    def _around(self) -> tuple[Stmt, ...]:
        return tuple(loop for loop, _ in self._loops)

    def _loop(self, loop: For | While) -> None:
        self._loops.append((loop, self._number + 1))
        self.generic_visit(loop)
        self._number += 1
        _, begin = self._loops.pop()
        self._ends[id(loop)] = begin, self._number

    visit_For = visit_While = _loop

    def visit_BufferStore(self, store: BufferStore) -> None:
        self._number += 1
        self.generic_visit(store)

    def visit_Evaluate(self, node: Evaluate) -> None:
        self._number += 1
        call = node.value
        name = getattr(getattr(call, "op", None), "name", "")
        if name == "tir.ptx_wait_group" and isinstance(call.args[0], IntImm) and call.args[0].value == 0:  # type: ignore[attr-defined]
            self.waits.append(self._number)
        self.generic_visit(node)

    def visit_Buffer(self, buffer: Buffer) -> None:
        self.visit_Var(buffer.data)

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self.visit(node.body)

    def visit_Var(self, var: Var) -> None:
        if var in self.found:
            self._uses.append((self.found[var], self._number, self._around()))

    def visit_Call(self, call: E.Call) -> None:
        name = getattr(call.op, "name", "")
        before = len(self._uses)
        self.generic_visit(call)
        for item, number, _ in self._uses[before:]:
            if name in _WIDE_CALLS:
                item.alignment = max(item.alignment, _WIDE_ALIGNMENT)
            if name in _SWIZZLED_CALLS:
                item.alignment = max(item.alignment, _SWIZZLED_ALIGNMENT)
            if name == "tir.ptx_cp_async":
                item.copied = max(item.copied, number)


class _Lifetimes:
    """Which allocations of a kernel may have the same place."""

    def __init__(self, kernel: Stmt, scope: str) -> None:
        finder = _Find(scope)
        self.allocations = finder.in_kernel(kernel)
        self._kernel = kernel
        self._waits = finder.waits

    def may_share(self, a: _Shared, b: _Shared) -> bool:
        """Whether neither is used while the other one is, and barriers and waits lie between."""
        if a.overlaps(b):
            return False
        if any(item.copied >= 0 and not self._is_waited_for(item) for item in (a, b)):
            return False
        return self._are_separated(a.var, b.var)

    def _is_waited_for(self, item: _Shared) -> bool:
        """Whether all copies into it are done when it is used the last time."""
        return any(item.copied < wait <= item.last for wait in self._waits)

    def _are_separated(self, a: Var, b: Var) -> bool:
        """Whether no thread comes to one while another one is still at the other, by the barriers that are there."""

        def meet(first: Access, second: Access, depth: int, apart: Apart) -> Meets:
            is_pair = {first.data, second.data} == {a, b}
            reads = first.touch is Touch.READ and second.touch is Touch.READ
            return Meets.PERHAPS if is_pair and not reads else Meets.NEVER

        tree = KernelTree(self._kernel, BLOCK, lambda data: data is a or data is b)
        try:
            return BarrierPlan(tree, meet).placed == 0
        except IRValueError:  # a barrier could not be placed where one is wanted
            return False


def _placed(lifetimes: _Lifetimes) -> int:
    """Gives every allocation its place: the largest first, each as far at the front as it can be; how many bytes there are."""
    done: list[_Shared] = []
    for item in sorted(lifetimes.allocations, key=lambda item: -item.size):
        others = [other for other in done if not lifetimes.may_share(item, other)]
        for place in sorted({0, *[_aligned(other.place + other.size, item.alignment) for other in others]}):
            item.place = place
            if not any(item.collides(other) for other in others):
                break
        done.append(item)
    return max(item.place + item.size for item in done)


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


class _Strip(Mutator):
    """Takes allocations out."""

    def __init__(self, taken: Sequence[_Shared]) -> None:
        super().__init__()
        self._taken = {item.var for item in taken}

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_Allocate(self, node: Allocate) -> Stmt:
        return self.visit(node.body) if node.buffer_var in self._taken else self.generic_visit(node)  # type: ignore[no-any-return]


def _merged(kernel: Stmt, scope: str) -> Stmt:
    """A kernel whose allocations of a scope have places in one."""
    lifetimes = _Lifetimes(kernel, scope)
    if len(lifetimes.allocations) < 2:
        return kernel
    total = _aligned(_placed(lifetimes), _ALIGNMENT)
    name = "shared_memory" if scope == "shared" else "dynamic_shared_memory"
    whole = Buffer(Var(name, PointerType(PrimType("uint8"), scope)), "uint8", (const(total),), name=name)

    def inside(stmt: Stmt) -> Stmt:
        if isinstance(stmt, AttrStmt) and stmt.thread is not None:
            return stmt.replace(body=inside(stmt.body))  # type: ignore[no-any-return]
        body = _Strip(lifetimes.allocations).visit(stmt)
        for item in reversed(lifetimes.allocations):
            address = E.Call("handle", "tir.address_of", (E.BufferLoad(whole, (const(item.place),)),))
            body = LetStmt(item.var, address, body)
        notes = {"data_alignment": max(item.alignment for item in lifetimes.allocations)}
        return Allocate(whole.data, "uint8", whole.shape, const(True), body, notes)

    return inside(kernel)


@dataclass(frozen=True)
class MergeSharedMemoryAllocations(PrimFuncPass):
    """Make one allocation of bytes of all allocations of scope "shared.dyn" in a kernel, as devices have one of that kind.

    An allocation becomes a let that binds its variable to an address within the bytes, a multiple of 16, of 128 where
    instructions of tensor cores read or write it, or of 1024 for copies of boxes and products of warp groups; all accesses stay as
    they are. Two allocations have bytes in common where neither is used while the other one is (what is allocated outside of a loop lasts
    for all of the loop) and barriers stand between: it runs behind ThreadSync, whose barriers it counts, and takes no space for which
    another one would be wanted. ThreadSync may run behind it as well: it knows the places.

    The option ``tir.merge_static_smem`` of the PassContext does the same with allocations of scope "shared".

    Raises:
        IRValueError: an extent is not constant.

    Before::

        a = T.allocate([256], "float32", "shared.dyn")
        b = T.allocate([64], "float16", "shared.dyn")
        ...  # a is used, and b until the end
        T.tvm_storage_sync("shared")
        c = T.allocate([128], "float32", "shared.dyn")
        ...  # c is used

    After::

        dynamic_shared_memory = T.allocate([1152], "uint8", "shared.dyn")
        a: T.handle("float32", "shared.dyn") = T.address_of(dynamic_shared_memory_1[0])
        b: T.handle("float16", "shared.dyn") = T.address_of(dynamic_shared_memory_1[1024])
        c: T.handle("float32", "shared.dyn") = T.address_of(dynamic_shared_memory_1[0])
        ...
    """

    pass_name = "tir.MergeSharedMemoryAllocations"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with one allocation of a scope in each kernel."""
        scopes = ["shared.dyn", *(["shared"] if ctx.get("tir.merge_static_smem", False) else [])]
        body = func.body
        for scope in scopes:
            body = KernelRegions(partial(_merged, scope=scope)).visit(body)
        return func if body is func.body else func.replace(body=body)
