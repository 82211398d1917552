"""ManifestSharedMemoryLocalStage: copies to shared memory go by registers, in two steps that a pipeline can keep apart."""

from __future__ import annotations

from dataclasses import dataclass

from ...error import IRValueError
from ...module import IRModule
from ...transform import PassContext
from ..buffer import Buffer, decl_buffer
from ..expr import BufferLoad, IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, Stmt, seq
from ..stmt_functor import StmtExprMutator, loads_in
from .auto_copy_nest import holds_statements_alone
from .fresh_copy import fresh_copy
from .pipeline_parts import PIPELINE, stated
from .prim_func_pass import PrimFuncPass

LOCAL_STAGE = "tir.manifest_shared_memory_local_stage"
"""The annotation of the blocks that copy so."""


def _block_below(stmt: Stmt) -> BlockRealize | None:
    """The annotated block that is all that a nest of loops runs, in each thread for itself."""
    while isinstance(stmt, For):
        if stmt.kind == ForKind.THREAD_BINDING or any(key in stmt.annotations for key in PIPELINE):
            return None
        stmt = stmt.body
    if isinstance(stmt, BlockRealize) and LOCAL_STAGE in stmt.block.annotations:
        return stmt
    return None


class _Manifest(StmtExprMutator):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self._by_data: dict[Var, Buffer] = {buffer.data: buffer for buffer in func.buffer_map.values()}

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_Block(self, block: Block) -> Block:
        self._by_data.update((buffer.data, buffer) for buffer in block.alloc_buffers)
        return self.generic_visit(block)  # type: ignore[no-any-return]

    def visit_For(self, loop: For) -> Stmt:
        found = _block_below(loop)
        return self.generic_visit(loop) if found is None else self._in_two(loop, found)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        found = _block_below(realize)
        return self.generic_visit(realize) if found is None else self._in_two(realize, found)

    def _in_two(self, nest: Stmt, realize: BlockRealize) -> Stmt:
        """A nest of loops around a copy as two, of which the first one loads and the second one stores."""
        copy = _Copy(nest, realize.block)
        stage = copy.stage
        self._by_data[stage.data] = stage
        first = _Stage(realize.block, BufferStore(stage, copy.store.value, copy.indices), self._by_data)
        value = BufferLoad(stage, copy.indices)
        second = _Stage(
            realize.block,
            BufferStore(copy.store.buffer, value, copy.store.indices, None, copy.store.span),
            self._by_data,
            keeps_annotations=True,
        )
        body = seq(first.visit(nest), fresh_copy(second.visit(nest)))
        block = Block((), (), (), "", body, None, (stage,))
        return BlockRealize((), const(True), stated(block, self._by_data))


class _Copy:
    """A block that stores to shared memory, with the loops around it and in it."""

    def __init__(self, nest: Stmt, block: Block) -> None:
        self._block = block
        self._loops: list[For] = []
        if not holds_statements_alone(block):
            raise self._refusal("it has variables, views, buffers or an init of its own")
        self.store: BufferStore = self._found(nest)
        if self.store.predicate is not None or not self.store.buffer.scope().startswith("shared"):
            raise self._refusal(f"it stores to memory of scope {self.store.buffer.scope()!r}")
        read = {region.buffer for region in block.reads} | {load.buffer for load in loads_in(nest)}
        if self.store.buffer in read:
            raise self._refusal(f"it also reads {self.store.buffer.name}")
        if not any(load.buffer.scope() == "global" for load in loads_in(self.store.value)):
            raise self._refusal("it loads nothing from global memory")
        several = [loop for loop in self._loops if self._extent(loop) != 1]
        self.stage: Buffer = decl_buffer(
            [loop.extent for loop in several] or [1],
            self.store.buffer.dtype,
            f"{self.store.buffer.name}_local",
            scope="local",
        )
        self.indices: list[PrimExpr] = [loop.loop_var - loop.min for loop in several] or [const(0)]

    def _found(self, stmt: Stmt) -> BufferStore:
        """The store; notes the loops around it."""
        while not isinstance(stmt, BufferStore):
            if isinstance(stmt, For):
                self._loops.append(stmt)
                stmt = stmt.body
            elif isinstance(stmt, BlockRealize) and holds_statements_alone(stmt.block):
                stmt = stmt.block.body
            elif isinstance(stmt, IfThenElse) and stmt.else_case is None:
                stmt = stmt.then_case
            else:
                raise self._refusal(f"there is a {type(stmt).__name__} where one store is expected")
        return stmt

    def _extent(self, loop: For) -> int:
        if not isinstance(loop.extent, IntImm):
            raise self._refusal(
                f"loop {loop.loop_var.name!r} has extent {loop.extent}; registers need a number"
            )
        return loop.extent.value

    def _refusal(self, why: str) -> IRValueError:
        return IRValueError(
            f"block {self._block.name_hint!r} is annotated {LOCAL_STAGE!r}, but {why}; annotate blocks that copy from global to shared"
            " memory"
        )


class _Stage(StmtExprMutator):
    """The nest with another store in the place of the block's."""

    def __init__(
        self, block: Block, store: BufferStore, buffers: dict[Var, Buffer], keeps_annotations: bool = False
    ) -> None:
        super().__init__()
        self._block, self._store, self._by_data = block, store, buffers
        self._keeps_annotations = keeps_annotations

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        return self._store

    def visit_Block(self, block: Block) -> Block:
        mapped = self.generic_visit(block)
        notes = {key: value for key, value in block.annotations.items() if key != LOCAL_STAGE}
        mapped = mapped.replace(annotations=notes if self._keeps_annotations else {})
        return stated(mapped, self._by_data)


@dataclass(frozen=True)
class ManifestSharedMemoryLocalStage(PrimFuncPass):
    """Make a copy from global to shared memory two: from global memory to registers, and from there to shared memory.

    For blocks annotated ``tir.manifest_shared_memory_local_stage``; runs behind ConvertBlocksToOpaque. A software pipeline can load for
    one iteration while others compute, and store later. Other annotations stay with the block that stores.

    Before::

        for x in range(4):
            with T.block("A_shared"):
                T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                A_shared[tx, x] = A[k, tx, x]

    After::

        with T.block(""):
            A_shared_local = T.alloc_buffer((4,), scope="local")
            for x in range(4):
                with T.block("A_shared"):
                    A_shared_local[x] = A[k, tx, x]
            for x in range(4):
                with T.block("A_shared"):
                    A_shared[tx, x] = A_shared_local[x]

    Refused: a block with more than one store, a store to other memory than shared, loops around the copy whose extent is no number.
    """

    pass_name = "tir.ManifestSharedMemoryLocalStage"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function whose annotated copies have two steps."""
        return func.replace(body=_Manifest(func).visit(func.body))
