"""Integer solutions of linear equations within bounds, against trying all values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules import integer_feasibility
from schedules.integer_feasibility import Unknown, has_solution

COEFFICIENTS = st.sampled_from([0, 1, -1, 2, 3, -5, 7, 64])


@st.composite
def systems(draw: st.DrawFn) -> tuple[list[Unknown], list[int]]:
    constants = draw(st.lists(st.integers(-9, 9), max_size=3))
    unknowns = []
    for _ in range(draw(st.integers(0, 4))):
        low = draw(st.integers(-3, 2))
        row = tuple(draw(COEFFICIENTS) for _ in constants)
        unknowns.append(Unknown(row, low, low + draw(st.integers(-1, 4)), draw(st.booleans())))
    return unknowns, constants


def solved_by_trying(unknowns: Sequence[Unknown], constants: Sequence[int]) -> bool:
    return any(
        all(value or item.may_be_zero for item, value in zip(unknowns, values, strict=True))
        and all(
            sum(item.coefficients[row] * value for item, value in zip(unknowns, values, strict=True))
            == -constant
            for row, constant in enumerate(constants)
        )
        for values in itertools.product(*[range(item.low, item.high + 1) for item in unknowns])
    )


@settings(max_examples=600)
@given(systems())
def test_what_is_found_is_what_trying_finds(system: tuple[list[Unknown], list[int]]) -> None:
    assert has_solution(*system) is solved_by_trying(*system)


def test_large_bounds_take_no_time() -> None:
    """A matrix of 2**20 rows, tiles of 64: iterations that are apart never meet."""
    tiles = [Unknown((64,), -(1 << 20), 1 << 20, may_be_zero=False), Unknown((1,), -63, 63)]
    assert has_solution(tiles, [0]) is False
    assert has_solution([tiles[0], Unknown((1,), -64, 64)], [0]) is True


def test_a_search_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    knapsack = [Unknown((coefficient,), 0, 9) for coefficient in (1009, 1013, 1019, 1021, 1031, 1033)]
    monkeypatch.setattr(integer_feasibility, "_MOST_NODES", 3)
    assert has_solution(knapsack, [-30301]) is None


def test_a_search_that_is_given_up_ends() -> None:
    """Whatever values are left: an index that nothing but its dtype bounds has two thousand million."""
    wide = [Unknown((coefficient,), -(2**31), 2**31 - 1) for coefficient in (6, 10, 15)]
    far = [Unknown((coefficient,), 0, 2**31 - 1) for coefficient in (2**20 * 3, 2**20 * 5, 7)]
    assert has_solution(wide, [1]) in (True, None)
    assert has_solution(far, [-6]) in (False, None)
