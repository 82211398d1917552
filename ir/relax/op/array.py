"""What the numpy references of operators share: arrays converted as the language converts numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtype as dt


def cast_array(x: np.ndarray, dtype: str) -> np.ndarray:
    """The elements in another dtype, as :class:`ir.tir.Cast` converts them.

    Floats to integers truncate and saturate, and NaN is 0; integers to integers wrap; narrower floats are rounded once, where
    numpy goes from float64 to bfloat16 by way of float32.
    """
    x, target = np.asarray(x), dt.to_numpy(dtype)
    source = dt.from_numpy(x.dtype)
    with np.errstate(all="ignore"):
        if dt.is_float(source) and dt.is_integral(dtype) and not dt.is_bool(dtype):
            return _saturated(x.astype("float64"), dtype)
        if source == "float64" and dt.is_float(dtype) and dt.bits(dtype) < 32 and dtype != "float16":
            return _rounded_to_odd(x).astype(target)
        return x.astype(target)


def _saturated(x: np.ndarray, dtype: str) -> np.ndarray:
    target: Any = dt.to_numpy(dtype)
    low, high = dt.integer_range(dtype)
    whole = np.where(np.isnan(x), 0.0, np.trunc(x))
    above, below = whole >= float(high), whole <= float(low)
    found = np.where(above | below, 0.0, whole).astype(target)
    found = np.where(above, np.asarray(high).astype(target), found)
    return np.where(below, np.asarray(low).astype(target), found)


def _rounded_to_odd(x: np.ndarray) -> np.ndarray:
    """float64 as float32 such that a second rounding is right: inexact ones end in an odd bit (Boldo and Melquiond, 2008)."""
    near = x.astype("float32")
    bits = near.view("int32")
    bits = bits - (np.abs(near.astype("float64")) > np.abs(x)).astype("int32")
    return np.where(near.astype("float64") == x, near.view("int32"), bits | 1).astype("int32").view("float32")
