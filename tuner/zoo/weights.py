"""Random weights that keep activations in range, drawn from one seed and the parameter's position."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ir.relax.frontend import nn


def random_weights(params: Sequence[tuple[str, nn.Parameter]], seed: int) -> dict[str, np.ndarray]:
    """An array for every parameter, bound to it too.

    Matrices and kernels are normal with the deviation of He et al. (2015), so that activations neither vanish nor explode over
    many layers; scales of norms lie in [0.5, 1.5] and offsets near zero, so that leaving either out would be noticed.
    """
    made: dict[str, np.ndarray] = {}
    for position, (name, param) in enumerate(params):
        rng = np.random.default_rng([seed, 0, position])
        shape = [int(extent) for extent in param.shape if isinstance(extent, int)]
        if len(shape) > 1:
            deviation = 0.02 if param.attrs.get("table") else math.sqrt(2.0 / math.prod(shape[1:]))
            values = rng.standard_normal(shape, dtype=np.float32)
            values *= np.float32(deviation)
        elif param.attrs.get("scale"):
            values = rng.uniform(0.5, 1.5, shape).astype(np.float32)
        else:
            values = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.1)
        param.data = made[name] = values.astype(param.dtype, copy=False)
    return made
