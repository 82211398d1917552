"""RemoveWeightLayoutRewriteBlock: weights are parameters in the layout that the kernel wants, not copied into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...node import Mutator, post_order_visit
from ...transform import PassContext
from ..buffer import Buffer
from ..expr import BufferLoad, PrimExpr, Var
from ..function import PrimFunc
from ..kernel_attributes import LAYOUT_REWRITE_PREPROC
from ..operators import const
from ..stmt import Block, BlockRealize, BufferStore, Evaluate, For, SeqStmt, Stmt, seq
from .prim_func_pass import PrimFuncPass
from .remove_assume import is_nothing


class _Remove(Mutator):
    def __init__(self, params: set[Buffer]) -> None:
        super().__init__()
        self.params = params
        self.rewritten: dict[Buffer, Buffer] = {}
        """Parameters in their original layout, with the buffer that holds them in the kernel's."""

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        block = node.block
        body = block.body
        if LAYOUT_REWRITE_PREPROC in block.annotations and isinstance(body, BufferStore):
            value = body.value
            if isinstance(value, BufferLoad) and value.buffer in self.params:
                self.rewritten[value.buffer] = body.buffer
                return Evaluate(const(0))
        return self.generic_visit(node)  # type: ignore[no-any-return]

    def visit_Block(self, block: Block) -> Block:
        mapped = self.generic_visit(block)
        kept = tuple(item for item in mapped.alloc_buffers if item not in self.rewritten.values())
        return mapped if len(kept) == len(mapped.alloc_buffers) else mapped.replace(alloc_buffers=kept)

    def visit_For(self, loop: For) -> Stmt:
        mapped = self.generic_visit(loop)
        return Evaluate(const(0)) if mapped is not loop and is_nothing(mapped.body) else mapped

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        mapped = [self.visit(item) for item in node.seq]
        if all(a is b for a, b in zip(mapped, node.seq)):
            return node
        kept = [new for new, old in zip(mapped, node.seq) if new is old or not is_nothing(new)]
        return seq(kept) if kept else Evaluate(const(0))


@dataclass(frozen=True)
class RemoveWeightLayoutRewriteBlock(PrimFuncPass):
    """Drop blocks annotated ``meta_schedule.layout_rewrite_preproc``; their results become the parameters.

    The caller passes such a weight in the new layout from then on.

    Before::

        def main(W: T.Buffer((64, 64), "float32"), ...):
            W_1 = T.alloc_buffer((8, 64, 8))
            for i, j in T.grid(64, 64):
                with T.block("W_rewrite"):
                    T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                    W_1[vj // 8, vi, vj % 8] = W[vi, vj]

    After::

        def main(W: T.Buffer((8, 64, 8), "float32"), ...):
    """

    pass_name = "tir.RemoveWeightLayoutRewriteBlock"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with its weights in the new layout."""
        remover = _Remove(set(func.buffer_map.values()))
        body = remover.visit(func.body)
        if not remover.rewritten:
            return func
        used: set[Any] = set()
        post_order_visit(body, lambda node: used.add(node) if isinstance(node, Buffer) else None)
        buffers: dict[Var, Buffer] = {}
        for param, buffer in func.buffer_map.items():
            new = remover.rewritten.get(buffer)
            buffers[param] = buffer if new is None or buffer in used else new
        return func.replace(body=body, buffer_map=buffers)
