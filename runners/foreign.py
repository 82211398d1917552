"""Arrays whose elements this process cannot look at, because they are a device's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from .device import Device


class ForeignArray(ABC):
    """What a model's instructions may ask of an array, wherever it is: the part of numpy's interface that they use."""

    __slots__ = ()

    @property
    @abstractmethod
    def device(self) -> Device:
        """Where the elements are."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Extents."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Of the elements."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of all elements."""

    @property
    @abstractmethod
    def ptr(self) -> int:
        """The address of the first element."""

    @property
    @abstractmethod
    def is_dense(self) -> bool:
        """Whether the elements lie one behind the other, in C order."""

    @abstractmethod
    def get(self) -> np.ndarray[Any, Any]:
        """A copy on the processor."""

    @abstractmethod
    def copy(self) -> ForeignArray:
        """A copy in C order where the elements are."""

    @abstractmethod
    def reshape(self, shape: Sequence[int]) -> ForeignArray:
        """The same elements under another shape, in the order of C."""

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def tolist(self) -> Any:
        """The elements as Python's numbers, in lists."""
        return self.get().tolist()

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())


ARRAYS = (np.ndarray, ForeignArray)
"""What a register of the virtual machine holds of a tensor."""
