"""Decisions as Optuna's parameters: every row comes back, and numbers in between mean the nearest row."""

from __future__ import annotations

import math

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.population import Sketch, SketchSchedule
from tests.programs.expressions import conv2d, matmul, softmax
from tuner import TuneContext
from tuner.search.optuna_space import Encoding, SketchSpace, StructureSpace, readable, unique_names

ENCODINGS = {
    "whole": Encoding(),
    "mixed": Encoding(whole_up_to=16),
    "numbers": Encoding(whole_up_to=0),
    "numbers only": Encoding(whole_up_to=0, categories=False),
}


def _with_categories() -> Sketch:
    sch = SketchSchedule(matmul(32), seed=0)
    block = sch.get_block("C")
    i, _, _ = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, 3))
    sch.annotate(block, "pragma_auto_unroll_max_step", sch.sample_categorical([0, 16, 64, 64], [0.25] * 4))
    return Sketch(sch, "made by hand")


def _sketches() -> list[Sketch]:
    made = [
        sketch for func in (matmul(48), conv2d(), softmax()) for sketch in TuneContext(func, "cpu").sketches()
    ]
    return [*made, _with_categories()]


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_every_row_comes_back(encoding: Encoding) -> None:
    for sketch in _sketches():
        space = SketchSpace(sketch, encoding)
        sizes = [decision.size for decision in sketch.decisions]
        for column, size in enumerate(sizes):  # every choice of every decision, the others as drawn
            rows = np.random.default_rng(0).integers(sizes, size=(size, len(sizes)))
            rows[:, column] = np.arange(size)
            for row in rows:
                params = space.params(row)
                assert params.keys() == space.distributions.keys()
                for name, value in params.items():
                    distribution = space.distributions[name]
                    assert distribution._contains(distribution.to_internal_repr(value))
                assert space.row(params).tolist() == row.tolist()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3))
def test_numbers_between_rows_mean_the_nearest(places: list[float]) -> None:
    (sketch, *_) = TuneContext(matmul(96), "cpu").sketches()
    space = SketchSpace(sketch, ENCODINGS["numbers"])
    tile = sketch.decisions[0]
    params = space.params(np.zeros(sketch.n_columns, dtype=np.int64))
    for place, share in zip((1, 2, 3), places, strict=True):
        bounds = space.distributions[f"i_{place}"]
        params[f"i_{place}"] = bounds.low * (bounds.high / bounds.low) ** share
    wanted = [math.log2(params[f"i_{place}"]) for place in (1, 2, 3)]
    wanted.insert(0, math.log2(96) - sum(wanted))
    distance = [
        sum((math.log2(f) - w) ** 2 for f, w in zip(row, wanted, strict=True)) for row in tile.table.tolist()
    ]
    assert distance[space.row(params)[0]] == pytest.approx(min(distance))


def test_a_structure_has_parameters_of_its_own() -> None:
    sketches = TuneContext(softmax(), "cpu").sketches()
    space = StructureSpace(sketches, ENCODINGS["whole"])
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    seen = set()
    for _ in range(20):
        trial = study.ask()
        number, row = space.suggest(trial)
        assert trial.params == space.params(number, row)
        assert trial.distributions == space.distributions(number)
        assert all(name == "sketch" or name.startswith(f"{trial.params['sketch']}.") for name in trial.params)
        seen.add(number)
    assert seen == set(range(len(sketches)))


def test_people_read_factors_and_chosen_values() -> None:
    sketch = _with_categories()
    row = np.array([sketch.decisions[0].number_of([4, 2, 4]), 2])
    params, distributions = readable(sketch, row, "sketch0")
    assert params == {"sketch0.i_0": 4, "sketch0.i_1": 2, "sketch0.i_2": 4, "sketch0.choice1": "64"}
    assert params.keys() == distributions.keys()
    again, same = readable(sketch, row * 0, "sketch0")
    assert same == distributions and again != params  # Optuna refuses a parameter whose distribution changes


def test_names_that_repeat_are_numbered() -> None:
    assert unique_names(["k", "k", "i", "k"]) == ["k", "k#2", "i", "k#3"]
