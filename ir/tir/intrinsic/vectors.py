"""Vectors as wholes: halves, dot products of bytes, masks of lanes, scalable lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtype as dt
from ..expr import Broadcast, Call, PrimExpr, Ramp, Shuffle
from ..operators import cast, const, convert
from .declaration import call, intrinsic
from .lowering import shared


def _half(start: int) -> Any:
    """The lowering to a shuffle: half of the lanes from the first or from the middle on."""

    def lower(node: Call) -> PrimExpr:
        half = dt.lanes(node.args[0].dtype) // 2
        return Shuffle(node.args, range(start * half, (start + 1) * half))

    return lower


@intrinsic(
    arity=1,
    result=None,
    meaning=lambda dtype, vec: vec[: len(vec) // 2],
    lowering={"default": _half(0)},
)
def vectorlow(dtype: str, vec: Any) -> Call:
    """The first half of a vector."""
    return call("vectorlow", vec, dtype=dtype)


@intrinsic(
    arity=1,
    result=None,
    meaning=lambda dtype, vec: vec[len(vec) // 2 :],
    lowering={"default": _half(1)},
)
def vectorhigh(dtype: str, vec: Any) -> Call:
    """The second half of a vector."""
    return call("vectorhigh", vec, dtype=dtype)


@intrinsic(
    arity=2,
    result=None,
    meaning=lambda dtype, vec1, vec2: np.concatenate([np.atleast_1d(vec1), np.atleast_1d(vec2)]),
    lowering={"default": lambda node: Shuffle(node.args, range(dt.lanes(node.dtype)))},
)
def vectorcombine(dtype: str, vec1: Any, vec2: Any) -> Call:
    """Two vectors one after the other."""
    return call("vectorcombine", vec1, vec2, dtype=dtype)


def _dot_product(vec1: Any, vec2: Any, acc: Any) -> Any:
    products = np.asarray(vec1).astype("int32") * np.asarray(vec2).astype("int32")
    return np.add(products.sum(dtype="int32"), acc, dtype="int32")


def _sum_of_products(vec1: PrimExpr, vec2: PrimExpr, acc: PrimExpr) -> PrimExpr:
    total = acc
    for lane in range(4):
        total = total + cast("int32", Shuffle([vec1], [lane])) * cast("int32", Shuffle([vec2], [lane]))
    return total


@intrinsic(
    arity=3,
    result="int32",
    meaning=_dot_product,
    lowering={"default": lambda node: shared(node.args, _sum_of_products)},
)
def dp4a(vec1: Any, vec2: Any, acc: Any = 0) -> Call:
    """The dot product of two vectors of four bytes, added to ``acc``."""
    return call("dp4a", vec1, vec2, convert(acc, "int32"))


def _compare_lanes(node: Call) -> PrimExpr:
    base, limit = node.args
    lanes = dt.lanes(node.dtype)
    return Ramp(base, const(1, base.dtype), lanes) < Broadcast(cast(base.dtype, limit), lanes)


@intrinsic(
    arity=2,
    result=None,
    meaning=lambda dtype, base, limit: base + np.arange(dt.lanes(dtype)) < limit,
    lowering={"default": _compare_lanes},
)
def get_active_lane_mask(dtype: str, base: Any, limit: Any) -> Call:
    """The mask of the lanes for which ``base + lane < limit``."""
    return call("get_active_lane_mask", base, limit, dtype=dtype)


@intrinsic(arity=0, result="int32")
def vscale() -> PrimExpr:
    """The runtime multiple of a scalable vector's lanes."""
    return call("vscale")


def get_vscale_expr(dtype: str, min_size: int = 128) -> PrimExpr:
    """The lanes of a scalable vector of ``dtype`` whose smallest size is ``min_size`` bits."""
    return (min_size // dt.bits(dtype)) * vscale()
