"""PlaceThreadMemory: memory that a kernel allocates without saying where lies with the threads that use it."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...node import Mutator
from ...transform import PassContext
from ..buffer import Buffer
from ..expr import PrimExpr, Var
from ..function import PrimFunc
from ..stmt import Block, For, Stmt
from ..stmt_functor import substitute
from ..thread_axis import is_launched
from .prim_func_pass import PrimFuncPass


class _Place(Mutator):
    def __init__(self) -> None:
        super().__init__()
        self._tags: list[str] = []
        """Of the thread axes around what is visited."""
        self.moved: dict[Buffer, Buffer] = {}

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_For(self, loop: For) -> Stmt:
        if not is_launched(loop):
            return self.generic_visit(loop)  # type: ignore[no-any-return]
        assert loop.thread_binding is not None
        self._tags.append(loop.thread_binding.thread_tag)
        mapped: Stmt = self.generic_visit(loop)
        self._tags.pop()
        return mapped

    def visit_Block(self, block: Block) -> Block:
        if self._tags:
            is_one_threads = any(tag.startswith("threadIdx") for tag in self._tags)
            for buffer in block.alloc_buffers:
                if buffer.scope() == "global":
                    self.moved[buffer] = _in_scope(buffer, "local" if is_one_threads else "shared")
        return self.generic_visit(block)  # type: ignore[no-any-return]


def _in_scope(buffer: Buffer, scope: str) -> Buffer:
    pointer = buffer.data.type_annotation
    assert pointer is not None
    return buffer.replace(data=Var(buffer.data.name, pointer.replace(storage_scope=scope)))


@dataclass(frozen=True)
class PlaceThreadMemory(PrimFuncPass):
    """Give memory of scope "global" that is allocated within a kernel the scope "local" where one thread uses it, else "shared".

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
        place = _Place()
        place.visit(func.body)
        if not place.moved:
            return func
        data = {old.data: new.data for old, new in place.moved.items()}
        return func.replace(body=substitute(func.body, {**place.moved, **data}))
