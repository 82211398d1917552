"""Whether a system of linear equations has an integer solution within bounds: the question of a dependence test.

The equations become one, by weights beyond what each can reach, and the search takes the greatest coefficients first: what is left must
then lie within the reach of the others and be a multiple of their common divisor (the tests of Banerjee and of the greatest common
divisor, at every node). For indices that number the elements of a tensor there is hardly anything to search.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_NODES = 4096


@dataclass(frozen=True)
class Unknown:
    """An integer from ``low`` to ``high``, with its coefficient in each equation."""

    coefficients: tuple[int, ...]
    low: int
    high: int
    may_be_zero: bool = True


def has_solution(unknowns: Sequence[Unknown], constants: Sequence[int]) -> bool | None:
    """Whether integers within their bounds make every equation ``sum(coefficient * unknown) + constant`` zero.

    Args:
        unknowns: each with as many coefficients as there are constants.
        constants: of the equations; without any there is a solution where bounds allow one.

    Returns:
        True or False; None where the search is given up.
    """
    if any(
        item.low > item.high or (item.low == item.high == 0 and not item.may_be_zero) for item in unknowns
    ):
        return False
    weights = _weights(unknowns, constants)
    flat = [(sum(c * w for c, w in zip(item.coefficients, weights, strict=True)), item) for item in unknowns]
    flat.sort(key=lambda pair: -abs(pair[0]))
    return _Search(flat).run(-sum(k * w for k, w in zip(constants, weights, strict=True)))


def _weights(unknowns: Sequence[Unknown], constants: Sequence[int]) -> list[int]:
    """Weights such that a weighted sum of the equations is zero only if each is."""
    weights, weight = [], 1
    for number, constant in enumerate(constants):
        weights.append(weight)
        reach = sum(abs(item.coefficients[number]) * max(abs(item.low), abs(item.high)) for item in unknowns)
        weight *= 2 * (reach + abs(constant)) + 1
    return weights


class _Search:
    """A search for values of unknowns whose weighted sum is a given number."""

    def __init__(self, unknowns: Sequence[tuple[int, Unknown]]) -> None:
        self._unknowns = unknowns
        self._nodes = 0
        low = high = divisor = 0
        self._rest = [(low, high, divisor)]
        """For each position the least and greatest sum of what comes behind it, and the common divisor there."""
        for coefficient, item in reversed(unknowns):
            ends = coefficient * item.low, coefficient * item.high
            low, high, divisor = low + min(ends), high + max(ends), math.gcd(divisor, coefficient)
            self._rest.append((low, high, divisor))
        self._rest.reverse()
        self._given_up = False
        self._failed: set[tuple[int, int]] = set()
        """Positions and targets from which nothing was found."""

    def run(self, target: int) -> bool | None:
        """Whether the sum can be the target; None where that took too long."""
        found = self._reaches(0, target)
        return None if self._given_up and not found else found

    def _reaches(self, position: int, target: int) -> bool:
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            self._given_up = True
        low, high, divisor = self._rest[position]
        if self._given_up or not low <= target <= high or (target % divisor if divisor else target):
            return False
        if position == len(self._unknowns):
            return True
        if (position, target) in self._failed:
            return False
        coefficient, item = self._unknowns[position]
        values = self._values(position, target)
        # Most unknowns are distances: two iterations meet first where nothing else moves.
        first = (0,) if 0 in values else ()
        for value in itertools.chain(first, values):
            if (value or item.may_be_zero) and self._reaches(position + 1, target - coefficient * value):
                return True
            if self._given_up:  # there may be two thousand million values left
                return False
        self._failed.add((position, target))
        return False

    def _values(self, position: int, target: int) -> range:
        """The values of an unknown behind which the others can reach what is left."""
        coefficient, item = self._unknowns[position]
        low, high, _ = self._rest[position + 1]
        if coefficient == 0:
            # all values are alike; one that is not zero is, if there is one
            start = item.low if item.low or item.high == 0 else item.high
            return range(start, start + 1)
        first, last = target - high, target - low
        if coefficient < 0:
            first, last, coefficient = -last, -first, -coefficient
        return range(max(item.low, -(-first // coefficient)), min(item.high, last // coefficient) + 1)
