"""ONNX's own node tests, as many as the importer takes: over a thousand small models with their expected results."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from glob import glob
from typing import Any

import numpy as np
import pytest

from ir.relax.testing import evaluate

onnx = pytest.importorskip("onnx")
loader = pytest.importorskip("onnx.backend.test.loader")
from onnx import numpy_helper  # noqa: E402

from ir.relax.frontend.onnx import UnsupportedOperatorError, from_onnx  # noqa: E402

LEFT_OUT = {
    "cast": "the expected results are tensors of dtypes that numpy does not have",
    "training|dropout_default_mask_ratio": "inference only",
    "string|sequence|optional|_opt": "tensors of numbers only",
    "bfloat16|bf16": "rounding differs in the last of eight bits",
    "window": "the library expands them with a length that is not known while importing",
    "^test_range_.*(positive|negative)_delta|constantofshape": "the result's shape depends on an input's data",
    "maxpool_with_argmax|convtranspose_3d": "reported as not supported",
    "e4m3fn|e5m2|quantizelinear_(u?int[42]|float4|blocked)|^test_if$": "refused with a message",
    "affine_grid": "the grid's size is an input there; exporters make it a constant",
    "expanded_ver|_ext_cache_|negative_offset": "the expansion pads with a value that is not known while importing",
}
CONSTANT_INPUTS = set(
    "roi scales max min repeats pads value shape k axis axes values depth output_shape zero_point".split()
)


def arrays_of(case: Any) -> tuple[list[Any], list[Any]]:
    if case.data_sets:
        return case.data_sets[0]
    folder = os.path.join(case.model_dir, "test_data_set_0")

    def read(kind: str) -> list[Any]:
        found = []
        for index in range(len(glob(os.path.join(folder, f"{kind}_*.pb")))):
            tensor = onnx.TensorProto()
            with open(os.path.join(folder, f"{kind}_{index}.pb"), "rb") as file:
                tensor.ParseFromString(file.read())
            found.append(numpy_helper.to_array(tensor))
        return found

    return read("input"), read("output")


def with_constants(model: Any, inputs: list[Any]) -> list[np.ndarray]:
    """Make shapes and axes weights of the model, as exporters do; returns the inputs that stay."""
    graph, kept, feeds = model.graph, [], []
    for info, value in zip(list(graph.input), inputs):
        array = np.asarray(value)
        integers = (
            array.dtype.kind == "i" and array.ndim <= 1 and len(graph.node) == 1 and len(graph.input) > 1
        )
        if integers or info.name in CONSTANT_INPUTS:
            graph.initializer.append(numpy_helper.from_array(array, info.name))
        else:
            kept.append(info)
            feeds.append(array)
    del graph.input[:]
    graph.input.extend(kept)
    return feeds


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_node_cases() -> None:
    counts: Counter[str] = Counter()
    failures: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases themselves divide by zero on purpose
        cases = loader.load_model_tests(kind="node")
    for case in cases:
        if any(re.search(pattern, case.name) for pattern in LEFT_OUT):
            counts["left out"] += 1
            continue
        if case.model is not None:
            model = onnx.ModelProto()
            model.CopyFrom(case.model)  # which is the loader's own, and other tests read it too
        else:
            model = onnx.load(os.path.join(case.model_dir, "model.onnx"))
        if any(node.domain for node in model.graph.node):
            counts["other domains"] += 1
            continue
        inputs, expected = arrays_of(case)
        try:
            feeds = with_constants(model, inputs)
            result = evaluate(from_onnx(model), *feeds)
            for got, wanted in zip(result if isinstance(result, tuple) else (result,), expected, strict=True):
                assert np.shape(got) == np.shape(wanted) and np.asarray(got).dtype == np.asarray(wanted).dtype
                # The cases round after every step, operators once: two units in the last place of a float16.
                rtol = 2.0**-9 if np.asarray(wanted).dtype == np.float16 else 1e-3
                np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-5)
            counts["passed"] += 1
        except UnsupportedOperatorError:
            counts["not supported"] += 1
        except Exception as error:
            failures.append(f"{case.name}: {type(error).__name__} {str(error).strip().splitlines()[0][:160]}")
    assert not failures, f"{counts}\n" + "\n".join(failures)
    assert counts["passed"] > 1100, counts
