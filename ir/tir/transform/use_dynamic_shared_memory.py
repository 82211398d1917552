"""UseDynamicSharedMemory: kernels whose shared memory is more than a program may declare ask for it at the launch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar

from ... import dtype as dt
from ...module import IRModule
from ...node import Visitor
from ...target.gpu_facts import STATIC_SHARED_MEMORY_BYTES
from ...transform import PassContext
from ..analysis.thread_groups import storage_scope
from ..buffer import Buffer
from ..expr import IntImm, Var
from ..function import PrimFunc
from ..stmt import Allocate, Stmt
from ..stmt_functor import substitute
from .kernel_regions import KernelRegions
from .prim_func_pass import PrimFuncPass

_STATIC, _DYNAMIC = "shared", "shared.dyn"


class _Declared(Visitor):
    """The allocations of a kernel that the program says the size of, and all buffers in them."""

    remembers: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.addresses: list[Var] = []
        self.buffers: dict[Buffer, None] = {}

    def visit_Allocate(self, node: Allocate) -> None:
        if storage_scope(node.buffer_var) == _STATIC:
            sizes = [extent.value for extent in node.extents if isinstance(extent, IntImm)]
            self.bytes += prod(sizes) * dt.bytes_of(node.dtype)
            self.addresses.append(node.buffer_var)
        self.generic_visit(node)

    def visit_Buffer(self, buffer: Buffer) -> None:
        if storage_scope(buffer.data) == _STATIC:
            self.buffers[buffer] = None


def _allowed(kernel: Stmt, most_bytes: int) -> Stmt:
    """A kernel that declares no more shared memory than it may."""
    declared = _Declared()
    declared.visit(kernel)
    if declared.bytes <= most_bytes:
        return kernel
    moved: dict[Any, Any] = {}
    for address in declared.addresses:
        pointer = address.type_annotation
        assert pointer is not None
        moved[address] = Var(address.name, pointer.replace(storage_scope=_DYNAMIC))
    for buffer in declared.buffers:
        if buffer.data in moved:
            moved[buffer] = buffer.replace(data=moved[buffer.data])
    return substitute(kernel, moved)


@dataclass(frozen=True)
class UseDynamicSharedMemory(PrimFuncPass):
    """Give allocations of scope "shared" the scope "shared.dyn" in kernels that declare more bytes than a program may.

    Blocks of most architectures may have more shared memory than that, if the launch asks for it (CUDA C++ Programming Guide, "Shared
    Memory" of each compute capability). Runs behind FlattenBuffer, when allocations have their final sizes (stages of pipelines
    included), before ThreadSync and MergeSharedMemoryAllocations.

    Args:
        most_bytes: that a kernel may declare.

    Before::

        a = T.allocate([8192], "float32", "shared")
        b = T.allocate([8192], "float32", "shared")

    After::

        a = T.allocate([8192], "float32", "shared.dyn")
        b = T.allocate([8192], "float32", "shared.dyn")
    """

    pass_name = "tir.UseDynamicSharedMemory"

    most_bytes: int = STATIC_SHARED_MEMORY_BYTES

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function whose kernels all can be compiled, as far as that depends on shared memory."""
        body = KernelRegions(partial(_allowed, most_bytes=self.most_bytes)).visit(func.body)
        return func if body is func.body else func.replace(body=body)
