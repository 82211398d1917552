"""RemoveNoOp: statements without effect disappear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...module import IRModule
from ...node import Mutator, Visitor, post_order_visit
from ...transform import PassContext
from ..analysis.empty_domains import initializes
from ..expr import BufferLoad, Call, IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..intrinsic.declaration import CallEffectKind, effect_of
from ..operators import const, logical_not
from ..stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from .prim_func_pass import PrimFuncPass


def _nothing(stmt: Stmt) -> bool:
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm)


def _pure(expr: PrimExpr) -> bool:
    pure = True

    def check(node: object) -> None:
        nonlocal pure
        if isinstance(node, Call) and effect_of(node) > CallEffectKind.READ_STATE:
            pure = False

    post_order_visit(expr, check)
    return pure


class _FindVar(Visitor):
    """Looks for a variable until it is found."""

    remembers: ClassVar[bool] = True

    def __init__(self, var: Var) -> None:
        super().__init__()
        self.var = var
        self.is_found = False

    def visit(self, node: object) -> None:
        if not self.is_found:
            super().visit(node)

    def visit_Var(self, var: Var) -> None:
        self.is_found = self.is_found or var is self.var


class _FindReader(_FindVar):
    """Looks for a use of an address that is no store there."""

    def visit_BufferStore(self, store: BufferStore) -> None:
        for part in (store.value, *store.indices, store.predicate):
            if part is not None:
                self.visit(part)

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self.visit(node.body)


class _DropStores(Mutator):
    """Leaves out the stores to memory that nobody reads, and what declares buffers there."""

    def __init__(self, data: Var) -> None:
        super().__init__()
        self._data = data

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        if store.buffer.data is not self._data:
            return store
        parts = [part for part in (*store.indices, store.predicate, store.value) if part is not None]
        return seq([Evaluate(part) for part in parts if not _pure(part)])

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        body = self.visit(node.body)
        if node.buffer.data is self._data:
            return body
        return node if body is node.body else node.replace(body=body)


class _Remove(Mutator):
    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        mapped = [self.visit(item) for item in node.seq]
        if all(a is b for a, b in zip(mapped, node.seq)) and not any(_nothing(item) for item in mapped):
            return node
        return seq(mapped)

    def visit_For(self, loop: For) -> Stmt:
        mapped = self.generic_visit(loop)
        if _nothing(mapped.body) or (
            isinstance(loop.extent, IntImm) and loop.extent.value <= 0 and not initializes(loop)
        ):
            return Evaluate(const(0))
        return mapped

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        mapped = self.generic_visit(node)
        then, otherwise = mapped.then_case, mapped.else_case
        if otherwise is not None and _nothing(otherwise):
            otherwise = None
        if _nothing(then):
            if otherwise is None:
                return then if _pure(mapped.condition) else Evaluate(mapped.condition)

            return IfThenElse(logical_not(mapped.condition), otherwise)
        return (
            mapped
            if otherwise is mapped.else_case
            else IfThenElse(mapped.condition, then, otherwise, node.span)
        )

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        mapped = self.generic_visit(node)
        if _nothing(mapped.body):
            return mapped.body if _pure(node.value) else Evaluate(node.value)
        return mapped

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        mapped = self.generic_visit(node)
        return mapped.body if _nothing(mapped.body) else mapped

    def visit_Allocate(self, node: Allocate) -> Stmt:
        mapped = self.generic_visit(node)
        if _nothing(mapped.body):
            return mapped.body
        reader = _FindReader(node.buffer_var)
        reader.visit(mapped.body)
        if reader.is_found:
            return mapped
        return self.visit(_DropStores(node.buffer_var).visit(mapped.body))

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        return Evaluate(const(0)) if _pure(node.value) and not _nothing(node) else node

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        value = node.value
        if (
            isinstance(value, BufferLoad)
            and value.buffer is node.buffer
            and value.predicate is None  # else it is zero where it does not read
            and node.predicate is None
        ):
            same = len(value.indices) == len(node.indices) and all(
                a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value)
                for a, b in zip(value.indices, node.indices)
            )
            if same and all(map(_pure, node.indices)):
                return Evaluate(const(0))
        return node


@dataclass(frozen=True)
class RemoveNoOp(PrimFuncPass):
    """Remove empty loops and branches, allocations that nobody reads, evaluations without effect, and stores of what is there.

    Before::

        for i in range(16):
            T.evaluate(0)
        A[0] = A[0]
        B[0] = 1.0

    After::

        B[0] = 1.0
    """

    pass_name = "tir.RemoveNoOp"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without no-ops."""
        return func.replace(body=_Remove().visit(func.body))
