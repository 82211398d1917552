"""The kinds of inputs: each kind of mistake shows on one of them.

Small integers are summed exactly in any order; random numbers find what integers hide; large ones of either sign find clamps and
narrow intermediates; inputs that are all negative find a maximum that starts at zero; NaN and infinities find what is lost on the way;
nothing but infinities finds a maximum that starts at a finite number; every exponent finds what is right for common numbers only;
few that stand out find a maximum, or an "any", that leaves out a term, which hardly ever is the one that counts; few that are all
that a long sum is made of find a sum that leaves out some.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .facts import Param
from .rounding import format_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of inputs."""

    name: str
    draw: Callable[[Array, np.random.Generator, Param, int], None]
    """Fill the begin of a parameter of floats (float64 for that dtype, else float32); the number counts the inputs."""
    exact: bool = False
    full_range: bool = True
    """Integers of all magnitudes; small ones otherwise."""
    special: bool = False
    """Some NaN and infinities are among the numbers."""
    end: float | None = None
    """The first input of floats is nothing but this infinity, the first one of integers nothing but that end of its type."""
    telling: bool = False
    """The constants of the program are among the numbers."""
    small: bool = False
    """Some slices are so small that small constants of the program count beside them."""
    for_few_terms: bool = False
    """Tells something only where no long sum overflows, and no product on the way to one that does not."""
    near_nothing: bool = False
    """All numbers are so small that small constants of the program count beside whatever they are summed up to."""
    outstanding: int = 0
    """Few numbers of one input are far above all others (1), or below them (-1); bools are True, or False, in all that is chosen from.

    Numbers of other inputs lie in between, and are positive where they may be: products and comparisons with them stand out as well.
    """
    place: int = 0
    """Which input that is, of those that the program chooses from."""
    alone: int | None = None
    """The only number that stands out: the first one (0) or the last one (-1)."""
    beside: bool = False
    """Bools of other inputs are True where large numbers stand out, False where low ones do: what is asked of both at once stands out."""
    seldom: bool = False
    """About one pair of as many numbers as are reduced together is equal: whether any, or none, of them is, has either answer."""

    others: float | None = None
    """All numbers are this one but few, of which long sums are made then, where it makes next to nothing of a term."""


def random_numbers(out: Array, rng: np.random.Generator) -> Array:
    """Numbers from 0 to 1 in the dtype of ``out``."""
    return np.asarray(rng.random(out.shape, np.float64 if out.dtype == np.float64 else np.float32))


def change_signs(out: Array, rng: np.random.Generator) -> None:
    np.negative(out, out=out, where=rng.integers(0, 2, out.shape, np.int8).astype(np.bool_))


