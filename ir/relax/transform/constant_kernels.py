"""Running kernels on constants while a program is compiled: natively where nothing can go wrong, else as the meaning says."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtype as dt
from ...codegen.build import build
from ...error import IRError
from ...node import Visitor
from ...structural import structural_hash
from ...tir.expr import IntImm
from ...tir.function import PrimFunc
from ...tir.interpreter.machine import Interpreter
from ...tir.stmt_functor import loads_in, variables_in
from ..op.folding import NotComputable

_HOST = "cpu"
"""Constants are computed here, whatever target is in force."""

_MAX_INTERPRETED = 1 << 14
"""Elements beyond which a kernel that may go wrong is left to the program."""


class ConstantKernels:
    """Kernels that compute constants; compiled ones are kept by their structure."""

    def __init__(self) -> None:
        self._functions: dict[int, Any] = {}

    def run(self, func: PrimFunc, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        """Call a PrimFunc on arrays, its outputs last.

        Raises:
            NotComputable: what it computes of them is undefined, or it is too large to find out.
        """
        bare = func.without_attr("global_symbol")
        arrays = [*[np.asarray(value, order="C") for value in inputs], *outputs]
        if not _may_be_undefined(bare):
            self._native(bare)(*arrays)
            return
        if sum(array.size for array in arrays) > _MAX_INTERPRETED:
            raise NotComputable("the kernel may divide by zero or read beyond a tensor's end")
        checked = [array.copy() for array in arrays]
        try:
            with np.errstate(all="ignore"):
                Interpreter(None).call(bare, checked)
        except IRError as error:
            raise NotComputable(str(error)) from error
        self._native(bare)(*arrays)

    def _native(self, func: PrimFunc) -> Any:
        key = structural_hash(func)
        found = self._functions.get(key)
        if found is None:
            found = self._functions[key] = build(func, _HOST, name="fold")["fold"]
        return found


class _Hazards(Visitor):
    """Finds what is undefined for some values: quotients by what is computed, elements at computed places, loops without end."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False
        self._in_index = False
        self._lets: dict[Any, Any] = {}
        self._index_variables: list[Any] = []

    def _quotient(self, node: Any) -> None:
        if dt.is_integral(node.dtype) and not (isinstance(node.b, IntImm) and node.b.value != 0):
            self.found = True
        self.generic_visit(node)

    visit_Div = visit_Mod = visit_FloorDiv = visit_FloorMod = _quotient

    def visit_While(self, node: Any) -> None:
        self.found = True

    def _access(self, node: Any) -> None:
        if self._in_index:
            self.found = True
        outer, self._in_index = self._in_index, True
        for index in node.indices:
            self.visit(index)
            self._index_variables += variables_in(index)
        self._in_index = outer
        if hasattr(node, "value"):
            self.visit(node.value)

    visit_BufferLoad = visit_BufferStore = _access

    def visit_Let(self, node: Any) -> None:
        """What a variable stands for may be an index: that is known when all indices are."""
        self._lets[node.var] = node.value
        self.generic_visit(node)

    def visit_LetStmt(self, node: Any) -> None:
        self.visit_Let(node)

    def visit_For(self, node: Any) -> None:
        """Its variable may be an index, which its bounds then decide."""
        bounds = (node.min, node.extent)
        self.found |= any(loads_in(item) for item in bounds)
        self._index_variables += variables_in(*bounds)
        self.generic_visit(node)

    def reads_indices(self) -> bool:
        """Whether an index is an element, by way of variables."""
        left, seen = list(self._index_variables), set()
        while left:
            var = left.pop()
            if var in seen or var not in self._lets:
                continue
            seen.add(var)
            if loads_in(self._lets[var]):
                return True
            left += variables_in(self._lets[var])
        return False


def _may_be_undefined(func: PrimFunc) -> bool:
    visitor = _Hazards()
    visitor.visit(func.body)
    return visitor.found or visitor.reads_indices()
