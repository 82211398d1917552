"""The list of architectures, and loading one: configured, exported, its weights drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ir.error import IRValueError
from ir.module import IRModule
from ir.relax.frontend import nn
from ir.relax.function import Function

from . import bert, llama, mobilenet, resnet
from .weights import random_weights


class ZooError(IRValueError):
    """No architecture of that name, or a configuration that it does not have."""


@dataclass(frozen=True)
class Architecture:
    """How to make one model: its configurations, its module, its inputs."""

    full: Any
    small: Any
    module: Callable[[Any], nn.Module]
    inputs: Callable[[Any], dict[str, nn.spec.Tensor]]


ARCHITECTURES: dict[str, Architecture] = {
    "resnet18": Architecture(resnet.FULL, resnet.SMALL, resnet.ResNet, resnet.inputs),
    "mobilenet_v2": Architecture(mobilenet.FULL, mobilenet.SMALL, mobilenet.MobileNetV2, mobilenet.inputs),
    "bert_base": Architecture(bert.FULL, bert.SMALL, bert.Bert, bert.inputs),
    "llama_block": Architecture(llama.FULL, llama.SMALL, llama.LlamaBlock, llama.inputs),
}


def names() -> list[str]:
    """The architectures that :func:`load` knows."""
    return list(ARCHITECTURES)


def small_config(name: str) -> dict[str, Any]:
    """A configuration of a few layers and channels, for tests: ``load(name, **small_config(name))``."""
    config = _architecture(name).small
    return {item.name: getattr(config, item.name) for item in fields(config)}


def load(
    name: str, *, seed: int = 0, bind_params: bool = False, **config: Any
) -> tuple[IRModule, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A model with random weights and inputs to run it on.

    Args:
        name: one of :func:`names`.
        seed: draws weights and inputs; the same seed gives the same ones.
        bind_params: put the weights into the module as constants, so that ``main`` takes the inputs only.
        **config: fields of the architecture's configuration that differ from the published one, such as ``batch=8``.

    Returns:
        The module; ``main`` takes the inputs, then the weights.
        The weights by the name of their parameter of ``main``, in its order.
        Example inputs by name, in order.

    Raises:
        ZooError: there is no such architecture or configuration field.
    """
    architecture = _architecture(name)
    settings = _settings(name, architecture, config)
    module = architecture.module(settings)
    specs = architecture.inputs(settings)
    exported = module.export_tvm(spec={"main": specs})
    mod, named = exported[0], exported[1]
    params = random_weights(named, seed)
    if bind_params:
        main = mod["main"]
        assert isinstance(main, Function)
        mod["main"] = main.bind_params(dict(zip(main.params[len(specs) :], params.values())))
    return mod, params, example_inputs(name, seed=seed, **config)


def example_inputs(name: str, *, seed: int = 0, **config: Any) -> dict[str, np.ndarray]:
    """Inputs of the right shapes and dtypes: normal floats, integers that index the model's tables."""
    architecture = _architecture(name)
    settings = _settings(name, architecture, config)
    rng = np.random.default_rng([seed, 1])
    made: dict[str, np.ndarray] = {}
    for key, spec in architecture.inputs(settings).items():
        shape = [int(extent) for extent in spec.shape if isinstance(extent, int)]
        if spec.dtype == "int64":
            made[key] = settings.integers(key, shape, rng)
        else:
            made[key] = rng.standard_normal(shape, dtype=np.float32).astype(spec.dtype)
    return made


def _architecture(name: str) -> Architecture:
    try:
        return ARCHITECTURES[name]
    except KeyError:
        raise ZooError(
            f"no architecture called {name!r} in the zoo; there are: {', '.join(ARCHITECTURES)}"
        ) from None


def _settings(name: str, architecture: Architecture, config: dict[str, Any]) -> Any:
    known = {item.name for item in fields(architecture.full)}
    unknown = sorted(set(config) - known)
    if unknown:
        raise ZooError(
            f"{name} has no setting {', '.join(unknown)}; its settings are: {', '.join(sorted(known))}"
        )
    return replace(architecture.full, **config)
