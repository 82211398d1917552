"""Numbers as the interpreter holds them, and conversions between their types, each rounded once.

An integer or bool is a Python integer in the range of its dtype, a float a numpy scalar of exactly its dtype, a vector the list of
its lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ... import dtype as dt

_EXACT = 53
"""Bits of the significand of a Python float."""


@lru_cache(maxsize=None)
def wrapping(dtype: str) -> Callable[[int], int]:
    """What makes a Python integer one of the dtype, modulo two to the power of its width."""
    low, high = dt.integer_range(dtype)
    size = high - low + 1

    def wrapped(value: int) -> int:
        return value if low <= value <= high else (value - low) % size + low

    return wrapped


# ---- floats ------------------------------------------------------------------------------------------------------


def _integer_to_odd(value: int) -> float:
    """An integer as a float whose last bit says whether something was cut off: rounding it again is rounding once.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE Transactions on
    Computers 2008.
    """
    cut = abs(value).bit_length() - _EXACT
    if cut <= 0:
        return float(value)
    head = abs(value) >> cut
    if head << cut != abs(value):
        head |= 1
    return math.copysign(math.ldexp(head, cut), value)


def _single_to_odd(value: float) -> Any:
    """A float as a float32, rounded to odd, for what has two bits less at least."""
    nearest = np.float32(value)
    if float(nearest) == value or math.isnan(value):
        return nearest
    if abs(float(nearest)) > abs(value):
        nearest = np.nextafter(nearest, np.float32(0))
    return (nearest.view(np.uint32) | np.uint32(1)).view(np.float32)


@lru_cache(maxsize=None)
def rounding(dtype: str) -> Callable[[Any], Any]:
    """What makes a Python integer or float, or a numpy float, one of a float dtype, rounded to nearest even once."""
    target = dt.to_numpy(dtype)

    def rounded(value: Any) -> Any:
        exact = _integer_to_odd(value) if isinstance(value, int) else float(value)
        return _single_to_odd(exact).astype(target) if target.itemsize < 4 else target.type(exact)

    def double(value: Any) -> Any:
        return np.float64(value)  # integers too: Python rounds them to nearest even

    return double if dtype == "float64" else rounded


# ---- conversions -------------------------------------------------------------------------------------------------


def _saturating(dtype: str) -> Callable[[Any], int]:
    low, high = dt.integer_range(dtype)

    def converted(value: Any) -> int:
        exact = float(value)
        if math.isnan(exact):
            return 0
        if math.isinf(exact):
            return high if exact > 0 else low
        return min(max(math.trunc(exact), low), high)

    return converted


@lru_cache(maxsize=None)
def conversion(source: str, target: str) -> Callable[[Any], Any]:
    """What :class:`~ir.tir.Cast` does to one number; handles stay what they are."""
    source, target = dt.element_of(source), dt.element_of(target)
    if source == target or "handle" in (source, target):
        return lambda value: value
    if dt.is_bool(target):
        return lambda value: bool(value != 0)
    if dt.is_float(target):
        return rounding(target)
    return _saturating(target) if dt.is_float(source) else wrapping(target)


# ---- from and to the outside -------------------------------------------------------------------------------------


def number(value: Any, dtype: str) -> Any:
    """A number from outside (Python's, numpy's, an array without dimensions) as one of the dtype; integers wrap."""
    if dt.is_float(dtype):
        plain = value.item() if isinstance(value, np.ndarray) else value
        if isinstance(plain, np.generic) and plain.dtype == dt.to_numpy(
            dtype
        ):  # to numpy, no dtype is float64
            return plain
        return rounding(dtype)(int(plain) if isinstance(plain, np.integer | np.bool_ | bool) else plain)
    if dt.is_bool(dtype):
        return bool(value)
    return wrapping(dtype)(int(value))


def as_numpy(value: Any, dtype: str) -> Any:
    """A number, or the lanes of a vector, as numpy's scalar or array; anything else as it is."""
    if dtype in ("handle", "void"):
        return value
    kind = dt.to_numpy(dtype)
    if isinstance(value, list):
        return np.array([0 if lane is None else lane for lane in value], kind)
    return np.array(value, kind)[()]


def from_numpy(value: Any, dtype: str) -> Any:
    """What numpy computed for a dtype: a number, or the list of lanes."""
    element = dt.element_of(dtype)
    if dt.lanes(dtype) == 1:
        return number(np.asarray(value).reshape(-1)[0], element)
    return [number(lane, element) for lane in np.broadcast_to(value, (dt.lanes(dtype),))]
