"""KeepFloatOrder: sums and products outside of reductions are computed in the order in which they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import dtype as dt
from ...module import IRModule
from ...node import Mutator, post_order_visit
from ...transform import PassContext
from ..buffer import Buffer
from ..expr import Add, BufferLoad, Call, IterVar, Let, Mul, PrimExpr, Select, Var
from ..function import PrimFunc
from ..intrinsic.control import in_order
from ..stmt import Block, BufferStore, LetStmt, Stmt
from .prim_func_pass import PrimFuncPass


class _Keep(Mutator):
    def __init__(self) -> None:
        super().__init__()
        self._behind: dict[Var, Var] = {}
        """By the data of views: the data that they look at."""
        self._bound: set[Var] = set()
        """Variables whose values other passes may put in their place."""

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def visit_Block(self, block: Block) -> Stmt:
        if any(axis.iter_type == IterVar.CommReduce for axis in block.iter_vars):
            return block  # blocks inside are a part of the reduction
        for match in block.match_buffers:
            self._behind[match.buffer.data] = self._memory(match.source.buffer)
        return self.generic_visit(block)  # type: ignore[no-any-return]

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        if not self._may_be_step(store.value, self._memory(store.buffer)):
            return store
        return store.replace(value=in_order(store.value))

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        self._bound.add(node.var)
        kept = self._may_be_step(node.value, None)
        body = self.visit(node.body)
        if body is node.body and not kept:
            return node
        return node.replace(value=in_order(node.value) if kept else node.value, body=body)

    def _memory(self, buffer: Buffer) -> Var:
        return self._behind.get(buffer.data, buffer.data)

    def _may_be_step(self, value: PrimExpr, memory: Var | None) -> bool:
        """Whether a value may become one operation on what a memory holds, or any memory for None, when it is simplified.

        Indices do not matter: different ones may prove equal.
        """
        return dt.is_float(value.dtype) and _ends_in_arithmetic(value) and self._reads(value, memory)

    def _reads(self, value: PrimExpr, memory: Var | None) -> bool:
        found = False

        def look(node: Any) -> None:
            nonlocal found
            if isinstance(node, BufferLoad):
                found |= memory is None or self._memory(node.buffer) is memory
            else:
                found |= node in self._bound

        post_order_visit(value, look)
        return found


def _ends_in_arithmetic(value: PrimExpr) -> bool:
    """Whether a value is a sum or a product, also as one side of a choice that may prove to be the only one."""
    if isinstance(value, Let):
        return _ends_in_arithmetic(value.body)
    if isinstance(value, Select):
        return _ends_in_arithmetic(value.true_value) or _ends_in_arithmetic(value.false_value)
    if isinstance(value, Call) and getattr(value.op, "name", "") == "tir.if_then_else":
        return any(_ends_in_arithmetic(side) for side in value.args[1:])
    return isinstance(value, Add | Mul)


@dataclass(frozen=True)
class KeepFloatOrder(PrimFuncPass):
    """Mark float sums and products that look like a step of a reduction and are none: no block with reduction variables is around.

    Code generation gives LLVM the freedom to reassociate by the look of a store alone, when blocks are gone. Marked are the others,
    which are rare: a mark at reductions would hide them from the passes in between.

    Before::

        with T.block("scale"):
            v = T.axis.spatial(16, i)
            C[v] = C[v] * T.float32(0.1)

    After::

        with T.block("scale"):
            v = T.axis.spatial(16, i)
            C[v] = T.in_order(C[v] * T.float32(0.1))
    """

    pass_name = "tir.KeepFloatOrder"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with marks; the same one where there is nothing to mark."""
        body = _Keep().visit(func.body)
        return func if body is func.body else func.replace(body=body)
