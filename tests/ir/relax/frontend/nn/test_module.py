"""Modules: their parameters by name, and lists and dicts of them."""

from __future__ import annotations

import numpy as np
import pytest

from ir.relax.frontend import nn


class Block(nn.Module):
    def __init__(self) -> None:
        self.linear = nn.Linear(4, 2)
        self.scale = nn.Parameter((2,), "float32")
        self.note = "not a parameter"

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.linear(x) * self.scale


class Model(nn.Module):
    def __init__(self) -> None:
        self.blocks = nn.ModuleList([Block(), Block()])
        self.extra = nn.Parameter((3, 3))


NAMES = [
    *[f"blocks.{i}.{name}" for i in range(2) for name in ("linear.weight", "linear.bias", "scale")],
    "extra",
]


# ----------------------------------------------------------------------------------------------------------- tensors


def test_named_parameters() -> None:
    model = Model()
    assert [name for name, _ in model.named_parameters()] == NAMES
    assert [name for name, _ in model.named_parameters(prefix="net.")] == [f"net.{name}" for name in NAMES]
    assert list(model.parameters()) == [param for _, param in model.named_parameters()]


def test_state_dict_holds_the_parameters_themselves() -> None:
    model = Model()
    state = model.state_dict()
    assert list(state) == NAMES and state["extra"] is model.extra
    destination: dict = {"before": None}
    assert model.state_dict(prefix="p.", destination=destination) is destination
    assert list(destination) == ["before", *(f"p.{name}" for name in NAMES)]


def test_load_state_dict() -> None:
    source, target = Model(), Model()
    for param in source.parameters():
        param.data = np.full(param.shape, 2, np.float32)
    assert target.load_state_dict(source.state_dict()) == ([], [])
    assert all(param.data is not None and param.data.min() == 2 for param in target.parameters())


def test_load_state_dict_reports_keys() -> None:
    source = {"extra": nn.Parameter((3, 3)), "other": nn.Parameter((1,))}
    source["extra"].data = np.zeros((3, 3), np.float32)
    with pytest.raises(
        KeyError, match=r"Missing keys: \['blocks.0.linear.weight'.*Unexpected keys: \['other'\]"
    ):
        Model().load_state_dict(source)
    missing, unexpected = Model().load_state_dict(source, strict=False)
    assert missing == NAMES[:-1] and unexpected == ["other"]
    with pytest.raises(ValueError, match="'extra' of the state_dict is not bound"):
        Model().load_state_dict({"extra": nn.Parameter((3, 3))}, strict=False)


def test_to_converts_recursively() -> None:
    model = Model()
    model.to("float16")
    assert {param.dtype for param in model.parameters()} == {"float16"}


def test_linear_keeps_its_bias_in_the_output_dtype() -> None:
    layer = nn.Linear(2, 3, out_dtype="float32", dtype="float16")
    assert layer.bias is not None
    assert (layer.weight.dtype, layer.bias.dtype) == ("float16", "float32")
    layer.to("bfloat16")
    assert (layer.weight.dtype, layer.bias.dtype) == ("bfloat16", "float32")


def test_module_list() -> None:
    layers = nn.ModuleList([nn.ReLU()])
    layers.append(nn.SiLU())
    assert len(layers) == 2 and isinstance(layers[1], nn.SiLU)
    layers[0] = nn.Identity()
    assert [type(layer) for layer in layers] == [nn.Identity, nn.SiLU]


def test_module_dict() -> None:
    layers = nn.ModuleDict({"a": nn.Linear(1, 1, bias=False)})
    layers["b"] = nn.Linear(1, 1)
    assert list(layers) == ["a", "b"] and len(layers) == 2
    assert [name for name, _ in layers.named_parameters()] == ["a.weight", "b.weight", "b.bias"]
    layers.to("float16")
    assert layers["b"].weight.dtype == "float16"  # type: ignore[attr-defined]
    assert layers.pop("a") is not None and layers.get("a") is None


def test_modules_without_forward() -> None:
    with pytest.raises(nn.NNError, match="Model does not define forward"):
        Model()(1)
