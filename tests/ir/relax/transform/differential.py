"""Runs programs before and after every pass that a test calls: a pass keeps what its module computes, whatever else is tested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ir import IRModule
from ir import dtype as dt
from ir.error import IRValueError
from ir.relax.function import Function
from ir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ir.relax.testing import evaluate
from tests.programs.arguments import Arguments, NothingToCompare

MEANT_TO_CHANGE = {
    "DecomposeOpsForTraining": "it makes a program that trains",
    "RunCodegen": "it hands functions to a library that the test stands for",
    "SplitCallTIRByPattern": "it hands kernels to a library that the test stands for",
}
TOLERANCES = {"ToMixedPrecision": 0.05, "FastMathTransform": 0.01}
LARGEST = 3000
"""Elements of an input beyond which kernels are too slow to interpret."""


class Differential:
    """Remembers what modules compute, so that a chain of passes evaluates each module once."""

    def __init__(self) -> None:
        self.compared = 0
        self._results: dict[tuple[int, str], Any] = {}
        self._modules: list[IRModule] = []

    def check(self, name: str, before: IRModule, after: IRModule) -> None:
        """Every public function that takes the same arguments before and after the pass gives the same results."""
        if name in MEANT_TO_CHANGE:
            return
        tolerance = TOLERANCES.get(name, 1e-3)
        for var, func in before.functions.items():
            if not isinstance(func, Function) or "global_symbol" not in func.attrs:
                continue
            other = after.functions.get(var) or next(
                (item for found, item in after.functions.items() if found.name_hint == var.name_hint), None
            )
            if not isinstance(other, Function) or _signature(func) != _signature(other):
                continue
            try:
                expected = self._results_of(before, func, var.name_hint)
            except NothingToCompare:
                continue
            found = self._results_of(after, other, var.name_hint)
            assert len(found) == len(expected)
            for got, wanted in zip(found, expected, strict=True):
                np.testing.assert_allclose(
                    got, wanted, rtol=tolerance, atol=tolerance, err_msg=f"{name} changes {var.name_hint}"
                )
            self.compared += 1

    def _results_of(self, mod: IRModule, func: Function, name: str) -> list[Any]:
        """Results, and what is left in the arguments, which belong to the caller."""
        key = (id(mod), name)
        if key not in self._results:
            self._modules.append(mod)
            args = arguments(func)
            try:
                self._results[key] = [*flat(evaluate(mod, *args, name=name)), *flat(args)]
            except IRValueError as error:
                if "is registered" in str(error):  # an external function that only the structure is about
                    raise NothingToCompare from None
                raise
        return self._results[key]


def _signature(func: Function) -> list[str]:
    return [str(param.struct_info) for param in func.params]


def flat(value: Any) -> list[Any]:
    """The arrays and numbers in a result of the evaluator or of native code."""
    if isinstance(value, tuple | list):
        return [item for part in value for item in flat(part)]
    return [value.numpy() if hasattr(value, "numpy") else np.asarray(value)]


def arguments(func: Function) -> list[Any]:
    """Arguments that fit a function's parameters: positive floats, integers and symbols of small value."""
    values = Arguments(_draw, LARGEST)
    return [_argument(param.struct_info, values) for param in func.params]


def _draw(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    return rng.integers(0, 2, shape) if dt.is_integral(dtype) else rng.uniform(0.25, 1, shape)


def _argument(info: StructInfo, values: Arguments) -> Any:
    if isinstance(info, TensorStructInfo) and info.shape_values is not None and info.dtype:
        return values.array(info.shape_values, info.dtype)
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        return tuple(values.number(dim) for dim in info.values)
    if isinstance(info, PrimStructInfo):
        return 3 if info.value is None else values.number(info.value)
    if isinstance(info, TupleStructInfo):
        return [_argument(field, values) for field in info.fields]
    raise NothingToCompare
