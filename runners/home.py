"""Where a model's arrays are, and what its functions need there: memory, arguments, and a way to start kernels.

Compiled functions only hand addresses on, so that they are called in the same way whatever the addresses are of. What differs is a
:class:`Home`: that of the processor is here, that of a CUDA device in :mod:`runners.cuda.home`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from .arguments import as_numpy
from .device import Device, cpu
from .foreign import ForeignArray
from .ndarray import address_of, aligned_bytes, aligned_empty, maker
from .program import ArgumentError


class Replay(Protocol):
    """Captured launches."""

    result: Any
    """What the work returned that was captured."""

    def launch(self) -> None:
        """Launch them."""


class Home(ABC):
    """A place for arrays; raw arrays of it are numpy's, or :class:`~runners.foreign.ForeignArray`."""

    device: Device

    def at(self, number: int) -> Home:
        """A place by its number in the description of a model: 0 is where the model runs, 1 the processor beside it."""
        return PROCESSOR if number else self

    @abstractmethod
    def argument(self, value: Any, name: str, dtype: str | None = None) -> Any:
        """An argument of any kind as a raw array here.

        Raises:
            ArgumentError: it is none, or does not fit the dtype.
        """

    @abstractmethod
    def moved(self, array: Any) -> Any:
        """A raw array as one that is here: itself, or a copy."""

    def constant(self, array: Any) -> Any:
        """A raw array of a model's constants as one that is here, which is read-only like the array itself."""
        return self.moved(array)

    @abstractmethod
    def dense(self, array: Any) -> Any:
        """A raw array of this place as kernels can read it: itself, or a copy in C order."""

    @abstractmethod
    def refuse_read_only(self, array: Any, name: str, given: Any) -> None:
        """Raise ArgumentError unless what a function writes into an array can be found where ``given`` is, which was passed for it."""

    @abstractmethod
    def maker(self, shape: Sequence[int], dtype: str) -> Callable[[], Any]:
        """What makes new arrays of a shape."""

    @abstractmethod
    def memory(self, n_bytes: int) -> Any:
        """New memory, as a raw array of bytes."""

    @abstractmethod
    def tensor(self, shape: Sequence[int], dtype: Any, memory: Any, begin: int) -> Any:
        """An array in memory of :meth:`memory`; TypeError where it does not fit."""

    @abstractmethod
    def address_of(self, array: Any) -> int:
        """Where the first element of a raw array is, here or on the processor."""

    def refuse_shared(self, written: Any, other: Any, names: tuple[str, str]) -> None:
        """Raise ArgumentError where dense arrays have memory in common, of which a kernel overwrites the first while it reads the other."""
        begin, other_begin = self.address_of(written), self.address_of(other)
        if begin < other_begin + other.nbytes and other_begin < begin + written.nbytes:
            raise ArgumentError(
                f"argument {names[0]} is overwritten while {names[1]} is read, and they are the same memory; pass a copy of one"
            )

    def queue(self) -> int | None:
        """The address of the queue through which functions that this thread calls launch kernels; None where there are no launches."""
        return None

    def frame_key(self) -> Any:
        """Calls of one thread that find the same key come one behind the other, and may use the same memory."""
        return None

    def failure(self, what: str) -> Exception | None:
        """Why a launch was refused, behind a call that failed; None where that was not the reason."""
        return None

    def synchronize(self) -> None:
        """Wait for everything that this thread has started."""

    def captured(self, work: Callable[[], Any]) -> Replay | None:
        """What work would launch, to be launched again and again; None where it launches nothing, so that it has to be done."""
        return None

    @contextmanager
    def profiling(self) -> Iterator[list[tuple[float, str]] | None]:
        """Within, launches are timed one by one: the seconds of each, and its kernel; None where there are no launches."""
        yield None


class Processor(Home):
    """The processor, whose arrays are numpy's."""

    device = cpu()
    argument = staticmethod(as_numpy)
    maker = staticmethod(maker)
    memory = staticmethod(aligned_bytes)  # type: ignore[assignment]  # its parameter has another name
    address_of = staticmethod(address_of)  # type: ignore[assignment]

    def moved(self, array: Any) -> Any:
        """A numpy array, copied from a device if it is there."""
        return array.get() if isinstance(array, ForeignArray) else array

    def dense(self, array: Any) -> Any:
        """The array, or an aligned copy in C order."""
        flags = array.flags
        if flags.c_contiguous and flags.aligned:
            return array
        copied = aligned_empty(array.shape, array.dtype)
        copied[...] = array
        return copied

    def refuse_read_only(self, array: Any, name: str, given: Any) -> None:
        """Raise ArgumentError unless the code may write into an array that is passed for a parameter it overwrites."""
        flags = array.flags
        shared = type(array.base).__name__ == "PyCapsule"  # DLPack does not tell what may be written
        if not flags.writeable and not shared:
            raise ArgumentError(
                f"argument {name} is overwritten, but the array is read-only; pass a copy of it"
            )
        if not flags.c_contiguous or not flags.aligned:
            raise ArgumentError(
                f"argument {name} is overwritten, but the array is not contiguous; pass numpy.ascontiguousarray of it"
            )

    def tensor(self, shape: Sequence[int], dtype: Any, memory: Any, begin: int) -> Any:
        """An array in memory."""
        return np.ndarray(shape, dtype, memory, begin)


PROCESSOR = Processor()
