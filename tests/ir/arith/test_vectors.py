"""Random vectors: each lane of what simplification makes of them is what the lane was, in Python's integers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ir import dtype as dt
from ir import tir
from ir.arith.const_int_bound import NEG_INF

from .meaning import INDEX, Undefined, is_index, value_of
from .random_expressions import TYPES
from .random_vectors import LANES, VectorGenerator, lane_of
from .test_meaning import POSITIONS, knowing_ranges, same


def some_vector(generator: VectorGenerator, position: str) -> Any:
    random = generator.random
    with_data = random.random() < (0.8 if position == "data" else 0.4)
    if position == "condition" or (position == "data" and random.random() < 0.4):
        return generator.mask(3, with_data)
    return generator.vector(3, random.choice(TYPES if position == "data" else INDEX), with_data)


def check_vectors(seed: int, count: int) -> int:
    """How many lanes were compared."""
    generator = VectorGenerator(Random(seed))
    random, compared = generator.random, 0
    for _ in range(count):
        position = random.choice(list(POSITIONS))
        expr = some_vector(generator, position)
        analyzer, bounds = knowing_ranges(generator)
        known = generator.condition(1, random.random() < 0.5) if random.random() < 0.35 else tir.const(True)
        with analyzer.constraint_scope(known):
            found = POSITIONS[position](analyzer)(expr)
            is_true = position == "condition" and analyzer.can_prove(expr)
            bounds_of = (
                None if dt.element_of(expr.dtype) in ("bool", "float32") else analyzer.const_int_bound(expr)
            )
        assert found.dtype == expr.dtype, (expr, found)
        lanes = [(lane_of(expr, lane), lane_of(found, lane)) for lane in range(LANES)]
        in_data = position == "data" or (
            position not in ("index", "condition") and not is_index(lanes[0][0], frozenset())
        )
        for _ in range(8):
            values = generator.values(bounds)
            try:
                if not value_of(known, values, False):
                    continue
                expected = [value_of(before, values, in_data) for before, _ in lanes]
            except Undefined:
                continue
            try:
                got = [value_of(after, values, in_data) for _, after in lanes]
            except Undefined as problem:
                # Numbers of ℤ may be ordered otherwise, and then overflow in between: they are computed in 64 bits.
                assert "overflow" in str(problem), (expr, found, known, problem)
                continue
            assert all(map(same, got, expected)), (
                f"{position}: {expr} became {found} under {known}: {got}, not {expected}"
            )
            assert all(expected) or not is_true, f"{expr} is no truth under {known}: {expected}"
            if bounds_of is not None and not in_data:
                low, high = bounds_of.min_value, bounds_of.max_value
                assert all(low <= value <= high or low == NEG_INF > value for value in expected), (
                    f"{expr} under {known} is {expected}, not in [{low}, {high}]"
                )
            compared += LANES
    return compared


@pytest.mark.parametrize("seed", range(4))
def test_simplified_vectors(seed: int) -> None:
    assert check_vectors(seed, 150) > 800


@pytest.mark.slow
def test_many_simplified_vectors() -> None:
    check_vectors(100, 1200)
