"""Calls of a kernel as in its model: the weights come from memory, what the kernel before has written is in the caches.

A kernel that is called again and again finds everything in the caches, its weights too; in a model whose weights are larger than the
last-level cache they have been displaced by those of the other kernels since its last turn. The calls here take turns with copies of the
weights, which together are twice as large as that cache, so that each copy is displaced before its next turn. Inputs and outputs
are the same arrays in all calls. Nothing has to be emptied between two calls, and threads stay awake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from ir.target.host import last_level_cache_bytes
from ir.tir.kernel_attributes import LAYOUT_REWRITE_MAPS, layout_free_positions

from .kernel import Kernel
from .ndarray import aligned_empty
from .verify import Array, entry

_MOST_COPIES = 256
"""Weights of which so many copies fit into the caches stay there: reading them from memory would take microseconds."""
_MOST_BYTES = 1 << 30
"""Copies take no more memory: a few candidates that are timed in turns have their own each."""


def weight_positions(func: Any) -> list[int]:
    """Which parameters of a PrimFunc are weights: those whose layout its schedule may choose, or has chosen."""
    packed = (int(position) for position in dict(func.attrs.get(LAYOUT_REWRITE_MAPS, None) or {}))
    return sorted({*layout_free_positions(func), *packed})


def bind_with_cold_weights(
    kernel: Kernel, arguments: Sequence[Array], cache_bytes: int | None = None
) -> Callable[[], object]:
    """A call on fixed arguments that finds its weights in memory; like any other where the kernel has none.

    Args:
        kernel: the built kernel.
        arguments: in the layouts that it takes.
        cache_bytes: of the last-level caches; those of this machine by default.
    """
    weights = weight_positions(entry(kernel.mod))
    size = sum(arguments[position].nbytes for position in weights)
    if not size:
        return kernel.bind(list(arguments))
    room = min(2 * (last_level_cache_bytes() if cache_bytes is None else cache_bytes), _MOST_BYTES)
    calls = [kernel.bind(list(arguments))]
    for _ in range(min(-(-room // size), _MOST_COPIES) - 1):
        calls.append(kernel.bind(_with_copies(arguments, weights)))
    turn = cycle(calls)
    return lambda: next(turn)()


def _with_copies(arguments: Sequence[Array], positions: Sequence[int]) -> list[Array]:
    changed = list(arguments)
    for position in positions:
        copy = aligned_empty(arguments[position].shape, arguments[position].dtype)
        np.copyto(copy, arguments[position])
        changed[position] = copy
    return changed
