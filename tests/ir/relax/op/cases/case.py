"""What a case of an operator is, and what its inputs are made with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


def floats(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape).astype("float32")


def ints(*shape: int, low: int = 0, high: int = 5, dtype: str = "int64", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).integers(low, high, shape).astype(dtype)


def bools(*shape: int) -> np.ndarray:
    return ints(*shape, high=2).astype(bool)


@dataclass
class Case:
    """An operator, a function that builds its call, inputs, and which input axes to make symbolic."""

    op: str
    build: Callable[..., Any]
    inputs: list[np.ndarray]
    symbolic: dict[tuple[int, int], str] = field(default_factory=dict)
    numbers: bool = True
    tolerance: float = 1e-5
    label: str = ""

    def __str__(self) -> str:
        return self.op.removeprefix("relax.") + (f"-{self.label}" if self.label else "")


ROWS = {(0, 0): "n"}
BOTH = {(0, 0): "n", (1, 0): "n"}
CASES: list[Case] = []


def case(
    op: str,
    build: Callable[..., Any],
    *inputs: np.ndarray,
    symbolic: Any = None,
    label: str = "",
    **options: Any,
) -> None:
    CASES.append(Case(f"relax.{op}", build, list(inputs), symbolic or {}, label=label, **options))
