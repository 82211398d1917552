"""How much of its weights a model reads between two calls of a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ir.tir import IntImm, PrimFunc
from runners.cold_weights import weight_positions
from runners.ndarray import numpy_dtype

from .context import TuneContext


def weight_bytes(func: PrimFunc) -> int:
    """Bytes of a kernel's weights: its parameters whose layout it may choose (``layout_free_buffers``)."""
    total = 0
    for position in weight_positions(func):
        buffer = func.buffer_map[func.params[position]]
        extents = [int(item.value) for item in buffer.shape if isinstance(item, IntImm)]
        total += math.prod(extents) * np.dtype(numpy_dtype(buffer.dtype)).itemsize
    return total


def weight_distance(tasks: Sequence[TuneContext]) -> int:
    """Bytes of weights that a model reads from one call of a kernel to its next turn: those of all calls of its kernels.

    Args:
        tasks: the kernels of the model, each with the number of its calls.
    """
    return int(sum(task.weight * weight_bytes(task.func) for task in tasks))
