"""What a kernel is given, compared with what it declares before native code sees it: dtypes, extents, strides, numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from .. import dtype as dt
from ..conversion import has_masked_elements, round_float
from ..error import IRError
from .llvm.extent import Extent, evaluate, text_of
from .llvm.signature import UNTYPED, Parameter, Signature


class KernelError(IRError):
    """A kernel was called with wrong arguments, or reported an error."""


class KernelMemoryError(KernelError, MemoryError):
    """A kernel found no memory for a buffer of its own."""


def prepare(signature: Signature, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """C arguments (without a result pointer), and the arrays behind them, which must stay alive while they are used.

    Symbols take their value from the scalar that they are, else from the first extent, stride or offset that they are; all
    others must agree.

    Args:
        signature: of the kernel.
        args: arrays (numpy's, or with DLPack) and numbers, for its buffers and scalars.

    Raises:
        KernelError: an argument does not fit, naming it, what it is, and what it must be.
    """
    given = [item for item in signature.parameters if item.kind in ("buffer", "scalar")]
    if len(args) != len(given):
        names = ", ".join(item.name for item in given)
        raise KernelError(f"{signature.name} takes {len(given)} arguments ({names}), got {len(args)}")
    symbols: dict[str, int] = {}
    values: dict[str, Any] = {}
    buffers: list[tuple[Parameter, _Array]] = []
    for item, value in zip(given, args):
        if item.kind == "scalar":
            values[item.name] = _number(signature.name, item, value)
            if not dt.is_float(item.dtype):
                symbols[item.name] = values[item.name]
    for item, value in zip(given, args):
        if item.kind == "buffer":
            array = _Array(signature.name, item, value)
            buffers.append((item, array))
            array.name_symbols(symbols)
            values[item.name] = array.array.ctypes.data
    for item in signature.parameters:
        if item.kind == "symbol":
            values[item.name] = _checked(signature.name, item, symbols[item.name])
    for _, array in buffers:
        array.compare(symbols)
    if signature.apart:
        _refuse_overlaps(signature.name, buffers)
    arguments = [values[item.name] for item in signature.parameters if item.kind != "result"]
    return arguments, [array.array for _, array in buffers]


def _refuse_overlaps(kernel: str, buffers: Sequence[tuple[Parameter, _Array]]) -> None:
    """Arguments of which one is written have no memory in common."""
    for (first, one), (second, other) in combinations(buffers, 2):
        if (first.stored or second.stored) and np.may_share_memory(one.array, other.array):
            if np.shares_memory(one.array, other.array):
                written = first if first.stored else second
                raise KernelError(
                    f"{kernel}: arguments {first.name} and {second.name} overlap and {written.name} is written, but the function says"
                    " that its buffers are apart (tir.noalias); pass a copy, or build it without that attribute"
                )


def _number(kernel: str, item: Parameter, value: Any) -> int | float:
    is_float = dt.is_float(item.dtype)
    try:
        number = float(value) if is_float else int(value)
        fits = (
            not isinstance(value, str | bytes)
            and not getattr(value, "shape", ())
            and (_is_held(number, item.dtype) if is_float else number == value)
        )
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        shown = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)
        raise KernelError(f"{kernel}: argument {item.name} must be {item.dtype}, got {shown}")
    # a narrow float is passed as float32: rounded here, it is rounded once
    return round_float(number, item.dtype) if is_float else _checked(kernel, item, int(number))


def _is_held(number: float, dtype: str) -> bool:
    """Whether a float stays finite in a dtype, if it is."""
    return not math.isfinite(number) or math.isfinite(round_float(number, dtype))


def _checked(kernel: str, item: Parameter, number: int) -> int:
    low, high = dt.integer_range(item.dtype)
    if not low <= number <= high:
        raise KernelError(f"{kernel}: argument {item.name} must be {item.dtype}, got {number}")
    return number


def _as_array(value: Any) -> np.ndarray | None:
    """The memory behind an argument without copying: a numpy array, or anything with DLPack."""
    if isinstance(value, np.ndarray):
        return value
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else None


class _Array:
    """An array that is given for a buffer, with its extents and strides in elements of the buffer."""

    def __init__(self, kernel: str, item: Parameter, value: Any) -> None:
        self.item = item
        self.where = f"{kernel}: argument {item.name}"
        try:
            array = _as_array(value)
        except (RuntimeError, BufferError) as error:
            raise KernelError(f"{self.where} cannot be shared through DLPack: {error}") from error
        if array is None:
            raise KernelError(f"{self.where} must be an array, got {type(value).__name__}")
        if has_masked_elements(value):
            raise KernelError(
                f"{self.where} has masked elements, which have no value; give them one: .filled(0)"
            )
        self.array = array
        if item.stored and array is value and not array.flags.writeable:  # DLPack does not always tell
            raise KernelError(f"{self.where} is written, but the array is read-only; pass a copy of it")
        self.shape: tuple[int, ...] = ()
        self.strides: tuple[int, ...] = ()
        if item.shape != UNTYPED:
            self._look()

    def _look(self) -> None:
        item, array = self.item, self.array
        if array.dtype != dt.to_numpy(item.dtype):
            raise KernelError(
                f"{self.where} must be {item.dtype}, got {array.dtype}; make it so with .astype({item.dtype!r}),"
                " which copies: what a kernel writes is then in the copy"
            )
        if not array.flags.aligned:
            raise KernelError(f"{self.where} lies at an address that is no multiple of its elements' size")
        if not item.strides and not array.flags.c_contiguous:
            raise KernelError(f"{self.where} must be contiguous; use numpy.ascontiguousarray")
        self.shape = array.shape
        lanes, size = dt.lanes(item.dtype), array.itemsize
        steps = array.strides
        if lanes > 1 and self.shape and self.shape[-1] == lanes:
            if steps[-1] != size and lanes > 1:
                raise KernelError(f"{self.where} must have the lanes of a vector side by side")
            self.shape, steps = self.shape[:-1], steps[:-1]
        if len(self.shape) != len(item.shape):
            raise KernelError(
                f"{self.where} must have shape {_tuple_text(item.shape, {})}, got {array.shape}"
            )
        if item.strides:
            if any(step % (size * lanes) for step in steps):
                raise KernelError(f"{self.where} has strides of {steps} bytes, which are no whole elements")
            self.strides = tuple(step // (size * lanes) for step in steps)

    def name_symbols(self, symbols: dict[str, int]) -> None:
        """Give the symbols that extents, strides or the offset are, and that have no value yet, the values found here."""
        if self.item.shape == UNTYPED:
            return
        places = [
            *zip(self.item.shape, self.shape),
            *zip(self.item.strides, self.strides),
            (self.item.offset, 0),
        ]
        for extent, actual in places:
            if isinstance(extent, str):
                symbols.setdefault(extent, actual)

    def compare(self, symbols: dict[str, int]) -> None:
        """Refuse an array whose extents, strides or offset are not the declared ones."""
        item = self.item
        if item.shape == UNTYPED:
            return
        if any(self._evaluated(extent, symbols) != actual for extent, actual in zip(item.shape, self.shape)):
            raise KernelError(
                f"{self.where} must have shape {_tuple_text(item.shape, symbols)}, got {self.array.shape}"
            )
        # where there is at most one element along an axis, its stride is not used
        places = zip(item.strides, self.strides, self.shape)
        if 0 not in self.shape and any(
            self._evaluated(stride, symbols) != actual and extent > 1 for stride, actual, extent in places
        ):
            raise KernelError(
                f"{self.where} must have strides {_tuple_text(item.strides, symbols)} in elements, got {self.strides}"
            )
        if self._evaluated(item.offset, symbols) != 0:
            raise KernelError(
                f"{self.where} must have offset {_shown(item.offset, symbols)}, but an array begins at its first element"
            )

    def _evaluated(self, extent: Extent, symbols: dict[str, int]) -> int:
        try:
            return evaluate(extent, symbols)
        except ZeroDivisionError:
            raise KernelError(
                f"{self.where} is declared with {text_of(extent)}, which divides by zero"
            ) from None


def _tuple_text(extents: Sequence[Extent], symbols: dict[str, int]) -> str:
    return f"({', '.join(_shown(e, symbols) for e in extents)}{',' if len(extents) == 1 else ''})"


def _shown(extent: Extent, symbols: dict[str, int]) -> str:
    """An extent with its value if it is none itself: ``n=5``."""
    if isinstance(extent, int) or not symbols:
        return text_of(extent)
    return f"{text_of(extent)}={evaluate(extent, symbols)}"
