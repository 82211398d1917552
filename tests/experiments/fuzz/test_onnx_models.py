"""Random ONNX models: valid, the same for a seed, of every family of operators; and what the oracle calls wrong."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from experiments.fuzz import onnx_oracle  # noqa: E402
from experiments.fuzz.children import judged_apart  # noqa: E402
from experiments.fuzz.kind import KINDS  # noqa: E402
from experiments.fuzz.onnx_models import Value, numbers, random_model  # noqa: E402
from ir.relax.frontend.onnx import exporter, supported_operators  # noqa: E402

OPTIONS = argparse.Namespace(size=5)


def test_a_seed_is_a_model_and_every_model_is_valid() -> None:
    for seed in range(60):
        made, again = random_model(seed), random_model(seed)
        assert made.model == again.model
        assert all(
            np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
            for a, b in zip(made.inputs.values(), again.inputs.values(), strict=True)
        )
        if made.outputs:
            onnx.checker.check_model(made.model, full_check=True)


def test_models_have_all_families_of_operators_that_import() -> None:
    used = {node.op_type for seed in range(800) for node in random_model(seed).model.graph.node}
    assert len(used) > 95
    assert used <= set(supported_operators()[""])


def test_inputs_have_nan_infinities_and_the_ends_of_integers() -> None:
    import random

    rng = random.Random(0)
    floats = np.concatenate([numbers(rng, "float32", (50,)) for _ in range(20)])
    integers = np.concatenate([numbers(rng, "int8", (50,)) for _ in range(20)])
    assert np.isnan(floats).any() and np.isposinf(floats).any() and np.isneginf(floats).any()
    assert (floats[floats == 0] * np.inf != 0).all() and {-128, 127} <= set(integers.tolist())


def test_the_oracle_says_what_is_wrong() -> None:
    exact, near = Value("y", "float32", (2,)), Value("y", "float32", (2,), exact=False)
    a, b = np.array([1.0, np.nan], "float32"), np.array([1.00001, np.nan], "float32")
    assert onnx_oracle._difference(exact, a, [a]) == ""
    assert "1 of 2 differ, at (0,) 1.00001" in onnx_oracle._difference(exact, b, [a])
    assert onnx_oracle._difference(near, b, [a]) == ""
    assert (
        onnx_oracle._difference(exact, a, [np.array([1.0, 3], "float32"), np.array([7, np.nan], "float32")])
        == ""
    )
    assert "expected float32(2,)" in onnx_oracle._difference(exact, a[:1], [a])


def test_some_models_are_right() -> None:
    kind = KINDS["onnx"]()
    verdicts = dict(judged_apart(range(24), lambda seed: kind.judge(seed, OPTIONS)))
    assert {seed: str(verdict) for seed, verdict in verdicts.items() if verdict.failed} == {}
    assert sum(verdict.kind == "ok" for verdict in verdicts.values()) > 18


@pytest.mark.slow
def test_a_hundred_models_are_right() -> None:
    kind = KINDS["onnx"]()
    verdicts = dict(judged_apart(range(5000, 5100), lambda seed: kind.judge(seed, OPTIONS)))
    assert {seed: str(verdict) for seed, verdict in verdicts.items() if verdict.failed} == {}


def test_what_a_seed_stands_for_is_shown() -> None:
    text = KINDS["onnx"]().show(3, OPTIONS)
    assert "random (" in text and "# x0 =" in text


def test_an_operator_that_the_exporter_mistakes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, options = KINDS["onnx-export"](), argparse.Namespace(size=2)
    seeds = range(200)
    assert not [seed for seed in seeds if kind.judge(seed, options).failed]
    for name in ("add", "multiply", "maximum", "where", "sum", "max"):
        monkeypatch.setitem(
            exporter._LOWERINGS, f"relax.{name}", lambda g, call: g.emit("Neg", g.tensor(call, 0))
        )
    assert any(verdict.kind == "wrong" for verdict in (kind.judge(seed, options) for seed in seeds))
