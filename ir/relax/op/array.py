"""What the numpy references of operators share: arrays converted as the language converts numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
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


def in_float32(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that computes with float32 where it gets narrower floats, and rounds its results once to theirs.

    For operators whose results have the dtype of their operands: sums of narrow floats, norms and functions of several steps.
    """

    @functools.wraps(reference)
    def computed(*args: Any, **attrs: Any) -> Any:
        narrow = next((item.dtype for item in _arrays(args) if _is_narrow(item)), None)
        if narrow is None:
            return reference(*args, **attrs)
        dtype = dt.from_numpy(narrow)
        return _mapped(
            reference(*_mapped(list(args), _widened), **attrs), lambda item: cast_array(item, dtype)
        )

    return computed


def _is_narrow(item: Any) -> bool:
    return isinstance(item, np.ndarray | np.generic) and item.dtype.kind in "fV" and item.dtype.itemsize < 4


def _widened(item: Any) -> Any:
    return item.astype("float32") if _is_narrow(item) else item


def _arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, np.ndarray | np.generic):
        yield np.asarray(value)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value, or the values of a list or tuple, changed."""
    if isinstance(value, list | tuple):
        return [_mapped(item, change) for item in value]
    return change(value) if isinstance(value, np.ndarray | np.generic) else value
