"""LowerInitBlock: a block's ``init`` becomes an ``if`` on the first iteration of its reduction axes."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...node import Mutator
from ...transform import PassContext
from ..expr import EQ, And, IterVar, PrimExpr
from ..function import PrimFunc
from ..stmt import Block, For, IfThenElse, Stmt, seq
from .empty_reduction import identities_beside_loops
from .prim_func_pass import PrimFuncPass


class _Lower(Mutator):
    def __init__(self, beside: dict[int, list[Stmt]]) -> None:
        super().__init__()
        self.beside = beside

    def visit_For(self, loop: For) -> Stmt:
        return seq(*self.beside.get(id(loop), ()), self.generic_visit(loop))

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_BufferRegion(self, node: object) -> object:
        return node

    def visit_Block(self, block: Block) -> Block:
        block = self.generic_visit(block)
        if block.init is None:
            return block
        condition: PrimExpr | None = None
        for axis in block.iter_vars:
            if axis.iter_type == IterVar.CommReduce:
                first = EQ(axis.var, axis.dom.min)
                condition = first if condition is None else And(condition, first)
        init: Stmt = block.init if condition is None else IfThenElse(condition, block.init)
        return block.replace(init=None, body=seq(init, block.body))


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
            if vk == 0:
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
    """

    pass_name = "tir.LowerInitBlock"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without block initializations."""
        return func.replace(body=_Lower(identities_beside_loops(func.body)).visit(func.body))
