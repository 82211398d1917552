"""Decision space: where candidates lie, which are neighbours, and which comes closest to a candidate of another workload."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule
from ir.target import Target
from schedules.population import CategoricalDecision, Sketch, TileDecision
from schedules.space import PostOrderApply
from tests.programs.expressions import matmul, softmax

TARGET = Target("llvm -mcpu=znver3 -num-cores 1")


def sketches(func: object) -> list[Sketch]:
    return PostOrderApply().generate_sketches(IRModule({"main": func}), TARGET)


def test_distances_count_doublings_and_other_choices() -> None:
    tile = TileDecision.create("i", 64, 2, 64)
    places = tile.coordinates()
    first, second = tile.number_of([16, 4]), tile.number_of([4, 16])
    assert np.linalg.norm(places[first] - places[second]) == pytest.approx(np.sqrt(8))
    choice = CategoricalDecision.create("unroll", [0, 16, 64], [1, 1, 1])
    assert np.linalg.norm(choice.coordinates()[0] - choice.coordinates()[2]) == pytest.approx(1)


def test_the_nearest_tile_keeps_what_lies_inside() -> None:
    tile = TileDecision.create("i", 96, 3, 64)
    (closest,) = tile.nearest([4, 2, 16], [], 1)
    assert tile.trace_decision(closest) == [3, 2, 16]
    (closest,) = tile.nearest([1, 1, 64], [], 1)
    assert tile.trace_decision(closest) == [2, 1, 48]  # log2(64 / 48) is less than log2(64 / 32)
    assert len(tile.nearest([4, 2, 16], [], 5)) == 5 and len(tile.nearest([4, 4], [], 5)) == 0


def test_the_nearest_choice_is_that_of_the_nearest_integer() -> None:
    choice = CategoricalDecision.create("unroll", [0, 16, 64], [1, 1, 1])
    assert list(choice.nearest(1, [[0, 50], [0.5, 0.5]], 2)) == [2, 1]
    assert len(choice.nearest(7, [[0, 50], [0.5, 0.5]], 2)) == 0


@pytest.mark.parametrize(
    ("extent", "tile", "near"),
    [
        (64, [8, 8], [[4, 16], [16, 4]]),
        (64, [64, 1], [[32, 2]]),
        (12, [6, 2], [[3, 4], [2, 6], [12, 1]]),
        (35, [5, 7], [[1, 35], [35, 1]]),
        (7, [7, 1], [[1, 7]]),
        (8, [2, 2, 2], [[1, 4, 2], [1, 2, 4], [4, 1, 2], [2, 1, 4], [4, 2, 1], [2, 4, 1]]),
        (1, [1, 1], []),
    ],
)
def test_a_neighbour_of_a_tile_has_one_prime_factor_moved(
    extent: int, tile: list[int], near: list[list[int]]
) -> None:
    decision = TileDecision.create("i", extent, len(tile), extent)
    number = decision.number_of(tile)
    assert number is not None
    found = [decision.trace_decision(item) for item in decision.near(number)]
    assert sorted(found) == sorted(near)
    drawn = decision.neighbours(np.full(200, number), np.random.default_rng(0))
    assert {*drawn} == ({*decision.near(number)} or {number})


def test_a_tile_that_is_alone_among_those_allowed_is_replaced_by_any() -> None:
    decision = TileDecision.create("i", 64, 2, 64).restricted(lambda table: np.isin(table[:, 1], [1, 8, 64]))
    number = decision.number_of([8, 8])
    assert number is not None and len(decision.near(number)) == 0
    assert {*decision.neighbours(np.full(200, number), np.random.default_rng(0))} == {0, 1, 2}


def test_neighbours_differ_in_one_decision_and_are_valid() -> None:
    for sketch in sketches(matmul(48)):
        row = sketch.sample(1, np.random.default_rng(1))[0]
        near = sketch.neighbours(row)
        assert len(near) and sketch.valid(near).all()
        assert ((near != row).sum(axis=1) == 1).all()
        assert len(np.unique(near, axis=0)) == len(near)


def test_all_rows_are_the_valid_ones_each_once() -> None:
    (sketch, *_) = sketches(softmax(16, 64))
    rows = sketch.all_rows(sketch.size())
    assert rows is not None and sketch.valid(rows).all()
    assert len(np.unique(rows, axis=0)) == len(rows) == sketch.size()
    assert sketch.all_rows(sketch.size() - 1) is None


def test_a_trace_of_its_own_is_adapted_to_itself() -> None:
    for sketch in sketches(matmul(64)):
        for row in sketch.sample(5, np.random.default_rng(2)):
            np.testing.assert_array_equal(sketch.adapted_row(sketch.trace_of(row)), row)


def test_traces_of_other_extents_are_adapted_and_of_other_programs_are_not() -> None:
    ours, theirs = sketches(matmul(96)), sketches(matmul(64))
    for mine, other in zip(ours, theirs, strict=True):
        for row in other.sample(5, np.random.default_rng(3)):
            trace = other.trace_of(row)
            assert mine.row_of(trace) is None
            adapted = mine.adapted_row(trace)
            assert adapted is not None and mine.valid(adapted[None])[0]
            for place, (own, foreign) in enumerate(zip(mine.decisions, other.decisions, strict=True)):
                if isinstance(own, TileDecision):
                    inner = own.table[adapted[place]][1:], foreign.table[row[place]][1:]
                    assert np.abs(np.log2(inner[0] / inner[1])).max() < 2.01
    alien = sketches(softmax(16, 64))[0]
    assert ours[0].adapted_row(alien.trace_of(alien.sample(1, np.random.default_rng(0))[0])) is None
