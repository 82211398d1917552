"""Runs functions before and after every pass that a test calls, in the interpreter: a pass keeps what a function computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ir import IRModule
from ir import dtype as dt
from ir.node import Visitor
from ir.tir import IntImm, PrimFunc
from ir.tir.interpreter import InterpreterError, run
from tests.programs.arguments import Arguments, NothingToCompare

MEANT_TO_CHANGE = {
    "tir.SkipAssert": "a failing assertion is ignored",
    "tir.LowerCrossThreadReduction": "loops stand for threads before it, threads have to exchange behind it; its tests lower it that far",
    "tir.LowerThreadAllreduce": "threads combine in an order that rounds sums of floats otherwise; its tests compare the rest",
    "tir.BF16ComputeLegalize": "expressions are carried in float32; its tests bound the difference",
    "tir.FP8ComputeLegalize": "expressions are carried in a wider dtype; its tests compare single operations",
    "tir.RemoveStoreUndef": "a store of what is undefined may leave anything",
    "tir.UnifyThreadBinding": "until ThreadSync nothing says that threads wait for what others put into shared memory",
}
LARGEST = 30_000
"""Elements of an array, and rounds of loops, beyond which a function is too slow to interpret."""


class Differential:
    """Remembers what functions compute, so that a chain of passes runs each function once."""

    def __init__(self) -> None:
        self.compared = 0
        self._results: dict[tuple[int, str], Any] = {}
        self._modules: list[IRModule] = []

    def check(self, name: str, before: IRModule, after: IRModule) -> None:
        """Every function that takes the same arguments before and after the pass leaves the same in them."""
        if name in MEANT_TO_CHANGE or after is before:
            return
        for var, func in before.functions.items():
            other = after[var.name_hint] if after.contains(var.name_hint) else None
            if not isinstance(func, PrimFunc) or not isinstance(other, PrimFunc) or other is func:
                continue
            if _signature(func) != _signature(other):
                continue
            try:
                expected = self._results_of(before, var.name_hint)
            except (
                NothingToCompare,
                InterpreterError,
            ):  # too much work, or a program that does not say what it computes
                continue
            found = self._results_of(after, var.name_hint)
            for got, wanted in zip(found, expected, strict=True):
                defined = wanted == wanted  # the interpreter fills new memory with NaN
                np.testing.assert_array_equal(
                    got[defined], wanted[defined], err_msg=f"{name} changes {var.name_hint}"
                )
            self.compared += 1

    def _results_of(self, mod: IRModule, name: str) -> list[np.ndarray]:
        """What a function returns and leaves in its arguments."""
        key = (id(mod), name)
        if key not in self._results:
            func: Any = mod[name]
            if _Rounds.of(func) > LARGEST:
                raise NothingToCompare
            args = arguments(func)
            returned = run(mod, *args, name=name)
            self._modules.append(mod)
            self._results[key] = [
                np.asarray(item) for item in ([] if returned is None else [returned]) + args
            ]
        return self._results[key]


class _Rounds(Visitor):
    """How many statements a function runs at most; loops of unknown extent count eight times."""

    remembers: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.factor, self.total = 1, 0

    @classmethod
    def of(cls, func: PrimFunc) -> int:
        visitor = cls()
        visitor.visit(func.body)
        return visitor.total

    def visit_For(self, loop: Any) -> None:
        outer = self.factor
        self.factor *= int(loop.extent.value) if isinstance(loop.extent, IntImm) else 8
        self.visit(loop.body)
        self.factor = outer

    def visit_PrimExpr(self, expr: Any) -> None:
        """Expressions do not loop."""

    def visit_BufferStore(self, store: Any) -> None:
        self.total += self.factor

    visit_Evaluate = visit_BufferStore


def _signature(func: PrimFunc) -> list[tuple[str, ...]]:
    """What a caller knows of the parameters."""
    return [
        (param.dtype, buffer.dtype, str(list(buffer.shape))) if buffer is not None else (param.dtype,)
        for param, buffer in ((param, func.buffer_map.get(param)) for param in func.params)
    ]


def arguments(func: PrimFunc, seed: int = 0) -> list[Any]:
    """Arguments that fit the parameters: small integers, so that sums are exact in any order, and may be indices."""
    values = Arguments(_draw, LARGEST, seed)
    found: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            found.append(values.array(buffer.shape, buffer.dtype))
        elif param.dtype == "handle":
            raise NothingToCompare
        else:
            found.append(values.scalar(param))
    return found


def _draw(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    low, high = (-8, 9) if dt.is_float(dtype) else (0, 2) if dt.is_bool(dtype) else (0, 4)
    return rng.integers(low, high, shape)
