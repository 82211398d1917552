"""Single static assignment: each variable is defined once and used inside its scope."""

from __future__ import annotations

from ...module import IRModule
from ...node import Node
from .. import expr as E
from ..function import PrimFunc
from .scoped import ScopedVisitor


class _Ssa(ScopedVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.ok = True
        self._live: set[E.Var] = set()
        self._seen: set[E.Var] = set()

    def enter_definition(self, var: E.Var, where: Node) -> None:
        if var in self._seen:
            self.ok = False
        self._seen.add(var)
        self._live.add(var)

    def exit_definition(self, var: E.Var) -> None:
        self._live.discard(var)

    def use(self, var: E.Var) -> None:
        if var in self._seen and var not in self._live:
            self.ok = False


def verify_ssa(func: PrimFunc | IRModule) -> bool:
    """Whether no variable is defined twice in a function (each function of a module on its own)."""
    if isinstance(func, IRModule):
        return all(verify_ssa(item) for item in func.functions.values() if isinstance(item, PrimFunc))
    visitor = _Ssa()
    visitor.visit(func)
    return visitor.ok
