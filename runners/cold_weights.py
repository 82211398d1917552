"""Calls of a kernel as in its model: as many bytes of weights are read between two of them as the model has.

A kernel that is called again and again finds everything in the caches, its weights too; in its model, those of all other kernels have been
read since its last turn. The calls here take turns with copies of the weights, which together are as large as the weights of the model.
So each copy is where those of the model would be: in a cache that keeps all of them, or displaced. Whether a cache does is not asked; of
one that other machines on the same processor share, nobody could tell. Inputs and outputs are the same arrays in all calls. Nothing has
to be emptied between two calls, and threads stay awake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from ir.tir.kernel_attributes import LAYOUT_REWRITE_MAPS, layout_free_positions

from .kernel import Kernel
from .ndarray import aligned_empty
from .verify import Array, entry

_MOST_COPIES = 256
"""Weights of which so many copies fit into the caches stay there: reading them from memory would take microseconds."""
_MOST_BYTES = 1 << 28
"""Copies take no more memory than this: each candidate has its own, and making them takes time."""


def weight_positions(func: Any) -> list[int]:
    """Which parameters of a PrimFunc are weights: those whose layout its schedule may choose, or has chosen."""
    packed = (int(position) for position in dict(func.attrs.get(LAYOUT_REWRITE_MAPS, None) or {}))
    return sorted({*layout_free_positions(func), *packed})


def bind_with_cold_weights(kernel: Kernel, arguments: Sequence[Array], distance: int) -> Callable[[], object]:
    """A call on fixed arguments that finds its weights where its model would; like any other where the kernel has none.

    Args:
        kernel: the built kernel.
        arguments: in the layouts that it takes.
        distance: bytes of weights that are read from one use of a weight to the next.
    """
    weights = weight_positions(entry(kernel.mod))
    size = sum(arguments[position].nbytes for position in weights)
    calls = [kernel.bind(list(arguments))]
    copies = min(-(-min(distance, _MOST_BYTES) // size), _MOST_COPIES) if size else 1
    for _ in range(copies - 1):
        calls.append(kernel.bind(_with_copies(arguments, weights)))
    turn = cycle(calls)
    return calls[0] if len(calls) == 1 else lambda: next(turn)()


def _with_copies(arguments: Sequence[Array], positions: Sequence[int]) -> list[Array]:
    changed = list(arguments)
    for position in positions:
        copy = aligned_empty(arguments[position].shape, arguments[position].dtype)
        np.copyto(copy, arguments[position])
        changed[position] = copy
    return changed
