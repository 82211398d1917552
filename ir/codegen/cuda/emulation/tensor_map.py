"""A tensor map as the emulation has it, in the layout of ``tensor_map.h``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_BYTES, _ALIGNMENT = 128, 64
_MOST = 5
_KNOWN = 0x5A
_LAYOUT = np.dtype(
    {
        "names": ["address", "strides", "shape", "box", "rank", "element_bytes", "swizzle", "known"],
        "formats": ["u8", ("u8", _MOST), ("u4", _MOST), ("u2", _MOST), "u1", "u1", "u1", "u1"],
        "offsets": [0, 8, 48, 68, 78, 79, 80, 81],
        "itemsize": _BYTES,
    }
)


def encoded_tensor_map(
    address: int,
    element_bytes: int,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    swizzle: int,
) -> np.ndarray:
    """The bytes of a map, for a kernel's parameter.

    Args:
        address: of the tensor's first element.
        element_bytes: of an element.
        shape: from the outermost dimension to the innermost one, as the next two.
        strides: in elements.
        box: what a copy brings.
        swizzle: bytes within which it is swizzled.
    """
    room = np.zeros(_BYTES + _ALIGNMENT, np.uint8)
    begin = -room.ctypes.data % _ALIGNMENT
    found = room[begin : begin + _BYTES].view(_LAYOUT)
    rank = len(shape)
    found["address"], found["rank"], found["element_bytes"] = address, rank, element_bytes
    found["swizzle"], found["known"] = swizzle, _KNOWN
    found["shape"][0, :rank], found["box"][0, :rank] = shape[::-1], box[::-1]
    found["strides"][0, :rank] = [stride * element_bytes for stride in strides[::-1]]
    return found.view(np.uint8)
