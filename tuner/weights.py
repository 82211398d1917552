"""Where a model's weights are when one of its kernels is called: in the caches, or in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ir.target.host import last_level_cache_bytes
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


def weights_are_cold(tasks: Sequence[TuneContext], cache_bytes: int | None = None) -> bool:
    """Whether the weights of all calls of a model's kernels together are larger than the last-level caches.

    Each call's weights are then displaced by those of the others before its next turn.

    Args:
        tasks: the kernels of the model, each with the number of its calls.
        cache_bytes: of those caches; this machine's by default.
    """
    total = sum(task.weight * weight_bytes(task.func) for task in tasks)
    return total > (last_level_cache_bytes() if cache_bytes is None else cache_bytes)
