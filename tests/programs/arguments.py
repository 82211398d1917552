"""Random arguments for functions of any level, and the hook that holds every pass of a test to the program that it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ir import IRModule
from ir import dtype as dt
from ir.node import Visitor
from ir.tir.interpreter import Interpreter
from ir.transform import Pass, PassContext

Draw = Callable[[np.random.Generator, Sequence[int], str], np.ndarray]
"""Numbers of a dtype, as an oracle needs them: ``(generator, shape, dtype)``."""


class NothingToCompare(Exception):
    """A function is too large to interpret, or takes what has no random value."""


class Arguments:
    """Values for the parameters of one function; a symbol has the same value wherever it stands, 3 or a little more.

    Args:
        draw: makes the elements of an array.
        largest: elements of an array beyond which functions are too slow to interpret.
        seed: of the random numbers.
    """

    def __init__(self, draw: Draw, largest: int, seed: int = 0) -> None:
        self.symbols: dict[Any, Any] = {}
        self._draw, self._largest = draw, largest
        self._rng = np.random.default_rng(seed)

    def array(self, shape: Sequence[Any], dtype: str) -> np.ndarray:
        """A random array whose extents may be expressions."""
        extents = [self.number(extent) for extent in shape]
        if np.prod(extents) > self._largest:
            raise NothingToCompare
        return self._draw(self._rng, extents, dtype).astype(dt.to_numpy(dtype))

    def scalar(self, var: Any) -> Any:
        """The value of a parameter that is a number."""
        return self.symbols.setdefault(var, dt.to_numpy(var.dtype).type(3))

    def number(self, expr: Any) -> int:
        """The value of an expression of symbols."""
        _Symbols(self.symbols).visit(expr)
        interpreter = Interpreter()
        interpreter.values.update(self.symbols)
        return int(interpreter.evaluate(expr))


class _Symbols(Visitor):
    def __init__(self, values: dict[Any, Any]) -> None:
        super().__init__()
        self._values = values

    def visit_Var(self, var: Any) -> None:
        self._values.setdefault(var, dt.to_numpy(var.dtype).type(3 + len(self._values)))


class PassHook:
    """Calls ``check(name of the pass, before, after)`` for every pass that a test calls; what runs inside of another, or of
    what :meth:`inside` wraps, is left alone."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, check: Callable[[str, IRModule, IRModule], None]
    ) -> None:
        self._depth = 0
        call = self.inside(Pass.__call__)

        def checked(item: Pass, mod: IRModule, ctx: PassContext | None = None) -> IRModule:
            result = call(item, mod, ctx)
            if self._depth == 0:
                check(item.info.name, mod, result)
            return result

        monkeypatch.setattr(Pass, "__call__", checked)

    def inside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose passes are not checked."""

        def nested(*args: Any, **options: Any) -> Any:
            self._depth += 1
            try:
                return function(*args, **options)
            finally:
                self._depth -= 1

        return nested
