"""Accesses of a buffer that become accesses of another one, which holds its elements in other places."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ir import tir
from ir.tir.stmt_functor import StmtExprMutator


class MovedAccesses(StmtExprMutator):
    """Loads and stores of ``old`` become those of ``new``; where an element lies there is said by :meth:`indices`.

    Args:
        old: what is accessed.
        new: what is accessed in its place.
    """

    def __init__(self, old: tir.Buffer, new: tir.Buffer) -> None:
        super().__init__()
        self._old, self._new = old, new

    @abstractmethod
    def indices(self, indices: Sequence[Any]) -> Sequence[Any]:
        """The indices in the new buffer of an element of the old one, in whose indices accesses have moved already."""

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        mapped = self.generic_visit(load)
        if load.buffer is not self._old:
            return mapped
        return tir.BufferLoad(self._new, self.indices(mapped.indices), mapped.predicate)

    def visit_BufferStore(self, store: tir.BufferStore) -> Any:
        mapped = self.generic_visit(store)
        if store.buffer is not self._old:
            return mapped
        return tir.BufferStore(self._new, mapped.value, self.indices(mapped.indices), mapped.predicate)
