"""A mutator that knows what memory the function that it rewrites writes."""

from __future__ import annotations

from typing import Any

from ...module import IRModule
from ..analysis.memory import Aliases, MemoryAnalysis
from ..expr_functor import ExprMutator


class MemoryMutator(ExprMutator):
    """For passes that read a value again elsewhere, or let one value stand for another.

    Both are right only where nobody overwrites the memory in between: :attr:`aliases` tells. Local functions are part of the function
    around them.
    """

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.memory = MemoryAnalysis(mod)
        self._function: Any = None
        self._aliases: Aliases | None = None

    @property
    def aliases(self) -> Aliases:
        """Which values of the function, as it was, may share memory; found when it is first asked for."""
        if self._aliases is None:
            self._aliases = self.memory.aliases(self._function)
        return self._aliases

    def visit_function_(self, func: Any) -> Any:
        """Remember the outermost function."""
        if self._function is not None:
            return super().visit_function_(func)
        self._function, self._aliases = func, None
        try:
            return super().visit_function_(func)
        finally:
            self._function = None


__all__ = ["MemoryMutator"]
