"""Loading an architecture: configured, exported, its weights drawn from a seed."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from ir.module import IRModule
from ir.relax.function import Function

from .architecture import ARCHITECTURES, Architecture, ZooError
from .weights import random_weights


def names() -> list[str]:
    """The architectures that :func:`load` knows."""
    return ARCHITECTURES.names()


def small_config(name: str) -> dict[str, Any]:
    """A configuration of a few layers and channels, for tests: ``load(name, **small_config(name))``."""
    config = ARCHITECTURES[name].small
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
    architecture = ARCHITECTURES[name]
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
    architecture = ARCHITECTURES[name]
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


def _settings(name: str, architecture: Architecture, config: dict[str, Any]) -> Any:
    known = {item.name for item in fields(architecture.full)}
    unknown = sorted(set(config) - known)
    if unknown:
        raise ZooError(
            f"{name} has no setting {', '.join(unknown)}; its settings are: {', '.join(sorted(known))}"
        )
    return replace(architecture.full, **config)
