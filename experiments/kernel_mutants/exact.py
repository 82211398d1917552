"""Whether two scheduled programs are one in exact arithmetic: a softmax shifted by another number is, and a norm of shifted numbers.

Both are run by the interpreter with float64 in the place of every float, so that what rounding hides shows, and what only rounding
tells apart does not. Of changes that are about rounding themselves this tells nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ir import IRModule
from ir import dtype as dt
from ir.tir import Buffer, PrimFunc, interpreter
from ir.tir.expr import Call, Cast, FloatImm, PrimExpr, Var
from ir.tir.stmt_functor import StmtExprMutator
from runners.kernel import pack_arguments
from runners.verify import Reference

_WIDE = "float64"
_CLOSE = 1e-9
"""Relative to the largest finite element: float64 keeps sixteen digits, of which cancellation takes some."""


class _InFloat64(StmtExprMutator):
    """A function with float64 for every float."""

    def __init__(self) -> None:
        super().__init__()
        self._variables: dict[Var, Var] = {}

    def visit_FloatImm(self, node: FloatImm) -> FloatImm:
        """The constant as its dtype has it."""
        rounded = float(np.asarray(node.value).astype(dt.to_numpy(node.dtype)))
        return FloatImm(_WIDE, rounded)

    def visit_Var(self, var: Var) -> Var:
        """One new variable for each of floats."""
        if not dt.is_float(var.dtype):
            return var
        return self._variables.setdefault(var, Var(var.name, _wide(var.dtype)))

    def visit_Cast(self, node: Cast) -> PrimExpr:
        """Between floats there is nothing to convert."""
        value = self.visit(node.value)
        if not dt.is_float(node.dtype):
            return Cast(node.dtype, value)
        return value if dt.is_float(value.dtype) else Cast(_wide(node.dtype), value)

    def visit_Call(self, node: Call) -> PrimExpr:
        """The function of float64."""
        mapped = self.generic_visit(node)
        return mapped.replace(dtype=_wide(node.dtype)) if dt.is_float(node.dtype) else mapped

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        """A buffer of float64 at the same place."""
        found = self._buffers.get(buffer)
        if found is None:
            found = self.generic_visit(buffer)
            if dt.is_float(buffer.dtype):
                found = found.replace(dtype=_wide(buffer.dtype))
            self._buffers[buffer] = found
        return found

    def visit_PrimFunc(self, func: PrimFunc) -> PrimFunc:
        """Its buffers and its body."""
        buffers = {param: self.visit(buffer) for param, buffer in func.buffer_map.items()}
        return func.replace(buffer_map=buffers, body=self.visit(func.body))


def _wide(dtype: str) -> str:
    return dt.with_lanes(_WIDE, dt.lanes(dtype))


def same_in_exact_arithmetic(mod: IRModule, mutant: IRModule, reference: Reference) -> bool:
    """Whether outputs agree to nine digits on all kinds of inputs whose outputs are finite in both programs, of which there are some."""
    compared = 0
    for case in reference.cases:
        outputs = [_outputs(program, reference, case) for program in (mod, mutant)]
        if any(item is None for item in outputs):
            return False
        for one, other in zip(*outputs, strict=True):  # type: ignore[arg-type]
            if not np.isfinite(one).all():
                continue
            with np.errstate(all="ignore"):
                near = np.abs(one - other) <= _CLOSE * np.abs(one).max(initial=0.0)
            if not near.all():
                return False
            compared += 1
    return compared > 0


def _outputs(program: IRModule, reference: Reference, case: Any) -> Sequence[np.ndarray] | None:
    """The outputs of a program in float64; None where the interpreter refuses it."""
    arguments = pack_arguments(program, [array.copy() for array in reference.prepare(case).arrays])
    wide = [array.astype(np.float64) if _is_float(array) else array for array in arguments]
    exact = IRModule({var.name_hint: _InFloat64().visit(func) for var, func in program.functions.items()})
    try:
        with np.errstate(all="ignore"):
            interpreter.run(exact, *wide)
    except Exception:  # what it refuses has no meaning, and so no equal one
        return None
    return [array.astype(np.float64) for param, array in zip(reference.facts.params, wide) if param.output]


def _is_float(array: np.ndarray) -> bool:
    return dt.is_float(dt.from_numpy(array.dtype))
