"""Free variables of expressions and statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...node import Node
from .. import expr as E
from .scoped import ScopedVisitor


class _Free(ScopedVisitor):
    remembers: ClassVar[bool] = True

    def __init__(self, defined: Sequence[E.Var]) -> None:
        super().__init__()
        self._depth: dict[Any, int] = {var: 1 for var in defined}
        self.found: dict[Any, None] = {}

    def enter_definition(self, var: E.Var, where: Node) -> None:
        self._depth[var] = self._depth.get(var, 0) + 1

    def exit_definition(self, var: E.Var) -> None:
        self._depth[var] -= 1

    def use(self, var: E.Var) -> None:
        if not self._depth.get(var):
            self.found[var] = None

    def use_buffer(self, buffer: Any, access: Any) -> None:
        self.use(buffer.data)
        for item in (*buffer.shape, *buffer.strides):
            self.visit(item)
        if buffer.elem_offset is not None:
            self.visit(buffer.elem_offset)


def undefined_vars(node: Any, defs: Sequence[E.Var] | None = None) -> list[E.Var]:
    """The variables that a statement, expression or function uses without defining them, in order of first use.

    Data pointers of buffers that are accessed without being allocated inside count too.

    Args:
        node: what to look at.
        defs: variables to take as defined.
    """
    visitor = _Free(defs or ())
    visitor.visit(node)
    return list(visitor.found)
