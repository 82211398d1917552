"""Random weights: deviations by what a parameter is, the same for the same seed and position."""

from __future__ import annotations

import math

import numpy as np

from ir.relax.frontend import nn
from tuner.zoo.weights import random_weights


def params() -> list[tuple[str, nn.Parameter]]:
    made = {
        name: nn.Parameter(shape, "float32")
        for name, shape in (
            ("matrix", (300, 200)),
            ("table", (300, 200)),
            ("scale", (2000,)),
            ("offset", (2000,)),
        )
    }
    made["table"].attrs["table"] = True
    made["scale"].attrs["scale"] = True
    return list(made.items())


def test_deviations_keep_activations_in_range() -> None:
    made = random_weights(params(), 0)
    deviations = {name: float(values.std()) for name, values in made.items()}
    assert math.isclose(deviations["matrix"], math.sqrt(2 / 200), rel_tol=0.02)
    assert math.isclose(deviations["table"], 0.02, rel_tol=0.02)
    assert math.isclose(deviations["offset"], 0.1, rel_tol=0.05)
    assert 0.5 <= made["scale"].min() < 0.51 and 1.49 < made["scale"].max() <= 1.5


def test_a_seed_gives_the_same_weights_and_binds_them() -> None:
    named = params()
    first, again, other = random_weights(named, 1), random_weights(params(), 1), random_weights(params(), 2)
    for name, param in named:
        assert param.data is not None
        np.testing.assert_array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])
