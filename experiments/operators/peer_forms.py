"""What a library needs to compute a row: a function or nodes, the activations, the weights, and the way back to the suite's layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import suite
from .workload import Peers

Convert = Callable[[np.ndarray], np.ndarray]
"""From the library's layout of the output to the suite's."""


def same(y: np.ndarray) -> np.ndarray:
    """The library has the suite's layout."""
    return y


def channels_last(y: np.ndarray) -> np.ndarray:
    """The library has the channels first, the suite last."""
    return np.moveaxis(y, 1, -1)


@dataclass(frozen=True)
class TorchForm:
    """A row in PyTorch."""

    compute: Callable[..., Any]
    """A function of the activations, then the weights."""
    activations: list[Any]
    weights: list[Any]
    convert: Convert = same


@dataclass(frozen=True)
class OnnxForm:
    """A row in ONNX: nodes from the fed arrays and the weights to the output of the last node."""

    nodes: list[Any]
    feed: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]
    convert: Convert = same
    opset: int = 17
    output: str = "y"


def torch_tensor(array: np.ndarray) -> Any:
    """The array as a tensor that shares its memory where it may."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))


def torch_form(name: str, shape: Sequence[int], arrays: Sequence[np.ndarray]) -> TorchForm:
    """A row that declares how PyTorch writes it.

    Raises:
        KeyError: it has no such form.
    """
    import torch

    peers = _peers(name)
    if peers.torch is None:
        raise KeyError(f"PyTorch has no operator for {name}")
    tensors = [torch_tensor(array) for array in arrays]
    if peers.channels_last:
        tensors[0] = tensors[0].movedim(-1, 1)  # a view: no copy
    count = len(arrays) - peers.weights
    convert = channels_last if peers.channels_last else same
    weights = [peers.torch_weight(weight) for weight in tensors[count:]]
    return TorchForm(peers.torch(torch, *shape), tensors[:count], weights, convert)


def onnx_form(name: str, shape: Sequence[int], arrays: Sequence[np.ndarray]) -> OnnxForm:
    """A row that declares its nodes.

    Raises:
        KeyError: it has none.
    """
    from onnx import helper

    peers = _peers(name)
    if peers.onnx is None:
        raise KeyError(f"ONNX Runtime has no operator for {name}")
    given = list(arrays)
    if peers.channels_last:
        given[0] = np.ascontiguousarray(np.moveaxis(given[0], -1, 1))
    named = {f"x{number}": array for number, array in enumerate(given)}
    weights = list(named)[len(named) - peers.weights :]
    return OnnxForm(
        peers.onnx(helper.make_node, *shape),
        {key: array for key, array in named.items() if key not in weights},
        {key: named[key] for key in weights},
        channels_last if peers.channels_last else same,
        opset=23,
    )


def numpy_form(name: str, shape: Sequence[int]) -> Callable[..., np.ndarray]:
    """A row that declares how numpy computes it, as a function of its inputs.

    Raises:
        KeyError: it has no such form.
    """
    compute = _peers(name).numpy
    if compute is None:
        raise KeyError(f"numpy has no operator for {name}")
    return lambda *arrays: compute(arrays, *shape)


def _peers(name: str) -> Peers:
    return suite.find(name).peers or Peers()
