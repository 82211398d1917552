"""Arguments of a model's functions as raw values: arrays of any kind as numpy's, numbers in the dtypes that are declared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .device import Device
from .error import RunnerError
from .ndarray import NDArray, from_dlpack, has_masked_elements, numpy_dtype
from .program import ArgumentError


def in_order(
    function: str, names: Sequence[str], args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The arguments of a call in the order of the function's parameters, of which the last may be given by name.

    Args:
        function: its name, for messages.
        names: of its parameters.
        args: what is given by position, at most as much as there are names where anything is given by name.
        named: what is given by name.

    Raises:
        ArgumentError: the function has no parameter of a name, one is given twice, or one is missing.
    """
    if not named:
        return tuple(args)
    unknown = [name for name in named if name not in names]
    if unknown:
        raise ArgumentError(
            f"function {function} has no argument {unknown[0]!r}; its arguments are {', '.join(names)}"
        )
    twice = [name for name in names[: len(args)] if name in named]
    if twice:
        raise ArgumentError(
            f"function {function}: argument {twice[0]} is given twice, by position and by name"
        )
    missing = [name for name in names[len(args) :] if name not in named]
    if missing:
        raise ArgumentError(f"function {function}: argument {missing[0]} is missing")
    return (*args, *[named[name] for name in names[len(args) :]])


def number_as(value: Any, dtype: str, subject: str) -> np.ndarray[Any, Any]:
    """A number as an array without dimensions, in a dtype that holds it; floats are rounded.

    Args:
        value: Python's, numpy's, or an array of numpy without dimensions.
        subject: what the number is for, as a message names it.

    Raises:
        ArgumentError: it is no number, none in the range of the dtype, or no whole one where the dtype is of integers.
    """
    kind = numpy_dtype(dtype)
    exact: Any
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            if "float" in dtype:
                exact = float(value)
                found = np.asarray(exact).astype(kind)
                fits = math.isfinite(float(found)) or not math.isfinite(exact)
            else:
                exact = int(value)
                found = np.asarray(exact).astype(kind)
                fits = exact == value and int(found) == exact
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits or isinstance(value, str | bytes) or np.shape(value):
        shown = f"an array of shape {list(np.shape(value))}" if np.shape(value) else repr(value)
        raise ArgumentError(f"{subject} must be a number of {dtype}, got {shown}")
    return found


def as_numpy(value: Any, name: str, dtype: str | None = None) -> np.ndarray[Any, Any]:
    """The numpy array that shares memory with an argument: numpy, NDArray, anything with DLPack, numbers.

    Raises:
        ArgumentError: it is none of them, lives on another device, has masked elements, or is a number that ``dtype`` does
            not hold.
    """
    if isinstance(value, np.ndarray):
        if has_masked_elements(value):
            raise ArgumentError(
                f"argument {name} is a masked array with elements without a value; give them one: {name}.filled(0)"
            )
        return value
    if isinstance(value, NDArray):
        if value.device.device_type != Device.kDLCPU:
            raise ArgumentError(
                f"argument {name} is on {value.device}, the model runs on the processor; copy it with .copyto(cpu())"
            )
        data: np.ndarray[Any, Any] = value.data
        return data
    if isinstance(value, int | float | np.generic):
        return number_as(value, dtype, f"argument {name}") if dtype else np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            shared: np.ndarray[Any, Any] = from_dlpack(value).data
        except RunnerError as error:
            raise ArgumentError(f"argument {name}: {error}") from error
        return shared
    raise ArgumentError(
        f"argument {name} must be an array (numpy, NDArray or DLPack), got {type(value).__name__}"
    )
