"""Cook-Toom matrices: how short filters are applied with fewer products, as exact fractions.

The outputs ``y[i] = sum over j of d[i + j] * g[j]`` of a filter with ``r`` taps are, ``m`` at a time, ``y = A^T ((G g) * (B^T d))`` with
one product per point of interpolation: ``m + r - 1`` of them in place of ``m * r``. (Winograd, Arithmetic Complexity of Computations,
1980; Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016.) A product of polynomials is evaluated at the points,
and interpolated; the same matrices, transposed, compute the sums above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Matrix = tuple[tuple[Fraction, ...], ...]
"""Rows."""


@dataclass(frozen=True)
class CookToom:
    """The matrices of F(m, r).

    Attributes:
        inputs: ``B^T``, alpha x alpha, of integers.
        weights: ``G``, alpha x r.
        outputs: ``A^T``, m x alpha, of integers.
    """

    inputs: Matrix
    weights: Matrix
    outputs: Matrix


def cook_toom(tile: int, taps: int, points: Sequence[int]) -> CookToom:
    """The matrices for ``tile`` outputs of a filter with ``taps`` taps, from ``tile + taps - 2`` integers; infinity is the last point.

    >>> [[int(item) for item in row] for row in cook_toom(2, 3, (0, 1, -1)).outputs]
    [[1, 1, 1, 0], [0, 1, -1, 1]]

    Raises:
        ValueError: the points are not so many, or two are equal.
    """
    if len(points) != tile + taps - 2 or len(set(points)) != len(points):
        raise ValueError(f"F({tile}, {taps}) needs {tile + taps - 2} different points, got {list(points)}")
    inputs, weights = [], []
    for point in points:
        others = [item for item in points if item != point]
        # the sign goes to the weights' side or the inputs': here to that which leaves the leading coefficient positive
        scale = Fraction(1)
        for item in others:
            scale *= point - item
        sign = 1 if scale > 0 else -1
        inputs.append(tuple(sign * item for item in (*_coefficients(others), Fraction(0))))
        weights.append(tuple(Fraction(point) ** power / abs(scale) for power in range(taps)))
    inputs.append(tuple(_coefficients(points)))
    weights.append(_unit(taps, taps - 1))
    outputs = [
        tuple(Fraction(point) ** power for point in points) + (Fraction(power == tile - 1),)
        for power in range(tile)
    ]
    return CookToom(tuple(inputs), tuple(weights), tuple(outputs))


def _coefficients(roots: Sequence[int]) -> list[Fraction]:
    """Of the polynomial with these roots and leading coefficient 1, constant first."""
    found = [Fraction(1)]
    for root in roots:
        longer = [Fraction(0), *found]
        for power, item in enumerate(found):
            longer[power] -= root * item
        found = longer
    return found


def _unit(length: int, place: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(position == place) for position in range(length))
