"""Inputs of a model and ONNX Runtime's outputs, computed once and shared by all contestants through a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def write(path: Path, inputs: Mapping[str, np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """Named inputs, and outputs in order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    named: dict[str, Any] = {f"in:{name}": value for name, value in inputs.items()}
    named.update({f"out:{number:03}": value for number, value in enumerate(outputs)})
    np.savez(path, **named)


def read(path: str) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """(inputs by name in the model's order, ONNX Runtime's outputs)."""
    with np.load(path) as stored:
        inputs = {name[3:]: stored[name] for name in stored.files if name.startswith("in:")}
        return inputs, [stored[name] for name in sorted(stored.files) if name.startswith("out:")]


def error_of(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Largest difference relative to the largest magnitude of each output, over all outputs.

    Raises:
        ValueError: there are more or fewer outputs, or the error is beyond any rounding.
    """
    if len(found) != len(expected):
        raise ValueError(f"{len(found)} outputs, ONNX Runtime has {len(expected)}")
    errors = [0.0]
    for one, other in zip(found, expected, strict=True):
        scale = max(float(np.abs(other).max()), 1e-30) if other.size else 1.0
        errors.append(float(np.abs(one.astype(np.float64) - other).max()) / scale if other.size else 0.0)
    worst = max(errors, key=lambda error: np.inf if np.isnan(error) else error)
    if not worst <= 1e-2:
        raise ValueError(f"the outputs are wrong: relative error {worst:.1e}")
    return worst
