"""What is measured in place of an invalid or a known row."""

from __future__ import annotations

import numpy as np

from tests.programs.expressions import matmul, row_sum
from tuner import TuneContext
from tuner.search.nearest_row import distances, nearest_new_row


def test_of_a_small_structure_it_is_the_nearest_of_all() -> None:
    (sketch,) = TuneContext(row_sum(), "cpu").sketches()
    everything = sketch.all_rows(1000)
    assert everything is not None
    known: set[bytes] = set()
    generator = np.random.default_rng(0)
    found = []
    for _ in range(len(everything)):
        row = nearest_new_row(sketch, everything[0], known, generator)
        assert row is not None
        known.add(row.tobytes())
        found.append(float(distances(sketch, everything[0], row[None])[0]))
    assert found[0] == 0 and found == sorted(found)
    assert nearest_new_row(sketch, everything[0], known, generator) is None


def test_of_a_large_structure_it_is_valid_and_near() -> None:
    (sketch, *_) = TuneContext(matmul(512), "cpu").sketches()
    assert sketch.all_rows(4096) is None
    generator = np.random.default_rng(1)
    rows = np.stack([decision.draw(200, generator) for decision in sketch.decisions], axis=1)
    invalid = rows[~sketch.valid(rows)]
    assert len(invalid) > 20
    apart = []
    for row in invalid:
        near = nearest_new_row(sketch, row, set(), generator)
        assert near is not None and sketch.valid(near[None])[0]
        apart.append(float(distances(sketch, row, near[None])[0]))
    anywhere = distances(sketch, invalid[0], sketch.sample(200, generator))
    assert np.median(apart) < np.quantile(anywhere, 0.1)


def test_known_rows_are_left_out() -> None:
    (sketch, *_) = TuneContext(matmul(512), "cpu").sketches()
    generator = np.random.default_rng(2)
    begin = sketch.sample(1, generator)[0]
    known = {begin.tobytes()}
    for _ in range(100):
        row = nearest_new_row(sketch, begin, known, generator)
        assert row is not None and row.tobytes() not in known
        known.add(row.tobytes())


def test_a_row_is_as_far_as_it_is_for_the_diversity_of_a_batch() -> None:
    (sketch, *_) = TuneContext(matmul(64), "cpu").sketches()
    tile = sketch.decisions[0]
    row = np.array([tile.number_of([16, 2, 1, 2]), 0, 0])
    other = np.array([tile.number_of([4, 2, 4, 2]), 0, 0])
    rows = np.stack([row, other, *sketch.sample(5, np.random.default_rng(0))])
    found = distances(sketch, row, rows)
    assert found[0] == 0.0
    np.testing.assert_allclose(found[1], np.hypot(2, 2))
    places = sketch.coordinates(rows)
    np.testing.assert_allclose(found, [np.linalg.norm(place - places[0]) for place in places])
