"""Weights that come from memory: what a nest reads of constants, panel by panel, and which panels are fetched in time.

A model reads its weights once in each run, and all others between two uses, so that they are in no cache when a kernel begins. Lowering
fetches the panel behind the one that is in use, in the iterations that use that again (``tir.PrefetchPanels``). The first panel of a job
has nobody to fetch it, and neither has one for which there is no room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedules.population.skeleton import Skeleton

from .loops import Array, NestLoops, at_level
from .memory import Slot

_LEAST = 1 << 21
"""Bytes of a constant that the caches may keep from one run to the next, and that are not fetched ahead."""


@dataclass
class Weights:
    """A constant operand of a nest; all zeros where it is small."""

    slot: Slot
    bytes: Array
    """Of the operand, which are read from memory: float64 [N]."""
    more: Array
    """Bytes that are read again, after all others, from the last cache: float64 [N]."""
    level: Array
    """The level from which inwards one panel is read: int64 [N]."""
    steps: Array
    """Panels that a job goes through: float64 [N]."""
    is_reused: Array
    """Whether a panel is used more than once: bool [N]."""

    def ahead(self, levels: int, line_bytes: int) -> Array:
        """Bytes that the next panel takes beside the one in use: float64 [levels, N]."""
        panel = at_level(self.slot.lines, self.level) * line_bytes
        around = np.arange(levels)[:, None] <= self.level
        return np.where(self.is_reused & around, panel, 0.0)

    def exposed(self, fitting: Array) -> Array:
        """The share of the bytes that nobody fetches before they are used, given the level that fits the second cache: float64 [N]."""
        in_time = np.where(fitting <= self.level, 1.0 - 1.0 / self.steps, 0.0)
        # What is used once is read ahead as it is used.
        return np.where(self.is_reused, 1.0 - in_time, 0.0)


def constants_of(skeleton: Skeleton) -> set[int]:
    """The buffers that are made when the model is compiled."""
    return {
        access.buffer
        for nest in skeleton.nests
        if nest.is_preprocessing
        for access in nest.accesses
        if access.is_write
    }


def weights_of(
    slots: Sequence[Slot], loops: NestLoops, line_bytes: int, constants: set[int]
) -> list[Weights]:
    """What a nest reads of constants that are too large to stay in the caches between two runs."""
    return [
        _weights(slot, loops, line_bytes)
        for slot in slots
        if slot.buffer in constants and slot.lines[0].max(initial=0.0) * line_bytes >= _LEAST
    ]


def _weights(slot: Slot, loops: NestLoops, line_bytes: int) -> Weights:
    size = loops.inner.shape[1]
    seen, is_reused = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    level = np.zeros(size, dtype=np.int64)
    steps = np.ones(size)
    for position, mark in enumerate(loops.marks):
        runs = (loops.extents[position] > 1) & (position < loops.body) & ~is_reused
        moved = slot.moved_by(position) & runs
        if mark != "parallel":
            is_reused = is_reused | (runs & ~moved & seen)
            steps = np.where(moved, steps * loops.extents[position], steps)
        seen = seen | moved
        level = np.where(moved, position + 1, level)
    total = slot.lines[0] * line_bytes
    read = at_level(slot.lines, level) * at_level(loops.outer, level) * line_bytes
    is_large = total >= _LEAST
    return Weights(
        slot,
        np.where(is_large, total, 0.0),
        np.where(is_large, np.maximum(read - total, 0.0), 0.0),
        level,
        steps,
        is_reused & is_large,
    )
