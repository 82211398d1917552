"""Whether outputs lie within their bounds: an interval per element, made once and looked at in two passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ir import dtype as dt

from ..ndarray import numpy_dtype

Array = np.ndarray[Any, Any]
_CHUNK = 1 << 18


@dataclass(slots=True)
class Bounds:
    """What each element of one output may be.

    From ``low`` to ``high``; NaN where both are; anything where ``low`` is above ``high``. ``high`` is None when only ``low``
    is right.
    """

    low: Array
    high: Array | None
    plain: bool
    """No element is NaN or may be anything."""

    @property
    def nbytes(self) -> int:
        """Memory."""
        return self.low.nbytes + (0 if self.high is None else self.high.nbytes)

    def midpoint(self) -> Array:
        """The values of the reference, about."""
        if self.high is None or self.low.dtype.kind in "iub":
            return self.low
        return np.asarray((self.low.astype(np.float64) + self.high.astype(np.float64)) / 2)

    def violated(self, got: Array) -> Array | None:
        """Which elements are outside; None when none is."""
        flat, low = got.reshape(-1), self.low.reshape(-1)
        high = None if self.high is None else self.high.reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK].astype(low.dtype, copy=False)
            stop = start + _CHUNK
            if not _inside(part, low[start:stop], None if high is None else high[start:stop]):
                break
        else:
            return None
        wide = flat.astype(low.dtype, copy=False)
        top = low if high is None else high
        right = ((wide >= low) & (wide <= top)) | (low > top)
        if low.dtype.kind == "f":
            right |= np.isnan(wide) & np.isnan(low)
        return None if right.all() else ~right.reshape(got.shape)


def _inside(part: Array, low: Array, high: Array | None) -> bool:
    if high is None:
        return bool((part == low).all())
    return bool(((part >= low) & (part <= high)).all())


def comparable(dtype: str) -> np.dtype[Any]:
    """The dtype that bounds of outputs are kept in: numpy's own, that holds all numbers of the output's."""
    kind = numpy_dtype(dtype)
    if kind.kind in "iub" or dtype in ("float32", "float64"):
        return kind
    return np.dtype(np.float32 if dt.is_float(dtype) else np.int64)


def bounds_of(value: Array, error: Array | None, dtype: str) -> Bounds:
    """Bounds of an output of a dtype from the reference's values and their errors, rounded outwards.

    Errors that are no number leave a finite value open, and tell nothing of one that is NaN or infinite.
    """
    kept = comparable(dtype)
    if kept.kind == "f":
        return _of_floats(value, error, kept)
    if error is None or not error.any():
        return Bounds(value.astype(kept), None, True)
    if kept.kind == "b":
        low = np.where(error > 0, True, value)
        high = np.where(error > 0, False, value)
        return Bounds(low, high, False)
    info = np.iinfo(kept)
    reach = np.floor(np.nan_to_num(error, nan=np.inf))
    is_open = reach > 2.0**62
    whole = np.where(is_open, 0, reach).astype(np.int64).astype(object)  # float64 does not hold all sums
    exact = value.astype(object)
    low = np.clip(exact - whole, info.min, info.max).astype(kept)
    high = np.clip(exact + whole, info.min, info.max).astype(kept)
    low[is_open], high[is_open] = info.max, info.min
    return Bounds(low, high, not is_open.any())


def _of_floats(value: Array, error: Array | None, kept: np.dtype[Any]) -> Bounds:
    with np.errstate(all="ignore"):
        if error is None:
            error = np.zeros(())
        low, high = _towards(value - error, kept, -np.inf), _towards(value + error, kept, np.inf)
        settled = ~np.isfinite(value) & ~(np.isinf(error))
        is_open = np.isinf(error) | (np.isfinite(value) & np.isnan(error))
        if settled.any():
            same = value.astype(kept)
            low, high = np.where(settled, same, low), np.where(settled, same, high)
        if is_open.any():
            low = np.where(is_open, kept.type(np.inf), low)
            high = np.where(is_open, kept.type(-np.inf), high)
        plain = not (is_open.any() or np.isnan(low).any())
    if np.array_equal(low, high):
        return Bounds(low, None, plain)
    return Bounds(np.ascontiguousarray(low), np.ascontiguousarray(high), plain)


def _towards(value: Array, kept: np.dtype[Any], end: float) -> Array:
    """The nearest number of a dtype that is not on the inner side."""
    near = np.asarray(value.astype(kept))
    wrong = near > value if end < 0 else near < value
    np.nextafter(near, kept.type(end), out=near, where=wrong)
    return near
