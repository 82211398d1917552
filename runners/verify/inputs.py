"""Inputs of a kernel that are of one kind, and keep to what the kernel says of its parameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir import dtype as dt

from ..ndarray import aligned_empty, numpy_dtype
from .domains import Domain
from .facts import KernelFacts, Param
from .kinds import KINDS, Array, Kind, change_signs, negative, positive, random_numbers
from .repetitions import fill, place_of
from .rounding import format_of, most_telling

SEED = 0x5EED
PERIOD = 65_521
"""After so many elements inputs repeat: a prime, so that no two rows of a tensor are alike; drawing more takes longer than most
kernels."""
_MOST_POSITIONS = 1 << 18
"""Positions in longer tensors are drawn as integers of all magnitudes are, unless they must differ."""

_SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
_SMALL = 16
_MOST_DOUBLED = 16
"""Into so many rows along an axis NaN, or an infinity, is put twice."""
_MOST_CORNERS = 64
_TELLING = 2.0**-10
_FEW_SUMMED = 64
TINY = 8
"""Inputs of fewer integers hold other ones in each case, so that constants, zero and the ends all have their turn."""
_FEW_SLICES = 7
"""Of fewer slices none is only for ends."""
_MOST_OUTSTANDING = 8
"""At most one of so many numbers stands out."""
_MOST_DRAWN = 1 << 22
"""Of as many numbers that are reduced together few stand out; among more they repeat."""
_FEW = 256
"""Of fewer integers a third are ends that meet (:func:`_meet`), of more an eighth."""


def density(facts: KernelFacts) -> float:
    """Which part of small integers is not zero, so that the magnitudes of a sum of products stay where the dtype is exact.

    Products of two such numbers are 19 in the mean; a fourth of the limit leaves room for sums above the mean.
    """
    return min(1.0, math.sqrt(facts.narrow / 4 / (19.0 * facts.terms)))


def base_values(param: Param, kind: Kind, facts: KernelFacts, number: int) -> Array:
    """The first ``PERIOD`` elements of an input, of which the rest is a repetition; all of those that must differ, or stand out."""
    rng = np.random.default_rng([SEED, number, KINDS.index(kind) if kind in KINDS else len(KINDS)])
    count = math.prod(param.shape)
    differ = param.domain is not None and param.domain.distinct
    stand_out = (
        (kind.outstanding or kind.others is not None) and facts.terms > PERIOD // 8 and count <= _MOST_DRAWN
    )
    if not (differ or stand_out):
        count = min(count, PERIOD)
    if dt.is_bool(param.dtype):
        return _truths(param, kind, facts, rng, count, number)
    if dt.is_integral(param.dtype):
        return _integers_of(param, kind, facts, rng, count, number)
    dtype = numpy_dtype(param.dtype)
    if kind.end is not None and number == 0:
        return np.full(count, kind.end).astype(dtype)
    wide = np.empty(count, np.float64 if param.dtype == "float64" else np.float32)
    if _stands_out(param, kind, facts, number):
        _stand_out(wide, param, kind, facts, rng)
    else:
        kind.draw(wide, rng, param, max(number, 1) if kind.outstanding else number)
    if kind.seldom:
        reach = _reach(facts)
        wide[...] = rng.integers(-reach, reach, count, np.int64, endpoint=True)
    elif kind.exact:
        share = density(facts)
        if share < 1.0:
            wide[rng.random(count) >= share] = 0
        _fill_corners(wide, param.shape, rng)
    if (
        kind.others is not None
        and math.isfinite(facts.narrow)
        and count
        and math.prod(param.shape) >= facts.terms
    ):
        _thin_out(wide, kind.others, param, facts)
    largest = format_of(param.dtype).largest
    np.clip(wide, -largest, largest, out=wide)
    if kind.telling and (some := _telling(facts.constants, wide.dtype, param, kind.for_few_terms)).size:
        _strew(wide, some, count // (8 if facts.terms <= _FEW_SUMMED else 32), rng, number)
    if kind.small:
        _shrink(wide, param, facts, rng)
    if kind.near_nothing:
        _vanish(wide, param, facts)
    if facts.multiplied:
        _compress(wide, facts.terms, largest, kind.exact)
    if kind.special:
        # Few of them: a sum of a thousand terms should mostly be a number.
        places = max(int(_SPECIAL.size), count // max(7, 2 * facts.terms))
        _strew(wide, _SPECIAL, places, rng, number)
        if facts.extremes:
            _double(wide, param.shape, rng)
        if facts.terms > 1 and number == 0 and count > _MOST_OUTSTANDING:
            wide[_last(param.shape, count)] = np.nan
    return wide.astype(dtype)


def _truths(
    param: Param, kind: Kind, facts: KernelFacts, rng: np.random.Generator, count: int, number: int
) -> Array:
    """True as often as False; nearly always or nearly never where numbers are of one sign; nothing but one of them, or few others."""
    if kind.end is not None and number == 0:
        return np.full(count, kind.end > 0)
    if kind.outstanding and (not facts.chosen or param in facts.chosen):
        if kind.beside and facts.chosen and param is not facts.chosen[0]:
            return np.full(count, kind.outstanding > 0)
        values = np.full(count, kind.outstanding < 0)
        values[np.concatenate(_few_places(param, kind, facts, rng, count))] = kind.outstanding > 0
        return values
    if kind.draw in (positive, negative):
        return np.asarray((rng.integers(0, 64, count, np.int8) == 0) == (kind.draw is negative))
    return rng.integers(0, 2, count, dtype=np.int8).astype(np.bool_)


def _stands_out(param: Param, kind: Kind, facts: KernelFacts, number: int) -> bool:
    """Whether numbers of this input stand out, which is the first one where nothing is known to be chosen."""
    if not kind.outstanding:
        return False
    if not facts.chosen:
        return number == 0
    return any(param is item for item in facts.chosen[kind.place : kind.place + 1])


def _few_places(
    param: Param, kind: Kind, facts: KernelFacts, rng: np.random.Generator, count: int
) -> tuple[Array, Array]:
    """(Some places, about one for each reduction; the last element, and the first where there are several reductions).

    One is in each run of as many elements as are reduced together, which a row often is, at other places in it than in the runs before.
    What is reduced together with the first or last element, along whichever axes, has none of the others.
    """
    corners = np.array([_last(param.shape, count), 0][:count], np.int64)
    if kind.alone is not None:
        return corners[:0], corners[-1:] if kind.alone == 0 else corners[:1]
    several = count // max(facts.terms, _MOST_OUTSTANDING)
    if several < 2:
        return corners[:0], corners[:1]
    if count < math.prod(param.shape):  # they would repeat
        return corners[:0], corners
    length = count // several
    within = rng.permutation(length)
    some = np.arange(several) * length + within[np.arange(several) % length]
    inner = np.ones(several, np.bool_)
    for place, extent in zip(np.unravel_index(some, param.shape), param.shape):
        inner &= (extent == 1) | (place > 0) & (place < extent - 1)
    return some[inner], corners


def _last(shape: Sequence[int], count: int) -> int:
    """Where in base values the last element of an array comes from."""
    return int(place_of(math.prod(shape) - 1, max(count, 1)))


def _stand_out(wide: Array, param: Param, kind: Kind, facts: KernelFacts, rng: np.random.Generator) -> None:
    """Few numbers above all that the program compares with, or such a constant, and the others below; the other way round for lows.

    The first of the others is the least one: a minimum that leaves it out differs.
    """
    constants = np.array([item for item in facts.constants if _TELLING <= abs(item) <= 1 / _TELLING])
    scale = np.abs(constants).max(initial=1.0)
    some, corners = _few_places(param, kind, facts, rng, wide.size)
    wide[...] = (random_numbers(wide, rng) - 2) * scale
    wide[:1] = -3 * scale
    wide[some] = (random_numbers(wide[some], rng) + 2) * scale
    if constants.size:
        wide[some[::2]] = rng.choice(constants, some[::2].size) * kind.outstanding
    # Of what both are reduced to, in one step or several, the last one is chosen, also where sums are taken on the way.
    wide[corners] = (np.array([4, 3]) * scale * facts.terms)[: corners.size]
    wide *= kind.outstanding


def _few_ends(
    param: Param, kind: Kind, facts: KernelFacts, domain: Domain, rng: np.random.Generator, count: int
) -> Array:
    """Few integers about one end of a domain, or constants of the program, and the others about the other end, which one of them is."""
    wide = _holding(domain)
    most = min(3, (domain.high - domain.low) // 4)
    steps = rng.integers(min(1, most), most, count, np.int64, endpoint=True).astype(wide)
    steps[:1] = 0
    ends = np.array([domain.low, domain.high], wide)
    lows, highs = ends[0] + steps, ends[1] - steps
    values: Array = lows if kind.outstanding > 0 else highs
    others = highs if kind.outstanding > 0 else lows
    some, corners = _few_places(param, kind, facts, rng, count)
    values[some] = others[some]
    constants = _around(facts.constants, domain)
    if constants:
        values[some[::2]] = rng.choice(np.array(constants, wide), some[::2].size)
    values[corners] = ends[int(kind.outstanding > 0)]
    if corners.size > 1:
        values[corners[1]] -= np.array(kind.outstanding * min(1, most), np.int64).astype(wide)
    return values


def _holding(domain: Domain) -> np.dtype[Any]:
    """The dtype that draws the integers of a domain."""
    return np.dtype(np.int64 if domain.high < 1 << 63 else np.uint64)


def _fill_corners(wide: Array, shape: Sequence[int], rng: np.random.Generator) -> None:
    """Put numbers into the corners: the first and last terms of a sum along any axis are not all zero."""
    if 0 in shape:
        return
    ends = [sorted({0, extent - 1}) for extent in shape]
    for corner in itertools.islice(itertools.product(*ends), _MOST_CORNERS):
        flat = int(np.ravel_multi_index(corner, shape)) if shape else 0
        place = place_of(flat, wide.size)
        if wide[place] == 0:
            wide[place] = rng.integers(1, 9) * (1 - 2 * rng.integers(0, 2))


def _thin_out(wide: Array, other: float, param: Param, facts: KernelFacts) -> None:
    """Leave so few numbers as they are that each is more of a long sum than roundings, whatever axes that runs along.

    The first and last ones along each axis stay, as long as they are few: what a tail or a tile leaves out is among them. In inputs of
    one shape they have the same places, so that products of them stay.
    """
    kept = most_telling(1 / facts.narrow)
    terms = facts.terms if facts.terms > kept else max(param.shape, default=1)  # few if nobody knows how many
    thin = np.random.default_rng(SEED).random(wide.size) >= kept / terms
    size = math.prod(param.shape)
    for axis, extent in enumerate(param.shape):
        if extent > kept and 2 * (size // extent) <= wide.size * kept / terms:
            stride = math.prod(param.shape[axis + 1 :])
            rows = np.arange(size // (extent * stride))[:, None] * extent * stride
            first = (rows + np.arange(stride)).reshape(-1)
            for flat in (first, first + (extent - 1) * stride):
                thin[place_of(flat, wide.size)] = False
    thin[[0, _last(param.shape, wide.size)]] = False
    wide[thin] = other


def _telling(constants: Sequence[float], dtype: Any, param: Param, all_of_them: bool) -> Array:
    """Numbers at which a program that has these constants may do something else: they, their neighbours, and multiples.

    Beside those that stand for infinity or nothing, other numbers would tell no more. None is infinite: beside an infinity a sum may be
    that, or NaN where it overflows on the way.
    """
    chosen = [item for item in constants if all_of_them or _TELLING <= abs(item) <= 1 / _TELLING]
    some = np.array(chosen, dtype)
    with np.errstate(over="ignore", under="ignore"):
        beside = [np.nextafter(some, dtype.type(end)) for end in (-np.inf, np.inf)]
        multiples = [some * dtype.type(factor) for factor in (2, 3, 4, 5, 6, 7)]
        found = np.concatenate([some, *beside, -some, *multiples])
        finite: Array = found[np.isfinite(found.astype(numpy_dtype(param.dtype)))]
    return finite


def small_constants(facts: KernelFacts) -> list[float]:
    """Those that keep a program from dividing by nothing."""
    return [float(item) for item in facts.constants if 0 < item < _TELLING]


def _shrink(wide: Array, param: Param, facts: KernelFacts, rng: np.random.Generator) -> None:
    """Make every fourth slice as small as a small constant, or its root, since many are added to a mean of squares.

    The root of a variance plus a constant and the root of their sum differ only there. Slices are as large as four of them may be: the
    mean may be one of several axes.
    """
    sizes = (math.prod(param.shape[axis + 1 :]) for axis in range(len(param.shape)))
    size = next((size for size in sizes if wide.size >= 4 * size > 0), 0)
    scales = _in_range([scale for item in small_constants(facts) for scale in (math.sqrt(item), item)], param)
    if not scales or not size:
        return
    slices = wide[: wide.size // size * size].reshape(-1, size)[3::4]
    slices[...] = random_numbers(slices, rng) * 4 - 2
    _scale(slices, scales)


def _vanish(wide: Array, param: Param, facts: KernelFacts) -> None:
    """Make all rows so small: the mean may be one of everything, or there is one row only."""
    scales = [scale for item in small_constants(facts) for scale in (item / 16, math.sqrt(item))]
    length = max(param.shape[-1], 1) if param.shape else 1
    _scale(wide[: wide.size // length * length].reshape(-1, length), _in_range(scales, param))


def _in_range(scales: Sequence[float], param: Param) -> list[float]:
    """The numbers of which a dtype keeps all digits."""
    numbers = format_of(param.dtype)
    return [scale for scale in scales if scale > numbers.tiny / numbers.unit]


def _scale(rows: Array, scales: Sequence[float]) -> None:
    """Multiply the rows by one number after the other."""
    if scales:
        rows *= np.array(scales, rows.dtype)[np.arange(len(rows)) % len(scales), None]


def _compress(wide: Array, terms: int, largest: float, exact: bool) -> None:
    """Bring numbers of which products are taken so near to 1 that no product of some of them overflows or vanishes."""
    size = np.abs(wide[np.isfinite(wide) & (wide != 0)])
    bits = float(np.abs(np.log2(size)).max()) * terms / (0.9 * math.log2(largest)) if size.size else 0.0
    if bits > 1:
        near = np.sign(wide) if exact else np.sign(wide) * np.abs(wide) ** (1 / bits)
        np.copyto(wide, near, where=np.isfinite(wide))


def _strew(values: Array, some: Array, places: int, rng: np.random.Generator, number: int) -> None:
    """Put each of some values in so many places; where there are fewer, inputs begin with different ones."""
    where = rng.permutation(values.size)[:places]
    values[where] = some[(np.arange(where.size) + number) % some.size]


def _double(values: Array, shape: Sequence[int], rng: np.random.Generator) -> None:
    """Put NaN and infinities a second time into some of the rows along each axis that have one.

    Which of them is found first matters to an argmax only where there are two. No other rows, so that few sums lose their numbers; and
    no infinity beside a NaN, which hides it.
    """
    for axis, extent in enumerate(shape):
        stride = math.prod(shape[axis + 1 :])
        length = min(extent, values.size // max(stride, 1))
        if length < 2:
            continue
        rows = values[: values.size // (length * stride) * length * stride].reshape(-1, length, stride)
        missing = np.isnan(rows)
        clean = ~missing.any(axis=1, keepdims=True)
        for special, holds in (
            (np.nan, missing),
            (np.inf, clean & (rows == np.inf)),
            (-np.inf, clean & (rows == -np.inf)),
        ):
            found = rng.permutation(np.argwhere(holds.any(axis=1)))
            for outer, inner in found[: min(_MOST_DOUBLED, -(-len(found) // 4))]:
                row = rows[outer, :, inner]
                free = np.flatnonzero(np.isfinite(row))
                if free.size:
                    row[rng.choice(free)] = special


def _integers_of(
    param: Param, kind: Kind, facts: KernelFacts, rng: np.random.Generator, count: int, number: int
) -> Array:
    low, high = dt.integer_range(param.dtype)
    domain = param.domain or Domain(low, high)
    dtype = numpy_dtype(param.dtype)
    if domain.index and (domain.distinct or domain.high - domain.low < _MOST_POSITIONS):
        values = _positions(domain, kind, rng, count).astype(dtype)
    elif kind.end is not None and number == 0:
        values = np.full(count, domain.low if kind.end < 0 else domain.high, dtype)
    elif _stands_out(param, kind, facts, number):
        values = _few_ends(param, kind, facts, domain, rng, count).astype(dtype)
    elif kind.outstanding:
        middle = (domain.low + domain.high) // 2
        steps = rng.integers(0, min(4, domain.high - middle), count, np.int64, endpoint=True)
        values = (np.array(middle, _holding(domain)) + steps.astype(_holding(domain))).astype(dtype)
    elif kind.seldom:
        ends = max(domain.low, -_reach(facts)), min(domain.high, _reach(facts))
        values = rng.integers(min(ends), max(ends), count, np.int64, endpoint=True).astype(dtype)
    else:
        small = max(domain.low, -_SMALL), min(domain.high, _SMALL)
        if not kind.full_range and small[0] <= small[1]:
            values = rng.integers(*small, count, np.int64, endpoint=True)
            # Zero, and values that two inputs have at one place, among few elements too.
            tiny = (
                rng.integers(max(small[0], -1), min(small[1], 1), count, np.int64, endpoint=True)
                if small[0] <= 1
                else values
            )
            values = np.where(rng.integers(0, 2, count, np.int8) == 0, tiny, values).astype(dtype)
        else:
            values = _of_all_magnitudes(domain, facts.longest, rng, count).astype(dtype)
            _meet(values, domain, param.shape, number)
            some = _around(facts.constants, domain)
            if count < TINY:
                values = _in_turn(
                    domain, some, KINDS.index(kind) if kind in KINDS else 0, count, number
                ).astype(dtype)
            elif some:
                _strew(values, np.array(some, dtype), count // 16, rng, number)
    if facts.multiplied and kind.full_range and param.domain is None:
        # Of many that are multiplied two and more even ones leave no bits: each zero hides all others.
        alone = rng.integers(0, 2 * facts.terms, count) == 0
        odd = values.astype(_holding(domain)) | np.ones((), _holding(domain))
        values = np.where(alone, values, odd.astype(dtype))
    if not domain.zero:
        values[values == 0] = domain.low if domain.high < 1 else 1
    return values


def _reach(facts: KernelFacts) -> int:
    """Integers up to here, of either sign, seldom meet; their sums are no larger than those of small ones may be."""
    return max(2, min(facts.terms, 1 << 10))


def _positions(domain: Domain, kind: Kind, rng: np.random.Generator, count: int) -> Array:
    """Permutations of a domain, one of its ends among them.

    For one kind some stand several times, where that is no matter of order: far from each other and side by side.
    """
    size = domain.high - domain.low + 1
    order = [rng.permutation(size) for _ in range(-(-count // size))] or [np.zeros(0, np.int64)]
    values: Array = np.concatenate(order)[:count]
    if kind.exact and not domain.distinct and count > 1:
        once = values[: -(-count // (4 if count >= _SMALL else 2))]
        together = _side_by_side(size, rng, max(0, count - 2 * once.size))
        values = np.concatenate([once, once, together])[:count]
    end = (0, size - 1)[kind is KINDS[0]]
    if count and end not in values:
        values[int(rng.integers(count))] = end
    return values + domain.low


def _side_by_side(size: int, rng: np.random.Generator, count: int) -> Array:
    """Runs of equal positions, then positions of which nearly all are one: lanes of a vector that add to one element lose sums."""
    starts = rng.integers(0, size, -(-count // 4))
    runs = np.repeat(starts, rng.integers(2, 2 * _SMALL, starts.size))[: count // 2]
    others = rng.integers(0, size, count - count // 2)
    nearly_one = np.where(rng.integers(0, _SMALL, others.size) == 0, others, rng.integers(0, size))
    return np.concatenate([runs, nearly_one])


def _of_all_magnitudes(domain: Domain, longest: int, rng: np.random.Generator, count: int) -> Array:
    """Integers of a domain: any, with any number of bits, about the extents of tensors, and for sure its ends and those of zero."""
    wide = _holding(domain)
    values = rng.integers(domain.low, domain.high, count, wide, endpoint=True)
    bits = rng.integers(1, 64 if wide.kind == "i" else 65, count, np.int64)
    any_bits = rng.integers(0, (1 << 64) - 1, count, np.uint64, endpoint=True) >> (64 - bits).astype(
        np.uint64
    )
    others = [
        any_bits.astype(wide),
        rng.integers(0, longest + 1, count, np.int64, endpoint=True).astype(wide),
    ]
    if domain.low < 0:
        change_signs(others[0], rng)
    choice = rng.integers(0, 3, count, np.int8)
    for number, other in enumerate(others):
        np.copyto(values, other, where=(choice == number) & (other >= domain.low) & (other <= domain.high))
    ends = (0, domain.low, domain.high, -1, 1, domain.low + 1, domain.high - 1)
    edges = np.array(list(dict.fromkeys(end for end in ends if domain.low <= end <= domain.high)), wide)
    _strew(values, edges, max(edges.size, count // 32) if count >= 2 * edges.size else count // 2, rng, 0)
    return values


def _around(constants: Sequence[float], domain: Domain) -> list[int]:
    """The integers of a domain at which a program that has these constants may do something else."""
    whole = [value for value in constants if isinstance(value, int)]
    return [
        value + step for step in (0, 1, -1) for value in whole if domain.low <= value + step <= domain.high
    ]


def _in_turn(domain: Domain, some: Sequence[int], place: int, count: int, number: int) -> Array:
    """Few integers: those that tell most, of which each kind of inputs has other ones."""
    turns = [index for index, item in enumerate(KINDS) if item.full_range and item.end is None]
    turn = turns.index(place) if place in turns else place
    pool = [*some[:2], 0, domain.low, domain.high, -1, 1, *some[2:]]
    legal = np.array([item for item in pool if domain.low <= item <= domain.high], object)
    chosen: Array = legal[(turn + 3 * np.arange(count) + number) % legal.size]
    return chosen


def _meet(values: Array, domain: Domain, shape: Sequence[int], number: int) -> None:
    """Put the ends of a domain where other inputs have theirs: each combination of lows and highs stands at some of these places.

    A product that saturates is right everywhere else. The places are the same for all inputs, so that operands of one shape meet; an
    eighth of all, so that rows and columns that are multiplied meet as well. Along each axis one slice is all lows and one all highs:
    sums of a few products that saturate, or wrap in a narrow type, are right where only some of them are ends.
    """
    rng = np.random.default_rng(SEED)
    if values.size < _FEW:
        places = rng.permutation(values.size)[: values.size // 3]
    else:
        places = np.flatnonzero(rng.integers(0, 256, values.size, np.uint8) < 32)
    high = (np.arange(places.size) >> min(number, 30)) % 2 == 1
    ends = np.array([domain.low, domain.high], object).astype(values.dtype)
    values[places] = ends[high.astype(np.int64)]
    if len(shape) > 1:
        flat = np.arange(values.size)
        for axis, extent in enumerate(shape):
            if extent > _FEW_SLICES:
                slices = flat // math.prod(shape[axis + 1 :]) % extent
                for place, end in ((1 % extent, ends[0]), (extent - 2, ends[1])):
                    values[slices == place] = end


def same_bits(one: Array, other: Array) -> bool:
    """Whether two arrays of one dtype and layout hold the same, NaN and signs of zero included."""
    width = np.uint64 if one.nbytes % 8 == 0 else np.uint8
    return np.array_equal(one.reshape(-1).view(width), other.reshape(-1).view(width))


def make_value(param: Param, rng: np.random.Generator) -> Array:
    """Contents for one argument of a kernel that is timed and not checked."""
    value = aligned_empty(param.shape, param.dtype)
    facts = KernelFacts((param,), 1, math.inf, True)
    fill(value.reshape(-1), base_values(param, KINDS[1], facts, int(rng.integers(1 << 30))))
    return value


def poison(value: Array, which: int) -> None:
    """Fill an output before a call with what no result is: in one case NaN, in the other a large number; integers at either end, since a
    minimum does not show that it is taken of the largest one, too.
    """
    dtype = dt.from_numpy(value.dtype)
    if dt.is_bool(dtype):
        value[...] = which == 0
    elif dt.is_integral(dtype):
        low, high = dt.integer_range(dtype)
        value[...] = low + min(73, high) if which else high - 1
    else:
        value[...] = np.nan if which == 0 else 0.75 * min(format_of(dtype).largest, 1e30)
