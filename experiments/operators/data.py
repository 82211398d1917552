"""Inputs and the expected output of a row, computed once and shared by all contestants through a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from . import suite
from .workload import array_dtype

TOLERANCES = {"bfloat16": 1e-2}
"""Errors that a result may have relative to the largest magnitude, by its dtype; integers none."""


def write(path: Path, name: str, shape: Sequence[int]) -> None:
    """Inputs of the row, and what the operator makes of them by numpy in float64 or exactly."""
    arrays = suite.inputs(name, shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    expected = suite.reference(name, arrays, shape).astype(suite.output_dtype(name, shape))
    np.savez(path, **dict(map(_stored, range(len(arrays) + 1), [expected, *arrays])))  # type: ignore[arg-type]


def _stored(number: int, array: np.ndarray) -> tuple[str, np.ndarray]:
    """An array and its name in the file, which knows numpy's own dtypes only: another one is stored as bytes, named behind a dot."""
    if array.dtype.isbuiltin == 1:
        return f"arr_{number}", array
    return f"arr_{number}.{array.dtype}", array.view("uint8")


def read(path: str) -> tuple[list[np.ndarray], np.ndarray]:
    """(inputs, expected output)."""
    found = []
    with np.load(path) as stored:
        for name in stored.files:
            _, _, dtype = name.partition(".")
            found.append(stored[name].view(array_dtype(dtype)) if dtype else stored[name])
    expected, *arrays = found
    return arrays, expected


def error_of(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference relative to the largest magnitude.

    Raises:
        ValueError: the result has another shape, or is wrong beyond rounding: nobody wants the time of such a kernel.
    """
    if found.shape != expected.shape:
        raise ValueError(f"the result has shape {found.shape}, expected {expected.shape}")
    if np.issubdtype(expected.dtype, np.integer):
        wrong = int((found != expected).sum())
        if wrong:
            raise ValueError(f"the result is wrong: {wrong} of {expected.size} integers differ")
        return 0.0
    difference = found.astype("float64") - expected.astype("float64")
    error = float(np.abs(difference).max() / np.abs(expected.astype("float64")).max())
    if not error <= TOLERANCES.get(expected.dtype.name, 1e-3):
        raise ValueError(f"the result is wrong: relative error {error:.1e}")
    return error
