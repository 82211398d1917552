"""Sampling: the documents' examples, and random distributions against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir.relax.frontend import nn
from ir.relax.frontend.nn import op, spec
from ir.relax.testing import evaluate
from tests.ir.relax.frontend.operators import op_names


def export(function: Any, *arrays: np.ndarray) -> Any:
    module = nn.Module()
    names = [f"x{i}" for i in range(len(arrays))]
    specs = [spec.Tensor(list(array.shape), array.dtype.name) for array in arrays]
    method = spec.MethodSpec(lambda **named: function(*named.values()), names, specs)
    return module.export_tvm(spec=spec.ModuleSpec(module, ["test"], [method]))[0]


def run(function: Any, *arrays: np.ndarray) -> np.ndarray:
    return evaluate(export(function, *arrays), *arrays, name="test")


def f32(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def test_multinomial_example() -> None:
    prob, usample = f32([[0.2, 0.3, 0.5], [0.3, 0.4, 0.3]]), f32([[0.4], [0.9]])
    indices = np.array([[0], [1]])
    assert run(op.multinomial_from_uniform, prob, usample).tolist() == [[1], [2]]
    got = run(op.multinomial_from_uniform, prob, usample, indices)
    assert got.tolist() == [[1], [2]] and got.dtype == np.int64
    assert op_names(export(op.multinomial_from_uniform, prob, usample), "test") == ["cumsum", "call_tir"]


def test_the_result_has_the_given_name() -> None:
    made = export(lambda p, u: op.multinomial_from_uniform(p, u, name="drawn"), SORTED, f32([[0.4], [0.9]]))
    assert "drawn" in made["test"].script() and "get_sample_index" in [
        var.name_hint for var in made.functions
    ]


def test_multinomial_several_samples_of_a_row() -> None:
    rng = np.random.default_rng(0)
    prob = rng.random((3, 6), np.float32)
    prob /= prob.sum(1, keepdims=True)
    usample = np.append(rng.random(8, np.float32), np.float32(0.9999999))[:, None]
    indices = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2])[:, None]
    got = run(lambda p, u, i: op.multinomial_from_uniform(p, u, i, dtype="int32"), prob, usample, indices)
    sums = np.cumsum(prob, 1)[indices[:, 0]]
    expected = np.minimum((usample >= sums).sum(1, keepdims=True), 5)
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == np.int32


def test_sample_indices_are_needed_for_other_numbers() -> None:
    with pytest.raises(nn.NNError, match="2 distributions and 3 samples"):
        export(op.multinomial_from_uniform, np.ones((2, 4), np.float32), np.ones((3, 1), np.float32))


SORTED = f32([[0.5, 0.4, 0.1], [0.4, 0.3, 0.3]])
TOP_P, TOP_K = f32([[0.6], [0.9]]), np.array([[3], [2]])


def test_top_p_top_k_example() -> None:
    sorted_index = np.array([[2, 1, 0], [2, 0, 1]])
    arrays = (SORTED, sorted_index, TOP_P, TOP_K, f32([[0.5], [0.6]]), np.array([[0], [1]]))
    got = run(op.sample_top_p_top_k_from_sorted_prob, *arrays)
    assert got.tolist() == [[2], [0]]
    assert run(op.sample_top_p_top_k_from_sorted_prob, *arrays[:-1]).tolist() == [[2], [0]]
    names = op_names(export(op.sample_top_p_top_k_from_sorted_prob, *arrays), "test")
    assert names == ["cumsum", "call_tir", "call_tir"]


def test_top_p_top_k_where_everything_is_kept() -> None:
    sorted_index = np.array([[2, 0, 1], [2, 1, 0]])
    limits = f32([[1.1], [1.1]]), np.array([[4], [4]])  # more than a row has, as rounding may make it
    got = run(op.sample_top_p_top_k_from_sorted_prob, SORTED, sorted_index, *limits, f32([[0.95], [0.5]]))
    assert got.tolist() == [[1], [1]]


def test_renormalize() -> None:
    prob = f32([[0.1, 0.4, 0.5], [0.3, 0.3, 0.4]])
    got = run(op.renormalize_top_p_top_k_prob, prob, SORTED, TOP_P, TOP_K)
    # Row 0 keeps 0.5 and 0.4, which together pass 0.6; row 1 keeps two, and what equals the second.
    np.testing.assert_allclose(got, [[0, 4 / 9, 5 / 9], [0.3, 0.3, 0.4]], rtol=1e-5)


def test_renormalize_where_everything_is_kept() -> None:
    prob = f32([[0.1, 0.4, 0.5], [0.3, 0.3, 0.4]])
    got = run(op.renormalize_top_p_top_k_prob, prob, SORTED, f32([[1.0], [1.0]]), np.array([[3], [3]]))
    np.testing.assert_allclose(got, prob, rtol=1e-5)
