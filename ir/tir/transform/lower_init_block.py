"""LowerInitBlock: a block's ``init`` becomes an ``if`` on the first iteration of its reduction axes."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...node import Mutator
from ...transform import PassContext
from ..analysis.own_updates import own_updates
from ..buffer import Buffer
from ..expr import EQ, And, IterVar, PrimExpr
from ..function import PrimFunc
from ..stmt import Block, For, IfThenElse, Stmt, seq
from .empty_reduction import identities_beside_loops
from .prim_func_pass import PrimFuncPass


class _Lower(Mutator):
    def __init__(self, beside: dict[int, list[Stmt]]) -> None:
        super().__init__()
        self.beside = beside
        self._initialized: set[Buffer] = set()
        """What blocks with an init write, in the block that is visited."""

    def visit_For(self, loop: For) -> Stmt:
        return seq(*self.beside.get(id(loop), ()), self.generic_visit(loop))

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_BufferRegion(self, node: object) -> object:
        return node

    def visit_Block(self, block: Block) -> Block:
        around, self._initialized = self._initialized, set()
        block = self.generic_visit(block)
        if block.init is not None:
            block = _with_conditional_init(block)
            self._initialized.update(region.buffer for region in block.writes)
        sources = {match.buffer: match.source.buffer for match in block.match_buffers}
        initialized = {sources.get(buffer, buffer) for buffer in self._initialized}
        self._initialized = around | initialized  # no block around states what one in it allocates
        return _restated(block, initialized)


def _with_conditional_init(block: Block) -> Block:
    condition: PrimExpr | None = None
    for axis in block.iter_vars:
        if axis.iter_type == IterVar.CommReduce:
            first = EQ(axis.var, axis.dom.min)
            condition = first if condition is None else And(condition, first)
    init: Stmt = block.init if condition is None else IfThenElse(condition, block.init)
    return block.replace(init=None, body=seq(init, block.body))


def _restated(block: Block, initialized: set[Buffer]) -> Block:
    """The block stating that it reads what it updates: where there is no init, nothing says that this comes from the block itself."""
    updated = own_updates(block.reads, block.writes, initialized)
    return block.replace(reads=(*block.reads, *updated)) if updated else block


@dataclass(frozen=True)
class LowerInitBlock(PrimFuncPass):
    """Turn block initializations into conditional statements at the start of the block's body.

    Where the extent of a reduction is no number, it may be 0: statements before its loops then initialize what it writes.

    Before::

        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]

    After::

        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk], C[vi])  # instead of A[vi, vk]
            if vk == 0:
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
    """

    pass_name = "tir.LowerInitBlock"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without block initializations."""
        return func.replace(body=_Lower(identities_beside_loops(func.body)).visit(func.body))
