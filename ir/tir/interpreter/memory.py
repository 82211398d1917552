"""Memory that knows which of its bytes were written, and who touches it in parallel loops and launches of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtype as dt
from .error import ElementError, InterpreterError, refusal
from .races import Watch

_UNWRITTEN = 0x55
"""What fills new memory, for functions outside of the program that read it all the same."""

WARP_SCOPE, DYNAMIC_SCOPE = "warp", "shared.dyn"
SHARED_SCOPES = ("shared", DYNAMIC_SCOPE, WARP_SCOPE)
"""Scopes of memory that threads of a kernel share: those of a warp, or of a block."""


class Memory:
    """Bytes that pointers lead to.

    Args:
        content: the bytes.
        loops: the parallel loops and launches of threads that run, from the outermost to the innermost, at any time.
        is_written: whether all of it counts as written; else nothing.
        owner: the address variable that it is allocated for.
    """

    def __init__(
        self, content: np.ndarray, loops: list[Watch], is_written: bool = True, owner: Any = None
    ) -> None:
        self.content = content
        self.owner = owner
        self.written = None if is_written else bytearray(len(content))
        self.loops = loops
        self.age = len(loops)
        """How many of the loops run when it is made: the iterations of those do not share it."""
        self.place: Any = self
        """Memories of one place are the same bytes of a machine, one after the other."""
        self.fragments: dict[tuple[int, int], tuple[int, int, int]] = {}
        """The shapes m, n and k of the WMMA fragments in it, by the bytes before them and their number."""
        self._arrays: dict[tuple[np.dtype[Any], int], np.ndarray] = {}

    @classmethod
    def allocated(cls, size: int, loops: list[Watch], owner: Any) -> Memory:
        """New memory that nobody wrote.

        Raises:
            InterpreterError: there is not so much of it, or int64 does not count it.
        """
        if size >= 1 << 63:
            raise refusal("index-flat", f"an allocation of {size} bytes is more than int64 counts")
        try:
            return cls(np.full(size, _UNWRITTEN, "uint8"), loops, False, owner)
        except (MemoryError, ValueError):  # numpy knows sizes that no machine has
            raise InterpreterError(f"there is no memory for an allocation of {size} bytes") from None

    def array(self, dtype: np.dtype[Any], phase: int) -> np.ndarray:
        """The bytes from ``phase`` on as elements of a dtype."""
        found = self._arrays.get((dtype, phase))
        if found is None:
            usable = (len(self.content) - phase) // dtype.itemsize * dtype.itemsize
            found = self.content[phase : phase + max(usable, 0)].view(dtype)
            self._arrays[dtype, phase] = found
        return found

    def write_from_outside(self, start: int) -> None:
        """A function that is not interpreted gets the memory behind ``start``, and may write it."""
        if self.written is not None:
            self.written[start:] = b"\1" * (len(self.written) - start)


class Elements:
    """The memory from an address on as elements of one dtype."""

    def __init__(self, memory: Memory, offset: int, dtype: str) -> None:
        numpy_dtype = np.dtype(dt.to_numpy(dtype))
        self.memory = memory
        self.size = numpy_dtype.itemsize
        self.first, self._phase = divmod(offset, self.size)
        self.array = memory.array(numpy_dtype, self._phase)
        self.count = len(self.array)
        self._get = self.array.__getitem__ if dt.is_float(dtype) else self.array.item
        self._set = b"\1" * self.size

    def read(self, index: int, name: str, is_atomic: bool = False) -> Any:
        """The element ``index`` behind the address; ``name`` is that of the buffer, for errors."""
        place = self.first + index
        if not 0 <= place < self.count:
            raise self._outside(index, name)
        memory = self.memory
        if memory.written is not None or memory.loops:
            start = place * self.size + self._phase
            if memory.written is not None and memory.written[start : start + self.size] != self._set:
                raise ElementError("unwritten", "{} is read, which nobody wrote", name, index)
            for loop in memory.loops[memory.age :]:
                race = (
                    loop.update(memory, start, self.size)
                    if is_atomic
                    else loop.read(memory, start, self.size)
                )
                if race is not None:
                    raise ElementError(loop.rule, race, name, index)
        return self._get(place)

    def write(self, index: int, value: Any, name: str, is_atomic: bool = False) -> None:
        """Store an element."""
        self.array[self._touch(index, name, is_atomic, (value,))] = value

    def _touch(self, index: int, name: str, is_atomic: bool, values: tuple[Any, ...]) -> int:
        """Note that an element is written, with a value if there is one; its place in the array."""
        place = self.first + index
        if not 0 <= place < self.count:
            raise self._outside(index, name)
        memory = self.memory
        if memory.written is not None or memory.loops:
            start = place * self.size + self._phase
            if memory.written is not None:
                memory.written[start : start + self.size] = self._set
            watches = memory.loops[memory.age :]
            bits = np.array(values, self.array.dtype).tobytes() if values and watches else None
            for loop in watches:
                race = (
                    loop.update(memory, start, self.size)
                    if is_atomic
                    else loop.write(memory, start, self.size, bits)
                )
                if race is not None:
                    raise ElementError(loop.rule, race, name, index)
        if not self.array.flags.writeable:
            raise refusal("read-only", f"the array of {name} may not be written")
        return place

    def forget(self, index: int, name: str) -> None:
        """An element gets an undefined value: as if nobody had written it."""
        start = self._touch(index, name, False, ()) * self.size + self._phase
        if self.memory.written is None:
            self.memory.written = bytearray(b"\1" * len(self.memory.content))
        self.memory.written[start : start + self.size] = bytes(self.size)

    def _outside(self, index: int, name: str) -> ElementError:
        return ElementError("bounds", "an access of {} is outside of the memory", name, index)


class Pointer:
    """An address: memory, how many bytes behind its start, and the dtype of what is there for those who do not say it."""

    def __init__(self, memory: Memory, offset: int, dtype: str) -> None:
        self.memory = memory
        self.offset = offset
        self.dtype = dtype
        self._elements: dict[str, Elements] = {}

    def elements(self, dtype: str) -> Elements:
        """What is there as elements of a dtype."""
        found = self._elements.get(dtype)
        if found is None:
            found = self._elements[dtype] = Elements(self.memory, self.offset, dtype)
        return found

    def moved(self, count: int, dtype: str) -> Pointer:
        """The address ``count`` elements behind."""
        return Pointer(self.memory, self.offset + count * dt.bytes_of(dtype), dtype)

    def handed_out(self) -> np.ndarray:
        """The memory from here on as an array, for functions outside of the program."""
        self.memory.write_from_outside(max(self.offset, 0))
        elements = self.elements(dt.element_of(self.dtype))
        return elements.array[elements.first :]


# ---- arrays of callers -------------------------------------------------------------------------------------------


def pointers_to(arrays: Sequence[np.ndarray], loops: list[Watch]) -> list[Pointer]:
    """An address for each array; arrays that overlap lead to one memory."""
    spans = [_span(array) for array in arrays]
    pointers: list[Pointer | None] = [None] * len(arrays)
    for group in _overlapping(spans):
        low = min(spans[index][0] for index in group)
        high = max(spans[index][1] for index in group)
        memory = Memory(_bytes([arrays[index] for index in group], low, high), loops)
        for index in group:
            pointers[index] = Pointer(
                memory, _address(arrays[index]) - low, dt.from_numpy(arrays[index].dtype)
            )
    return [pointer for pointer in pointers if pointer is not None]


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _span(array: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte of an array and behind its last one."""
    if array.size == 0:
        return _address(array), _address(array)
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def _overlapping(spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Indices of spans in groups that do not overlap."""
    groups: list[list[int]] = []
    end = -1
    for index in sorted(range(len(spans)), key=lambda index: spans[index]):
        low, high = spans[index]
        if low < end and low < high:
            groups[-1].append(index)
            end = max(end, high)
        else:
            groups.append([index])
            end = high
    return groups


def _bytes(arrays: Sequence[np.ndarray], low: int, high: int) -> np.ndarray:
    """The bytes between two addresses that arrays lie at."""
    first = arrays[0]
    if len(arrays) == 1 and (first.flags.c_contiguous or not first.size):
        return first.reshape(-1).view("uint8")
    whole = _Span(arrays, low, high - low)
    return np.asarray(whole)


class _Span:
    """Memory of arrays, for numpy; it keeps them alive."""

    def __init__(self, arrays: Sequence[np.ndarray], low: int, size: int) -> None:
        self.arrays = arrays
        is_read_only = not all(array.flags.writeable for array in arrays)
        self.__array_interface__ = {
            "version": 3, "shape": (size,), "typestr": "|u1", "data": (low, is_read_only)
        }  # fmt: skip
