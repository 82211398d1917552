"""Published architectures as torchvision and transformers define them, with random weights: the models that are not written out here.

Both libraries are wanted for exporting only. torchvision's compiled operators belong to one build of PyTorch; these models need none of
them, so that where they do not load, their names are declared.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn


class _Output(nn.Module):
    """One output of a model of transformers, by its name."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x: Tensor) -> Any:
        return getattr(self.model(x), self.name)


@dataclass(frozen=True)
class LibraryModel:
    """How a model and its input are made."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    vocabulary: int | None = None
    """Of models of text, whose input is token numbers; None for floats."""


def _vision(name: str, size: int = 224, **options: Any) -> LibraryModel:
    def make() -> nn.Module:
        return getattr(_library("torchvision.models"), name)(weights=None, **options)  # type: ignore[no-any-return]

    return LibraryModel(make, (1, 3, size, size))


def _library(name: str) -> Any:
    """A module of torchvision or transformers, which loads torchvision where that is installed."""
    for operator in ("nms", "qnms"):
        with suppress(RuntimeError):  # it is there
            torch.library.define(
                f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        version = "==0.28.0 (with --no-deps, beside torch 2.13.0)" if package == "torchvision" else ""
        raise SystemExit(
            f"this model is exported by {package}, which is not installed: pip install {package}{version}"
        ) from error


def _gpt2() -> nn.Module:
    transformers = _library("transformers")
    config = transformers.GPT2Config(use_cache=False, attn_implementation="eager")
    return _Output(transformers.GPT2LMHeadModel(config), "logits")


def _t5_encoder() -> nn.Module:
    transformers = _library("transformers")
    return _Output(transformers.T5EncoderModel(transformers.T5Config(use_cache=False)), "last_hidden_state")


def _whisper_encoder() -> nn.Module:
    transformers = _library("transformers")
    encoder = import_module("transformers.models.whisper.modeling_whisper").WhisperEncoder
    return _Output(encoder(transformers.WhisperConfig(attn_implementation="eager")), "last_hidden_state")


MODELS: dict[str, LibraryModel] = {
    "resnet50": _vision("resnet50"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "mobilenet_v3_large": _vision("mobilenet_v3_large"),
    "densenet121": _vision("densenet121"),
    "inception_v3": _vision("inception_v3", 299, init_weights=False),
    "regnet_y_400mf": _vision("regnet_y_400mf"),
    "vit_b_16": _vision("vit_b_16"),
    "swin_t": _vision("swin_t"),
    "convnext_tiny": _vision("convnext_tiny"),
    "gpt2": LibraryModel(_gpt2, (1, 64), 50257),
    "t5_encoder": LibraryModel(_t5_encoder, (1, 128), 32128),
    "whisper_encoder": LibraryModel(_whisper_encoder, (1, 80, 3000)),
}
"""The models by name: batch 1, the published configuration; 64 tokens of GPT-2, 128 of T5 (small), 30 s of sound of Whisper (base)."""


def build(name: str, seed: int = 0) -> nn.Module:
    """A model with random weights in evaluation mode.

    Heads that libraries begin with zeros, and scales of a millionth, get numbers too: with them nothing that was computed before
    reaches the output, whose comparison would tell nothing.
    """
    torch.manual_seed(seed)
    model = MODELS[name].make().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1 and weight.min() == weight.max():
                weight.normal_(std=0.1)
    return model


def example_inputs(name: str, seed: int = 0) -> dict[str, Tensor]:
    """Random inputs by name."""
    model, generator = MODELS[name], torch.Generator().manual_seed(seed)
    if model.vocabulary is not None:
        return {"input": torch.randint(model.vocabulary, model.shape, generator=generator)}
    return {"input": torch.randn(model.shape, generator=generator)}
