"""What the numpy references of operators share: results of narrow floats computed with wider ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ... import dtype as dt
from ...conversion import cast_array
from ...topi.accumulate import accumulator


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


def in_out_dtype(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference of a product that computes in the dtype that sums of the result's are taken in, and rounds once to that.

    The result's dtype is the attribute ``out_dtype``, else that of the operands.
    """

    @functools.wraps(reference)
    def computed(*args: np.ndarray, out_dtype: str, **attrs: Any) -> np.ndarray:
        wanted = out_dtype or dt.from_numpy(args[0].dtype)
        total = accumulator(wanted)
        return cast_array(np.asarray(reference(*[cast_array(item, total) for item in args], **attrs)), wanted)

    return computed


def _is_narrow(item: Any) -> bool:
    return (
        isinstance(item, np.ndarray | np.generic)
        and item.dtype.itemsize < 4
        and dt.is_float(dt.from_numpy(item.dtype))
    )


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
