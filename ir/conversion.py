"""Conversion of numbers between dtypes as programs convert them: every number is rounded once, and integers saturate or wrap."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtype as dt
from .error import IRValueError


def has_masked_elements(value: Any) -> bool:
    """Whether an array has elements without a value; ``numpy.ma``, which numpy loads late, is asked for arrays of its own only."""
    return isinstance(value, np.ndarray) and type(value) is not np.ndarray and bool(np.ma.is_masked(value))


def as_array(value: Any) -> np.ndarray:
    """The array of whatever numpy converts, and of any tensor of torch: one with gradients, on a device, of a dtype that numpy has not.

    Raises:
        IRValueError: elements are masked, so that they have no value.
    """
    if has_masked_elements(value):
        raise IRValueError("a masked array has elements without a value; give them one: array.filled(0)")
    if isinstance(value, np.ndarray):
        return value
    if not hasattr(value, "detach"):
        return np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    tensor, dtype = value.detach().cpu(), str(value.dtype).removeprefix("torch.")
    if not dtype.startswith(("bfloat", "float8")):
        return np.asarray(tensor.numpy())
    import torch

    integers = {1: torch.uint8, 2: torch.int16}[tensor.element_size()]
    return np.asarray(tensor.view(integers).numpy().view(dt.to_numpy(dtype)))


def constant_array(value: Any) -> np.ndarray:
    """The array as kernels read it: one row behind the other, in the machine's byte order; read-only.

    Others are copied, since a program takes the address of its constants and knows of no strides. One that is so already stays the
    array that it is, by which constants are known.
    """
    array = as_array(value)
    if not (
        type(array) is np.ndarray
        and array.dtype.isnative
        and array.flags.c_contiguous
        and array.flags.aligned
    ):
        array = np.require(np.asarray(array), array.dtype.newbyteorder("="), ["C", "ALIGNED"])
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def cast_array(x: np.ndarray | np.generic, dtype: str) -> np.ndarray:
    """The elements in another dtype, as :class:`ir.tir.Cast` converts them.

    Floats to integers truncate and saturate, and NaN is 0; integers to integers wrap; what becomes a narrow float is rounded once, where
    numpy goes from float64 and int64 to bfloat16 and its like by way of float32.

    Args:
        x: numbers of any dtype and shape.
        dtype: a scalar dtype.
    """
    x, target = np.asarray(x), dt.to_numpy(dtype)
    source = dt.from_numpy(x.dtype)
    with np.errstate(all="ignore"):
        if dt.is_float(dtype):
            return _before_rounding(x, source, dtype).astype(target)
        if dt.is_float(source) and not dt.is_bool(dtype):
            return _saturated(x.astype("float64"), dtype)
        return x.astype(target)


def round_float(value: float, dtype: str) -> float:
    """The nearest number of a float dtype, rounded once; ties go to even.

    >>> round_float(1 + 2**-8 + 2**-40, "bfloat16")
    1.0078125
    """
    return float(value) if dtype == "float64" else float(cast_array(np.float64(value), dtype))


def _before_rounding(x: np.ndarray, source: str, dtype: str) -> np.ndarray:
    """What numpy and ml_dtypes round once, and to the right number: they make narrow floats of float32."""
    if dt.bits(dtype) >= 32 or dtype == "float16":
        return x
    if dt.is_integral(source) and dt.bits(source) > 24:
        x, source = _sticky(x).astype("float64"), "float64"
    return _rounded_to_odd(x) if source == "float64" else x


def _sticky(x: np.ndarray) -> np.ndarray:
    """Integers; where float64 may not hold one, what is cut off from its sixteenth bit on sets that bit, so that one rounding is left."""
    if x.dtype.itemsize < 8:
        return x
    low = x.dtype.type(0xFFFF)
    cut = (x | ((x & low) + low)) & ~low
    is_small = x < x.dtype.type(1 << 53)
    if x.dtype.kind == "i":
        is_small &= x > x.dtype.type(-(1 << 53))
    return np.where(is_small, x, cut)


def _rounded_to_odd(x: np.ndarray) -> np.ndarray:
    """float64 as float32 such that a second rounding is right: inexact ones end in an odd bit.

    Boldo and Melquiond, Emulation of FMA and correctly rounded sums, IEEE Transactions on Computers 57 (2008).
    """
    near = x.astype("float32")
    bits = near.view("int32")
    bits = bits - (np.abs(near.astype("float64")) > np.abs(x)).astype("int32")
    return np.where(near.astype("float64") == x, near.view("int32"), bits | 1).astype("int32").view("float32")


def _saturated(x: np.ndarray, dtype: str) -> np.ndarray:
    target: Any = dt.to_numpy(dtype)
    low, high = dt.integer_range(dtype)
    whole = np.where(np.isnan(x), 0.0, np.trunc(x))
    above, below = whole >= float(high), whole <= float(low)
    found = np.where(above | below, 0.0, whole).astype(target)
    found = np.where(above, np.asarray(high).astype(target), found)
    return np.where(below, np.asarray(low).astype(target), found)
