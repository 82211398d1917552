"""Inputs of several kinds: each kind of mistake shows on one of them.

Small integers are summed exactly in any order; random numbers find what integers hide; large ones of either sign find clamps and
narrow intermediates; inputs that are all negative find a maximum that starts at zero; NaN and infinities find what is lost on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ndarray import aligned_empty, numpy_dtype
from .facts import KernelFacts, Param
from .rounding import format_of

Array = np.ndarray[Any, Any]

SEED = 0x5EED
PERIOD = 1_000_003
"""After so many elements inputs repeat: a prime, so that no two rows of a tensor are alike."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of inputs."""

    name: str
    draw: Callable[[Array, np.random.Generator, str, int], None]
    """Fill an array of floats (float32) for a dtype; the number counts the inputs."""
    exact: bool = False
    full_range: bool = True
    """Integers of all magnitudes; small ones otherwise."""
    special: bool = False
    """Some NaN and infinities are among the numbers."""


def _uniform(out: Array, rng: np.random.Generator, dtype: str, number: int) -> None:
    out[...] = rng.random(out.shape, np.float32) * np.float32(2) - np.float32(1)


def _spread(out: Array, rng: np.random.Generator, dtype: str, number: int) -> None:
    """Magnitudes from 2**-6 to 2**5, all equally likely."""
    out[...] = np.exp2(rng.random(out.shape, np.float32) * np.float32(11) - np.float32(6))
    np.negative(out, out=out, where=rng.integers(0, 2, out.shape, np.int8).astype(np.bool_))


def _positive(out: Array, rng: np.random.Generator, dtype: str, number: int) -> None:
    out[...] = rng.random(out.shape, np.float32) * np.float32(7.5) + np.float32(0.5)


def _negative(out: Array, rng: np.random.Generator, dtype: str, number: int) -> None:
    """The first input is all negative, the others are positive: so are sums of their products.

    So far below zero that their exponentials vanish: a softmax whose maximum starts at zero has nothing left.
    """
    if number == 0:
        out[...] = rng.random(out.shape, np.float32) * np.float32(-128) - np.float32(96)
    else:
        out[...] = rng.random(out.shape, np.float32) * np.float32(1.5) + np.float32(0.5)


def _integers(out: Array, rng: np.random.Generator, dtype: str, number: int) -> None:
    out[...] = rng.integers(-8, 9, out.shape)


KINDS = (
    Kind("small integers", _integers, exact=True, full_range=False),
    Kind("random numbers", _uniform),
    Kind("numbers of all magnitudes", _spread, full_range=False),
    Kind("negative numbers", _negative),
    Kind("positive numbers", _positive),
    Kind("numbers with NaN and infinities", _uniform, special=True),
)
"""In the order in which a candidate meets them."""

_SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
_SMALL = 16


def density(facts: KernelFacts) -> float:
    """Which part of small integers is not zero, so that the magnitudes of a sum of products stay where the dtype is exact.

    Products of two such numbers are 19 in the mean; a fourth of the limit leaves room for sums above the mean.
    """
    return min(1.0, math.sqrt(facts.narrow / 4 / (19.0 * facts.terms)))


def base_values(param: Param, kind: Kind, facts: KernelFacts, number: int) -> Array:
    """The first ``PERIOD`` elements of an input, of which the rest is a repetition."""
    rng = np.random.default_rng([SEED, number, KINDS.index(kind) if kind in KINDS else len(KINDS)])
    count = min(math.prod(param.shape), PERIOD)
    dtype = numpy_dtype(param.dtype)
    if param.domain is not None:
        return _in_domain(param, rng, count)
    if dtype == np.bool_:
        return rng.integers(0, 2, count, dtype=np.int8).astype(np.bool_)
    if dtype.kind in "iu":
        return _any_integers(dtype, rng, count, full_range=kind.full_range)
    if dtype.kind not in "fV" and not param.dtype.startswith(("bfloat", "float")):
        return rng.integers(0, 4, count).astype(dtype)  # integers of a few bits
    wide = np.empty(count, np.float32)
    kind.draw(wide, rng, param.dtype, number)
    if kind.exact:
        share = density(facts)
        if share < 1.0:
            wide[rng.random(count) >= share] = 0
    largest = np.float32(min(format_of(param.dtype).largest, 3e38))
    np.clip(wide, -largest, largest, out=wide)
    if kind.special:
        # Few of them: a sum of a thousand terms should mostly be a number.
        every = max(7, 2 * facts.terms)
        places = rng.integers(0, count, max(2, count // every))
        wide[places] = _SPECIAL[np.arange(places.size) % _SPECIAL.size]
    return wide.astype(dtype)


def _in_domain(param: Param, rng: np.random.Generator, count: int) -> Array:
    domain = param.domain
    assert domain is not None
    dtype = numpy_dtype(param.dtype)
    size = domain.high - domain.low + 1
    if domain.index and size <= PERIOD:
        order = [rng.permutation(size) for _ in range(-(-count // size))] or [np.zeros(0, np.int64)]
        values = (np.concatenate(order)[:count] + domain.low).astype(dtype)
    else:
        values = rng.integers(domain.low, domain.high, count, dtype=np.int64, endpoint=True).astype(dtype)
    if not domain.zero:
        values[values == 0] = 1
    return values


def _any_integers(dtype: np.dtype[Any], rng: np.random.Generator, count: int, *, full_range: bool) -> Array:
    info = np.iinfo(dtype)
    if full_range:
        return rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    low = max(info.min, -_SMALL)
    return rng.integers(low, _SMALL, count, dtype=dtype, endpoint=True)


def fill(flat: Array, base: Array) -> None:
    """Repeat the base values to the end of an array."""
    for start in range(0, flat.size, max(base.size, 1)):
        part = flat[start : start + base.size]
        part[...] = base[: part.size]


def changed(flat: Array, base: Array) -> int | None:
    """The first element that is no longer what :func:`fill` put there, compared by bits."""
    width = f"u{flat.dtype.itemsize}"
    for start in range(0, flat.size, max(base.size, 1)):
        part = flat[start : start + base.size].view(width)
        same = part == base[: part.size].view(width)
        if not same.all():
            return start + int(np.argmin(same))
    return None


def make_value(param: Param, rng: np.random.Generator) -> Array:
    """Contents for one argument of a kernel that is timed and not checked."""
    value = aligned_empty(param.shape, param.dtype)
    facts = KernelFacts((param,), 1, math.inf, True)
    fill(value.reshape(-1), base_values(param, KINDS[1], facts, int(rng.integers(1 << 30))))
    return value


def poison(value: Array, which: int) -> None:
    """Fill an output before a call with what no result is: in one case NaN, in the other a large number."""
    if value.dtype.kind in "iu":
        value[...] = np.iinfo(value.dtype).max - 1 - 73 * which
    elif value.dtype.kind == "b":
        value[...] = which == 0
    else:
        value[...] = np.nan if which == 0 else 0.75 * min(format_of(value.dtype.name).largest, 1e30)