def _rows(out: Array, param: Param) -> Array:
    """Which row of the parameter each element is in."""
    length = max(param.shape[-1], 1) if param.shape else 1
    return (np.arange(out.size) // length).astype(np.float32)


def _uniform(out: Array, rng: np.random.Generator, param: Param, number: int) -> None:
    out[...] = random_numbers(out, rng) * 2 - 1


def _spread(out: Array, rng: np.random.Generator, param: Param, number: int) -> None:
    """Magnitudes from 2**-6 to 2**5, all equally likely, and down to 2**-18 in some rows: beside them a small constant counts."""
    out[...] = np.exp2(random_numbers(out, rng) * 11 - 6 - _rows(out, param) % 4 * 4)
    change_signs(out, rng)


def _every_exponent(out: Array, rng: np.random.Generator, param: Param, number: int) -> None:
    """A half from the least subnormal number to the largest one, a quarter from 2**-8 to 2**8, a quarter multiples of 1/8: ties."""
    numbers = format_of(param.dtype)
    low, high = math.frexp(numbers.tiny)[1] - 1, math.frexp(numbers.largest)[1] - 1
    everywhere = rng.integers(low, high, out.shape, np.int64, endpoint=True)
    near = rng.integers(max(-8, low), min(8, high), out.shape, np.int64, endpoint=True)
    choice = rng.integers(0, 4, out.shape, np.int8)
    exponents = np.where(choice < 2, everywhere, near)
    out[...] = np.ldexp(1.0 + random_numbers(out, rng).astype(np.float64), exponents)
    np.copyto(
        out, rng.integers(0, 64, out.shape).astype(np.float64) / 8, where=choice == 3, casting="same_kind"
    )
    change_signs(out, rng)


def positive(out: Array, rng: np.random.Generator, param: Param, number: int) -> None:
    """In every other row one is far above the rest, the last one in every fourth: exponentials overflow where a maximum leaves it out."""
    out[...] = random_numbers(out, rng) * 7.5 + 0.5
    length = max(param.shape[-1], 1) if param.shape else 1
    if length > 1:
        rows = np.arange(1, out.size // length, 2)
        places = np.where(rows % 4 == 1, length - 1, rng.integers(0, length, rows.size))
        out[rows * length + places] = 256


def negative(out: Array, rng: np.random.Generator, param: Param, number: int) -> None:
    """The first input is all negative, the others are positive: so are sums of their products.

    So far below zero that their exponentials vanish: a softmax whose maximum starts at zero has nothing left. From row to row they
    come nearer, by a fourth of an octave each: where the exponent is a sum of products of them, this shows in some row, in which
    it is not yet so large that a narrow dtype tells nothing about it. Every third row lies below what people write for infinity.
    """
    if number == 0:
        rows = _rows(out, param)
        out[...] = (random_numbers(out, rng) * -128 - 96) * np.exp2(rows % 32 * np.float32(-0.25))
        out[rows % 3 == 1] *= 512
    else:
        out[...] = random_numbers(out, rng) * 1.5 + 0.5


def _near_one(out: Array, rng: np.random.Generator, param: Param, number: int) -> None:
    out[...] = random_numbers(out, rng) + 0.75


def _integers(out: Array, rng: np.random.Generator, param: Param, number: int) -> None:
    out[...] = rng.integers(-8, 9, out.shape)


KINDS = (
    Kind("small integers", _integers, exact=True, full_range=False),
    Kind("random numbers", _uniform, telling=True),
    Kind("numbers with NaN and infinities", _uniform, special=True),
    Kind("positive numbers", positive),
    Kind("negative numbers", negative),
    Kind("numbers of all magnitudes", _spread, full_range=False, telling=True, small=True),
    Kind("nothing but -infinity", positive, end=-math.inf),
    Kind("nothing but infinity", positive, end=math.inf),
    Kind("numbers of every exponent", _every_exponent, telling=True, for_few_terms=True),
    Kind("few large numbers", negative, outstanding=1),
    Kind("few low numbers", negative, outstanding=-1),
    Kind("numbers near nothing", _uniform, near_nothing=True),
    Kind("a large first number", negative, outstanding=1, alone=0),
    Kind("a low first number", negative, outstanding=-1, alone=0),
    Kind("True at the end only", negative, outstanding=1, alone=-1),
    Kind("False at the end only", negative, outstanding=-1, alone=-1),
    *(
        Kind(f"{what} in {where}", negative, outstanding=sign, place=place, alone=alone)
        for place, where in ((1, "a second input"), (2, "a third input"))
        for what, sign, alone in (
            ("few large numbers", 1, None),
            ("few low numbers", -1, None),
            ("a large first number", 1, 0),
            ("a low first number", -1, 0),
        )
    ),
    Kind("few large numbers beside True", negative, outstanding=1, beside=True),
    Kind("few low numbers beside False", negative, outstanding=-1, beside=True),
    Kind("numbers that seldom meet", _integers, exact=True, full_range=False, seldom=True),
    Kind("few numbers among zeros", _near_one, full_range=False, others=0.0),
    Kind("few numbers above all others", _near_one, full_range=False, others=-10_000.0),
)
"""In the order in which a candidate meets them; where memory or time is short, those at the end are left out."""
