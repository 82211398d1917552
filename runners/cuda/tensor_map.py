"""Tensor maps: what the tensor copy engine is told of a tensor, made by the driver, and given to kernels as parameters of 128 bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from ir.codegen.cuda.tensor_maps import PLAIN, PROMOTED, SWIZZLES, ZEROS

from .driver import Driver

_BYTES, _ALIGNMENT = 128, 64


class TensorMapBytes:
    """The bytes of a tensor map, aligned as the driver wants them."""

    def __init__(self) -> None:
        self._room = ctypes.create_string_buffer(_BYTES + _ALIGNMENT)
        begin = -ctypes.addressof(self._room) % _ALIGNMENT
        self._as_parameter = (ctypes.c_ubyte * _BYTES).from_buffer(self._room, begin)

    @property
    def address(self) -> int:
        """Of the bytes."""
        return ctypes.addressof(self._as_parameter)

    @staticmethod
    def copied(address: int) -> ctypes.Array[ctypes.c_ubyte]:
        """A parameter of a launch with the map at an address."""
        made = TensorMapBytes()
        ctypes.memmove(made.address, address, _BYTES)
        return made._as_parameter


def encoded_tensor_map(
    driver: Driver, kind: int, address: int, swizzle: int, layout: Sequence[int]
) -> TensorMapBytes:
    """What ``cuTensorMapEncodeTiled`` makes.

    Args:
        driver: makes it.
        kind: of elements, as CUtensorMapDataType counts them.
        address: of the first element on the device.
        swizzle: bytes within which boxes are swizzled in shared memory; 0 for not at all.
        layout: shape, strides in bytes and box, from the outermost dimension to the innermost one.

    Raises:
        CudaError: the driver does not take it, or is older than CUDA 12.
    """
    rank = len(layout) // 3
    shape, strides, box = (list(layout[first : first + rank])[::-1] for first in (0, rank, 2 * rank))
    made = TensorMapBytes()
    driver.call(
        "cuTensorMapEncodeTiled",
        made.address,
        kind,
        rank,
        address,
        (ctypes.c_uint64 * rank)(*shape),
        (ctypes.c_uint64 * rank)(*strides[1:]),  # that of the innermost dimension is known
        (ctypes.c_uint32 * rank)(*box),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        PLAIN,
        SWIZZLES[swizzle],
        PROMOTED,
        ZEROS,
    )
    return made
