"""RemoveStoreUndef: stores of undefined values disappear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...module import IRModule
from ...node import Mutator, post_order_visit
from ...transform import PassContext
from ..expr import Call, PrimExpr
from ..function import PrimFunc
from ..operators import const
from ..stmt import BufferStore, Evaluate, LetStmt, SeqStmt, Stmt, seq
from .prim_func_pass import PrimFuncPass
from .remove_assume import is_nothing


def _is_undefined(value: Any, names: set[Any]) -> bool:
    found: list[bool] = []

    def check(node: Any) -> None:
        if node in names or (isinstance(node, Call) and getattr(node.op, "name", "") == "tir.undef"):
            found.append(True)

    post_order_visit(value, check)
    return bool(found)


class _Remove(Mutator):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[Any] = set()
        """Variables bound to undefined values."""

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        if any(_is_undefined(index, self.names) for index in node.indices):
            raise IRValueError(
                f"RemoveStoreUndef: {node.buffer.name} is stored to at an undefined index: {node}"
            )
        return Evaluate(const(0)) if _is_undefined(node.value, self.names) else node

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        if not _is_undefined(node.value, self.names):
            return self.generic_visit(node)  # type: ignore[no-any-return]
        self.names.add(node.var)
        return self.visit(node.body)  # type: ignore[no-any-return]

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        mapped = [self.visit(item) for item in node.seq]
        if all(a is b for a, b in zip(mapped, node.seq)):
            return node
        kept = [new for new, old in zip(mapped, node.seq) if new is old or not is_nothing(new)]
        return seq(kept) if kept else Evaluate(const(0))


@dataclass(frozen=True)
class RemoveStoreUndef(PrimFuncPass):
    """Drop stores of ``T.undef()``, which say that an element's value does not matter.

    Before::

        A[0] = T.undef()
        A[1] = 3

    After::

        A[1] = 3
    """

    pass_name = "tir.RemoveStoreUndef"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without such stores; raises IRValueError where an index is undefined."""
        return func.replace(body=_Remove().visit(func.body))
