"""Sums of groups of products of bytes, each one instruction: a description for any number of lanes, and ``dp4a`` of NVIDIA's GPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..buffer import Buffer
from ..expr import BufferLoad, Ramp, Var
from ..function import TensorIntrin
from ..intrinsic.vectors import dp4a
from ..kernel_attributes import DOT_PRODUCT
from ..operators import cast, const
from ..stmt import BufferStore, For, ForKind
from .programs import Pair, function, nest, tile

GROUP = 4
"""Products that are added to each lane."""


def dot_product(lanes: int, first: str, second: str, sums: str = "int32") -> Pair:
    """Of one group and a group for each lane: ``C[i] += sum over k of A[k] * B[i, k]``.

    The implementation is the loops of :class:`ir.tir.transform.InjectDotProduct`, which makes the instruction of them.

    Args:
        lanes: how many sums there are.
        first, second: dtypes of the operands.
        sums: that of the sums.
    """

    def buffers() -> tuple[Buffer, Buffer, Buffer]:
        return (
            tile("A", (GROUP,), first, ""),
            tile("B", (lanes, GROUP), second, ""),
            tile("C", (lanes,), sums, ""),
        )

    a, b, c = buffers()

    def update(i: Any, k: Any) -> BufferStore:
        """Of the buffers at hand: the description's, then the implementation's."""
        return BufferStore(c, c[i] + cast(sums, a[k]) * cast(sums, b[i, k]), (i,))

    description = function([a, b, c], [c, a, b], [c], nest("update", [("S", lanes), ("R", GROUP)], update))
    a, b, c = buffers()
    lane, item = Var("lane", "int32"), Var("g", "int32")
    group = For(item, 0, GROUP, ForKind.SERIAL, update(lane, item), annotations={DOT_PRODUCT: 1})
    body = For(lane, 0, lanes, ForKind.VECTORIZED, group)
    return description, function([a, b, c], [c, a, b], [c], body)


def _from_zero(lanes: int) -> Ramp:
    return Ramp(const(0), const(1), lanes)


def _dp4a() -> Pair:
    def buffers() -> tuple[Buffer, Buffer, Buffer]:
        return (
            tile("A", (GROUP,), "int8", "shared"),
            tile("B", (GROUP,), "int8", "shared"),
            tile("C", (1,), "int32", "local"),
        )

    a, b, c = buffers()

    def update(k: Any) -> BufferStore:
        return BufferStore(c, c[0] + cast("int32", a[k]) * cast("int32", b[k]), (0,))

    description = function([a, b, c], [c, a, b], [c], nest("update", [("R", GROUP)], update))
    a, b, c = buffers()
    value = dp4a(BufferLoad(a, [_from_zero(GROUP)]), BufferLoad(b, [_from_zero(GROUP)]), c[0])
    return description, function([a, b, c], [c, a, b], [c], BufferStore(c, value, (0,)))


DP4A_INTRIN = TensorIntrin.register_made("dp4a", _dp4a)
DP4A_S8S8S32_INTRIN = TensorIntrin.register_made("dp4a_s8s8s32", _dp4a)


def register_dot_product(name: str, lanes: int, first: str, second: str) -> str:
    """Register one; its name."""
    return TensorIntrin.register_made(name, partial(dot_product, lanes, first, second))
