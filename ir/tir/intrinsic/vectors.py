"""Vectors as wholes: halves, dot products of bytes, masks of lanes, scalable lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtype as dt
from ...error import IRTypeError
from ..expr import Broadcast, Call, PrimExpr, Ramp, Shuffle
from ..operators import cast, const, convert
from .declaration import call, first, intrinsic, primitive
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


def _of_signed_bytes(node: Call) -> PrimExpr:
    """GPUs have an instruction for signed bytes, whose sums are int32."""
    if all(arg.dtype == "int8x4" for arg in node.args[:2]):
        return node
    return shared(node.args, _sum_of_products)


@intrinsic(
    arity=3,
    result="int32",
    meaning=_dot_product,
    lowering={"default": lambda node: shared(node.args, _sum_of_products), "cuda": _of_signed_bytes},
)
def dp4a(vec1: Any, vec2: Any, acc: Any = 0) -> Call:
    """The dot product of two vectors of four bytes, added to ``acc``."""
    return call("dp4a", vec1, vec2, convert(acc, "int32"))


DOT_GROUPS: dict[tuple[str, str, str], int] = {
    **{(a, b, "int32"): 4 for a in ("int8", "uint8") for b in ("int8", "uint8")},
    ("int16", "int16", "int32"): 2,
    ("bfloat16", "bfloat16", "float32"): 2,
}
"""How many products :func:`dot_accumulate` adds to each lane, by the dtypes of both operands and of the sums."""


def _accumulated(sums: Any, first: Any, second: Any) -> Any:
    """In order, each step rounded or wrapped to the dtype of the sums."""
    total = np.atleast_1d(sums)
    columns = np.asarray(second).reshape(len(total), -1).astype(total.dtype)
    factors = np.asarray(first).reshape(-1, columns.shape[1]).astype(total.dtype)
    with np.errstate(all="ignore"):
        for step in range(columns.shape[1]):
            total = total + factors[:, step] * columns[:, step]
    return total


def _check_groups(dtype: str, args: Sequence[PrimExpr]) -> None:
    kinds = [dt.element_of(arg.dtype) for arg in args]
    sums, first, second = (dt.lanes(arg.dtype) for arg in args)
    group = DOT_GROUPS.get((kinds[1], kinds[2], kinds[0]), 0)
    if not group:
        known = "; ".join(f"{a} and {b} to {c}" for a, b, c in DOT_GROUPS)
        raise IRTypeError(
            f"dot_accumulate has no form for products of {kinds[1]} and {kinds[2]} that are added to {kinds[0]}, only {known}"
        )
    if second != sums * group or first not in (group, second):
        raise IRTypeError(
            f"dot_accumulate to {args[0].dtype} takes {group} lanes of {kinds[1]}, or {sums * group} for a group of each lane, and"
            f" {sums * group} lanes of {kinds[2]}, got {args[1].dtype} and {args[2].dtype}"
        )
    if dtype != args[0].dtype:
        raise IRTypeError(f"dot_accumulate to {args[0].dtype} gives that dtype, not {dtype}")


@intrinsic(arity=3, result=first, meaning=_accumulated, lowering={"default": primitive}, check=_check_groups)
def dot_accumulate(sums: Any, first: Any, second: Any) -> Call:
    """``sums[l] + sum over g of first[l * G + g] * second[l * G + g]`` in each lane ``l``, as processors have an instruction for.

    A product of bytes takes groups of ``G = 4`` and int32 sums, which wrap; one of int16 groups of 2; one of bfloat16 groups of 2 and
    float32 sums, which are rounded as if added in order by the interpreter. Instructions may round them otherwise: they add the
    products of a group in another order, and take numbers that are not normal for zero.

    Args:
        sums: one number for each lane.
        first: a group for each lane, or one group that is the same for all of them.
        second: a group for each lane, one behind the other.
    """
    return call("dot_accumulate", sums, first, second)


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
