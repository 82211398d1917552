"""StorageRewrite: allocations whose lifetimes do not overlap share memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import dtype as dt
from ...module import IRModule
from ...node import post_order_visit
from ...transform import PassContext
from ..buffer import Buffer
from ..expr import IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import Allocate, DeclBuffer, For, SeqStmt, Stmt
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass

_SMALL = 32 * 1024  # smaller ones live on the stack or in registers, where sharing only makes dependences


class _Share(StmtExprMutator):
    """Handles nests of allocations around a sequence: each is alive from its first to its last statement there."""

    def __init__(self) -> None:
        super().__init__()
        self.replaced: dict[Var, Var] = {}

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.replaced.get(var, var)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        nest: list[Allocate] = []
        inner: Stmt = node
        while isinstance(inner, Allocate | DeclBuffer):
            if isinstance(inner, DeclBuffer):
                inner = inner.body
                continue
            nest.append(inner)
            inner = inner.body
        if len(nest) > 1 and isinstance(inner, SeqStmt):
            self._plan(nest, inner)
        return self._rebuild(node)

    def _rebuild(self, node: Any) -> Stmt:
        if isinstance(node, Allocate):
            body = self._rebuild(node.body)
            if node.buffer_var in self.replaced:
                return body
            extents = self._extents.get(node.buffer_var)
            if extents is not None:
                node = node.replace(extents=(const(extents, node.extents[0].dtype),))
            return node if body is node.body else node.replace(body=body)
        if isinstance(node, DeclBuffer):
            return node.replace(buffer=self.visit(node.buffer), body=self._rebuild(node.body))
        return self.visit(node)

    @property
    def _extents(self) -> dict[Var, int]:
        return self.__dict__.setdefault("_sizes", {})

    def _plan(self, nest: list[Allocate], body: SeqStmt) -> None:
        """Gives later allocations the memory of earlier ones that are dead by then."""
        first: dict[Var, int] = {}
        last: dict[Var, int] = {}
        names = {item.buffer_var for item in nest}
        for position, stmt in enumerate(body.seq):

            def note(found: object, position: int = position) -> None:
                if isinstance(found, Var) and found in names:
                    first.setdefault(found, position)
                    last[found] = position

            post_order_visit(stmt, note)
        sizes = {item.buffer_var: _elements(item) for item in nest}
        dtypes = {item.buffer_var: item.dtype for item in nest}
        scopes = {
            item.buffer_var: getattr(item.buffer_var.type_annotation, "storage_scope", "") for item in nest
        }
        free: list[tuple[int, Var]] = []  # last use, owner of the memory
        for var in sorted(first, key=lambda v: first[v]):
            size = sizes[var]
            if size is None or size * dt.bytes_of(dtypes[var]) <= _SMALL:
                continue
            fitting = [
                entry
                for entry in free
                if entry[0] < first[var]
                and dtypes[entry[1]] == dtypes[var]
                and scopes[entry[1]] == scopes[var]
            ]
            if not fitting:
                free.append((last[var], var))
                self._extents[var] = size
                continue
            # the closest in size wastes least
            best = min(fitting, key=lambda entry: abs(self._extents[entry[1]] - size))
            free.remove(best)
            owner = best[1]
            self._extents[owner] = max(self._extents[owner], size)
            self.replaced[var] = owner
            free.append((last[var], owner))

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        if buffer.data not in self.replaced:
            return buffer
        found = self._buffers.get(buffer)
        if found is None:
            found = self._buffers[buffer] = buffer.replace(data=self.replaced[buffer.data])
        return found

    def visit_For(self, loop: For) -> Stmt:
        if self.replaced:
            return self.generic_visit(loop)  # type: ignore[no-any-return]
        # Only the body may hold allocations, and what is replaced in it is not known outside of it.
        body = self.visit(loop.body)
        return loop if body is loop.body else loop.replace(body=body)


def _elements(node: Allocate) -> int | None:
    total = 1
    for extent in node.extents:
        if not isinstance(extent, IntImm):
            return None
        total *= extent.value
    return total


@dataclass(frozen=True)
class StorageRewrite(PrimFuncPass):
    """Let large allocations of one dtype and scope share memory when one is dead before the other begins.

    Before::

        B = T.allocate([65536], "float32", "global")
        C = T.allocate([65536], "float32", "global")
        D = T.allocate([65536], "float32", "global")
        ...  # B from A; C from B; D from C; E from D

    After::

        B = T.allocate([65536], "float32", "global")
        C = T.allocate([65536], "float32", "global")
        ...  # B from A; C from B; B from C; E from B
    """

    pass_name = "tir.StorageRewrite"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with fewer allocations."""
        if ctx.get("tir.disable_storage_rewrite", False):
            return func
        return func.replace(body=_Share().visit(func.body))
