"""Inputs and the expected output of a row, computed once and shared by all contestants through a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from . import suite


def write(path: Path, name: str, shape: Sequence[int]) -> None:
    """Inputs of the row, and what the operator makes of them by numpy in float64."""
    arrays = suite.inputs(name, shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    expected = suite.reference(name, arrays, shape).astype("float32")
    np.savez(path, expected, *arrays)


def read(path: str) -> tuple[list[np.ndarray], np.ndarray]:
    """(inputs, expected output)."""
    with np.load(path) as stored:
        expected, *arrays = [stored[name] for name in stored.files]
    return arrays, expected


def error_of(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference relative to the largest magnitude.

    Raises:
        ValueError: the result has another shape, or is wrong beyond rounding: nobody wants the time of such a kernel.
    """
    if found.shape != expected.shape:
        raise ValueError(f"the result has shape {found.shape}, expected {expected.shape}")
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    if not error <= 1e-3:
        raise ValueError(f"the result is wrong: relative error {error:.1e}")
    return error
