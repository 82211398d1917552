"""LowerFloorDiv: floor division of numbers that are known not to be negative becomes the division of machines."""

from __future__ import annotations

from dataclasses import dataclass

from ... import dtype as dt
from ...arith.index_simplifier import IndexSimplifier
from ...module import IRModule
from ...transform import PassContext
from ..buffer import Buffer
from ..expr import BinaryOpExpr, Div, FloorDiv, FloorMod, IntImm, Let, Mod, PrimExpr, Var
from ..function import PrimFunc
from ..stmt import AttrStmt, For, LetStmt, Stmt
from .fresh_copy import renamed
from .positions import PositionedMutator
from .prim_func_pass import PrimFuncPass

_UNKNOWN = 1 << 40
"""What the sizes of arrays and whole arguments are taken to stay below."""


def _is_power_of_two(divisor: PrimExpr) -> bool:
    """Whether floor division is a shift, and the remainder a mask: what machines do fastest, and right for negative numbers."""
    return isinstance(divisor, IntImm) and divisor.value > 0 and not divisor.value & (divisor.value - 1)


class _Lower(PositionedMutator):
    def __init__(self) -> None:
        self.simplifier = IndexSimplifier()
        super().__init__(self.simplifier.is_index)

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        self.simplifier.bind_thread(stmt)
        return super().visit_AttrStmt(stmt)

    def visit_For(self, loop: For) -> Stmt:
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        return self.generic_visit(loop)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        if dt.is_index(node.var.dtype):
            self.simplifier.bind(node.var, *self.simplifier.bounds_of_value(node.value))
        return super().visit_LetStmt(node)

    def visit_Let(self, node: Let) -> PrimExpr:
        if self.simplifier.is_bound(node.var):
            node = renamed(node)
        return super().visit_Let(node)

    def operation(self, node: BinaryOpExpr) -> PrimExpr:
        """A division of index arithmetic, or of data whose bounds say that no operand has wrapped below zero."""
        mapped = self.generic_visit(node)
        kind = _TRUNCATING.get(type(node))
        if kind is None or _is_power_of_two(node.b):
            return mapped
        bounds = self.simplifier.bounds_of_data if self.in_data else self.simplifier.bounds
        if dt.is_index(node.dtype) and bounds(node.a)[0] >= 0 and bounds(node.b)[0] >= 0:
            return kind(mapped.a, mapped.b)
        return mapped


_TRUNCATING: dict[type, type[PrimExpr]] = {FloorDiv: Div, FloorMod: Mod}


@dataclass(frozen=True)
class LowerFloorDiv(PrimFuncPass):
    """Divide towards zero, as machines do, where the bounds of loops prove that neither operand is negative.

    Where they do not, floor division stays and code generation corrects the quotient. It stays for powers of two as well, where it
    is a shift.

    Before::

        for i in range(64):
            A[i // 7] = B[i % 7]
            C[i] = D[(n + i) // 3]

    After::

        for i in range(64):
            A[T.truncdiv(i, 7)] = B[T.truncmod(i, 7)]
            C[i] = D[(n + i) // 3]
    """

    pass_name = "tir.LowerFloorDiv"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with divisions that need no correction."""
        lowering = _Lower()
        for buffer in func.buffer_map.values():
            for extent in buffer.shape:
                if isinstance(extent, Var):
                    lowering.simplifier.bind(extent, 0, _UNKNOWN)
        body = lowering.visit(func.body)
        return func if body is func.body else func.replace(body=body)
