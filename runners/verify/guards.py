"""Arrays with guarded memory before and behind them: a store beside the array shows, and a load beside it reads nonsense."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ndarray import aligned_bytes, numpy_dtype

Array = np.ndarray[Any, Any]

_ZONE = 1 << 16
"""Bytes of a zone: rows beside a small array lie within it."""
_PATTERNS = (0xFB, 0xFF, 0xFB, 0x00)
"""As floats: a number of large magnitude, NaN, and zero; as integers: small negative numbers, or large ones without a sign, and zero,
which changes no sum and is a minimum: it stands where all inputs are large, which is the fourth or the eighth case."""


def pattern(which: int) -> int:
    """One of the bytes that memory is filled with to show who reads or writes it."""
    return _PATTERNS[which % len(_PATTERNS)]


class Guarded:
    """Memory for one array, on the alignment that arrays have in production."""

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        kind = numpy_dtype(dtype)
        self.n_bytes = math.prod(shape) * kind.itemsize
        self.zone = _ZONE
        self._memory = aligned_bytes(2 * self.zone + self.n_bytes)
        self._pattern = 0
        self.array = self.view(shape, kind)
        self.arm(0)

    @property
    def capacity(self) -> int:
        """Bytes between the zones."""
        return self._memory.nbytes - 2 * self.zone

    def view(self, shape: Sequence[int], dtype: Any) -> Array:
        """An array at the begin of the guarded memory; what is behind it belongs to the zone."""
        kind = numpy_dtype(dtype)
        self.n_bytes = math.prod(shape) * kind.itemsize
        self.array = np.ndarray(tuple(shape), kind, self._memory, self.zone)
        return self.array

    def arm(self, which: int) -> None:
        """Fill the zones with one of the patterns."""
        self._pattern = pattern(which)
        for zone in self._zones():
            zone.fill(self._pattern)

    def breach(self) -> str | None:
        """Where the zones were written to, in a few words; None when they were not."""
        before, behind = self._zones()
        changed = before != self._pattern
        if changed.any():
            return f"{self.zone - int(np.argmax(changed))} bytes before its first element"
        changed = behind != self._pattern
        if changed.any():
            return f"{int(np.argmax(changed))} bytes behind its last element"
        return None

    def _zones(self) -> tuple[Array, Array]:
        end = self.zone + self.n_bytes
        return self._memory[: self.zone], self._memory[end : end + self.zone]
