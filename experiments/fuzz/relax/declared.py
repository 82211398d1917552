"""Every declared operator, with the arguments of the table of its tests, where fitting values of the program take their place."""

from __future__ import annotations

from typing import Any

import numpy as np

import ir
from tests.ir.relax.op.cases import CASES, Case

from .scope import Rejected, Scope, Value

_UNRUN = ("hint_on_device", "to_vdevice")
"""Operators that need devices."""

RUN = [number for number, case in enumerate(CASES) if case.op.removeprefix("relax.") not in _UNRUN]


def declared_call(scope: Scope) -> Any:
    """A call of an operator as one of the cases of its tests makes it."""
    number = scope.random.choice(RUN)
    case = CASES[number]
    return case.build(*(_operand(scope, number, case, position).var for position in range(len(case.inputs))))


def _operand(scope: Scope, number: int, case: Case, position: int) -> Value:
    """A value in scope of the shape and dtype of a case's input, inside of its range, or a parameter that is that input."""
    wanted = case.inputs[position]
    dtype = ir.dtype.from_numpy(wanted.dtype)
    found = scope.tensors(
        lambda value: (
            value.dtype == dtype
            and value.is_static
            and value.shape == wanted.shape
            and _inside(value.data, wanted)
        )
    )
    if found and scope.random.random() < 0.8:
        return scope.random.choice(found)
    dims: list[Any] = list(wanted.shape)
    for axis, extent in enumerate(dims):
        if (position, axis) in case.symbolic and scope.symbolic and scope.function.may_add_params:
            dims[axis] = scope.symbol(extent, case.symbolic[position, axis])
    if not scope.function.may_add_params and any(not isinstance(dim, int) for dim in dims):
        raise Rejected
    return scope.tensor(dims, dtype, f"case{number}x{position}")


def _inside(data: Any, wanted: np.ndarray) -> bool:
    if wanted.size == 0 or wanted.dtype == bool:
        return True
    with np.errstate(invalid="ignore"):
        return bool((data >= wanted.min()).all() and (data <= wanted.max()).all())
