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
        self._in_index = outer
        if hasattr(node, "value"):
            self.visit(node.value)

    visit_BufferLoad = visit_BufferStore = _access

    def visit_Let(self, node: Any) -> None:
        """What a variable stands for may be an index."""
        outer, self._in_index = self._in_index, True
        self.visit(node.value)
        self._in_index = outer
        self.visit(node.body)

    def visit_LetStmt(self, node: Any) -> None:
        self.visit_Let(node)


def _may_be_undefined(func: PrimFunc) -> bool:
    visitor = _Hazards()
    visitor.visit(func.body)
    return visitor.found
