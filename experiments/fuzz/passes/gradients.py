"""What Gradient promises: the derivative in any direction is the sum of gradients times that direction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir.module import IRModule
from ir.relax.analysis import check_well_formed
from ir.relax.testing import evaluate

from ..relax.differentiable import Differentiable

_STEP = 2.0**-17
_TOLERANCE = 1e-5


class SameSlope:
    """A check of modules with the adjoint of a differentiable function, against differences of the function itself."""

    def __init__(self, program: Differentiable, seed: int) -> None:
        self._program = program
        self._numbers = np.random.default_rng(seed)
        self.kinks = 0
        """How many directions were left out, since the slopes on both sides differ."""

    def __call__(self, mod: IRModule, name: str) -> str:
        """What is wrong with a module that a pass left; empty where nothing is."""
        check_well_formed(mod)
        program = self._program
        value, gradients = evaluate(mod, *self._copies(), name="main_adjoint")
        here = self._value(program.given)
        if not np.isclose(value, here, rtol=1e-9, atol=1e-9):
            return f"the adjoint returns {value}, the function {here}"
        if len(gradients) != len(program.wanted):
            return f"{len(gradients)} gradients, expected {len(program.wanted)}"
        for gradient, number in zip(gradients, program.wanted, strict=True):
            trouble = self._compared(np.asarray(gradient), number, here)
            if trouble:
                return trouble
        return ""

    def _copies(self) -> list[np.ndarray]:
        return [array.copy() for array in self._program.given]

    def _value(self, given: Sequence[np.ndarray]) -> float:
        return float(evaluate(self._program.mod, *given))

    def _compared(self, gradient: np.ndarray, number: int, here: float) -> str:
        array = self._program.given[number]
        if gradient.shape != array.shape:
            return f"the gradient by x{number} has shape {gradient.shape}, x{number} has {array.shape}"
        direction = self._numbers.choice([-1.0, 1.0], array.shape)
        sides = []
        for step in (_STEP, -_STEP):
            moved = self._copies()
            moved[number] = np.asarray(array + step * direction)
            sides.append((self._value(moved) - here) / step)
        slope, scale = sum(sides) / 2, 1 + float(np.abs(gradient).sum())
        if abs(sides[0] - sides[1]) > 2e3 * _STEP * scale:
            self.kinks += 1
            return ""
        found = float((gradient * direction).sum())
        if abs(found - slope) > _TOLERANCE * scale:
            return f"the derivative by x{number} is {slope}, its gradient gives {found}"
        return ""
