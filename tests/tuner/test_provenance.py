"""What libraries tell of where they come from."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import runners
from tests.tuner.locked_model import model
from tuner import compile_relax
from tuner.provenance import model_hash


def test_a_model_is_named_by_its_structure_and_its_weights() -> None:
    weights = {"w": np.ones((2, 3), "float32"), "b": np.zeros(0, "float32")}
    known = model_hash(model(), weights)
    assert known == model_hash(model(), dict(reversed(weights.items()))) and len(known) == 64
    others = [
        model_hash(model(9), weights),
        model_hash(model()),
        model_hash(model(), {**weights, "w": np.ones((3, 2), "float32")}),
        model_hash(model(), {**weights, "w": np.full((2, 3), 2, "float32")}),
        model_hash(model(), {**weights, "w": np.ones((2, 3), "int32")}),
    ]
    assert len({known, *others}) == 6


@pytest.mark.parametrize(
    "value",
    [
        runners.array(np.ones(3, "float32")),
        np.ones((2, 2), "float32").T,
        np.float32(1),
        np.ones(4, ml_dtypes.bfloat16),
    ],
)
def test_weights_of_every_kind_are_hashed(value: object) -> None:
    assert len(model_hash(model(), {"w": value})) == 64


def test_an_executable_has_it_before_it_is_written() -> None:
    told = compile_relax(model(), about={"name": "net", "licence": "MIT"}).metadata["provenance"]
    assert told["model"]["name"] == "net" and told["licences"] == {"runtime": "Apache-2.0", "model": "MIT"}
    assert [kernel["source"] for kernel in told["kernels"]] == ["default", "default"] and told["lock"] is None
