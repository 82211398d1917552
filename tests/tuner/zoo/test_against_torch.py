"""The zoo's architectures are those that PyTorch exports: with the same weights they give the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir.relax.testing import evaluate
from tuner import zoo

torch = pytest.importorskip("torch")

from experiments.models import torch_models  # noqa: E402


def folded(conv: Any, norm: Any) -> dict[str, np.ndarray]:
    """A convolution's weight and bias with the batch normalization behind it."""
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return {
        "weight": (conv.weight * scale[:, None, None, None]).detach().numpy(),
        "bias": (norm.bias - norm.running_mean * scale).detach().numpy(),
    }


def put(weights: dict[str, np.ndarray], name: str, values: dict[str, np.ndarray]) -> None:
    weights.update({f"{name}.{key}": value for key, value in values.items()})


def resnet_weights(model: Any) -> dict[str, np.ndarray]:
    weights: dict[str, np.ndarray] = {}
    put(weights, "conv1", folded(model.conv1, model.bn1))
    for i, block in enumerate(model.layers):
        put(weights, f"layers.{i}.conv1", folded(block.conv1, block.bn1))
        put(weights, f"layers.{i}.conv2", folded(block.conv2, block.bn2))
        if block.downsample is not None:
            put(weights, f"layers.{i}.downsample", folded(*block.downsample))
    put(weights, "fc", {key: value.detach().numpy() for key, value in model.fc.named_parameters()})
    return weights


def mobilenet_weights(model: Any) -> dict[str, np.ndarray]:
    weights: dict[str, np.ndarray] = {}
    for i, layer in enumerate(model.features):
        if not hasattr(layer, "conv"):  # convolution, normalization, ReLU6
            put(weights, f"features.{i}.conv", folded(layer[0], layer[1]))
            continue
        *front, project, norm = layer.conv
        for name, part in zip(("expand", "depthwise")[2 - len(front) :], front):
            put(weights, f"features.{i}.{name}.conv", folded(part[0], part[1]))
        put(weights, f"features.{i}.project", folded(project, norm))
    put(
        weights,
        "classifier",
        {key: value.detach().numpy() for key, value in model.classifier.named_parameters()},
    )
    return weights


def same_names(model: Any) -> dict[str, np.ndarray]:
    return {key: value.detach().numpy() for key, value in model.named_parameters()}


WEIGHTS = {
    "resnet18": resnet_weights,
    "mobilenet_v2": mobilenet_weights,
    "bert_base": same_names,
    "llama_block": same_names,
}


@pytest.mark.parametrize("name", zoo.names())
def test_same_weights_same_results(name: str) -> None:
    config = torch_models.SMALL[name]
    model = torch_models.build(config, seed=7)
    inputs = torch_models.example_inputs(config, seed=8)
    mod, params, _ = zoo.load(name, **zoo.small_config(name))
    weights = WEIGHTS[name](model)
    assert set(weights) == set(params)
    arrays = [value.numpy() for value in inputs.values()] + [weights[key] for key in params]
    with torch.no_grad():
        expected = model(*inputs.values())
    result = evaluate(mod, *arrays)
    for got, wanted in zip(
        *[item if isinstance(item, tuple) else (item,) for item in (result, expected)], strict=True
    ):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-4)
