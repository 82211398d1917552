"""What the threads of a warp, or of a group of warps, do together: of blocks that intrinsics take the place of, and of calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.target.tensor_core import TF32

_FRAGMENTS = ("wmma.", "warp", "m16n8k8.")
"""What scopes of memory begin with that the threads of a warp have together."""
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_GROUP = "tir.ptx_wgmma_mma_async"
_TYPES = {"tf32": TF32, "float32": TF32}


@dataclass(frozen=True)
class WarpTile:
    """The innermost loops of a nest, which one or several instructions of a warp run."""

    instruction: str
    """"mma", "wmma" or "wgmma"."""
    role: str
    """"multiply", "load" (of operands), "store" (of sums) or "fill"."""
    operand: str = ""
    """Of what multiplies: the dtype of what is multiplied, "tf32" for rounded float32."""
    sums: str = ""
    """Of what multiplies: the dtype of sums."""
    calls: int = 1
    """How often an iteration of the loops around does so."""

    @property
    def operand_bytes(self) -> int:
        """Of an element that is multiplied."""
        return 4 if self.operand == TF32 else dt.bytes_of(self.operand)


def is_fragment(scope: str) -> bool:
    """Whether memory of a scope is in the registers of a warp's threads.

    >>> [is_fragment(scope) for scope in ("wmma.accumulator", "warp", "local", "shared")]
    [True, True, False, False]
    """
    return scope.startswith(_FRAGMENTS)


TILE_ROWS = 8
"""Rows of a tile that a warp's threads access together, of each of which four threads have neighbouring elements."""


def elements_of_lane(element_bytes: int) -> int:
    """Neighbouring elements that one thread has of a tile: a pair, or what fills a word.

    >>> elements_of_lane(1), elements_of_lane(2), elements_of_lane(4)
    (4, 2, 2)
    """
    return max(2, 4 // element_bytes)


@lru_cache(maxsize=1024)
def warp_tile_of(name: str) -> WarpTile | None:
    """What an intrinsic does to a tile; None of those that other units run.

    >>> warp_tile_of("wmma_sync_16x16x16_f16f16f32")
    WarpTile(instruction='wmma', role='multiply', operand='float16', sums='float32', calls=1)
    """
    intrin = tir.TensorIntrin.get(name, allow_missing=True)
    if intrin is None:
        return None
    buffers = list(intrin.desc.buffer_map.values())
    scopes = [buffer.scope() for buffer in buffers]
    held = [scope for scope in scopes if is_fragment(scope)]
    if not held:
        return None
    instruction = "wmma" if any(scope.startswith("wmma.") for scope in held) else "mma"
    if len(buffers) == 1:
        return WarpTile(instruction, "fill")
    if len(buffers) == 2:
        return WarpTile(instruction, "load" if is_fragment(scopes[1]) else "store")
    operand = buffers[0].dtype
    return WarpTile(instruction, "multiply", _TYPES.get(operand, operand), buffers[2].dtype)


@dataclass(frozen=True)
class GroupProduct:
    """A product of a group of warps."""

    shape: tuple[int, int, int]
    operand: str
    sums: str


def group_product(call: tir.Call) -> GroupProduct | None:
    """What a call of ``wgmma`` multiplies; None of other calls."""
    if getattr(call.op, "name", "") != _GROUP:
        return None
    shape, _, _, operand, _, sums = (str(getattr(item, "value", item)) for item in call.args[:6])
    found = _SHAPE.fullmatch(shape)
    assert found is not None
    m, n, k = map(int, found.groups())
    return GroupProduct((m, n, k), _TYPES.get(operand, operand), sums)


@dataclass(frozen=True)
class BoxCopy:
    """What the tensor copy engine copies at once."""

    source: tir.BufferLoad
    """The first element of the tensor."""
    target: tir.BufferLoad
    """Where the box begins in shared memory."""
    coordinates: tuple[Any, ...]
    box: tuple[int, ...]


def box_copy(call: tir.Call, names: Mapping[Any, Any]) -> BoxCopy | None:
    """What a call copies by a tensor's map; None of other calls, and where the map is not known.

    Args:
        call: the call.
        names: values of the names around it.
    """
    if getattr(call.op, "name", "") != "tir.ptx_cp_async_bulk_tensor":
        return None
    target, _, tensor, _, *coordinates = call.args
    made = names.get(tensor)
    if not isinstance(made, tir.Call) or getattr(made.op, "name", "") != "tir.tensor_map_encode_tiled":
        return None
    box = [item.value for item in made.args[-len(coordinates) :] if isinstance(item, tir.IntImm)]
    begins = [
        item.args[0]
        for item in (made.args[0], target)
        if isinstance(item, tir.Call) and isinstance(item.args[0], tir.BufferLoad)
    ]
    if len(begins) < 2 or len(box) < len(coordinates):
        return None
    source, place = begins
    assert isinstance(source, tir.BufferLoad)
    assert isinstance(place, tir.BufferLoad)
    return BoxCopy(source, place, tuple(coordinates), tuple(box))
