"""Cook-Toom matrices compute filters exactly, whatever the points."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedules.cook_toom import Matrix, cook_toom


def applied(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


@given(st.data())
def test_any_points_give_the_filter_exactly(data: st.DataObject) -> None:
    tile, taps = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    n_points = tile + taps - 2
    points = data.draw(st.lists(st.integers(-4, 4), min_size=n_points, max_size=n_points, unique=True))
    numbers = st.integers(-9, 9).map(Fraction)
    inputs = data.draw(st.lists(numbers, min_size=tile + taps - 1, max_size=tile + taps - 1))
    weights = data.draw(st.lists(numbers, min_size=taps, max_size=taps))
    matrices = cook_toom(tile, taps, points)
    products = [
        a * b
        for a, b in zip(applied(matrices.inputs, inputs), applied(matrices.weights, weights), strict=True)
    ]
    expected = [sum(inputs[i + j] * weights[j] for j in range(taps)) for i in range(tile)]
    assert applied(matrices.outputs, products) == expected


def test_the_matrices_of_lavin_and_gray() -> None:
    """F(2, 3) as published, but for the order of rows and the sign of the last point."""
    found = cook_toom(2, 3, (0, 1, -1))
    half = Fraction(1, 2)
    assert set(found.weights) == {(1, 0, 0), (half, half, half), (half, -half, half), (0, 0, 1)}
    assert found.inputs == ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1))
    assert found.outputs == ((1, 1, 1, 0), (0, 1, -1, 1))


@pytest.mark.parametrize("points", [(0, 1), (0, 1, -1, 2), (0, 1, 1)])
def test_the_points_are_as_many_as_needed_and_different(points: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"F\(2, 3\) needs 3 different points"):
        cook_toom(2, 3, points)
