"""What failures teach: how likely a candidate is to run, from those near to it that ran or failed.

A time says how slow a candidate is, a failure does not; so failures do not go into the model of times as if they were slow. A kernel
estimate in decision space keeps them apart: near a failure candidates are unlikely to run, elsewhere nothing is known against them.
"""

from __future__ import annotations

import numpy as np

_TRUST = 0.5
"""Weight of the opinion that a candidate runs, in candidates: one failure at the same place leaves a third of it."""
_RADIUS = 1.5
"""Distance, in doublings, over which an outcome says something of others."""


def chance_of_success(
    places: np.ndarray, tried: np.ndarray, failed: np.ndarray, radius: float = _RADIUS
) -> np.ndarray:
    """The share of successes near to each candidate.

    Args:
        places: coordinates of N candidates in decision space, float64 [N, D].
        tried: those of the M measured ones of the same structure, float64 [M, D].
        failed: which of them failed, bool [M].
        radius: of the kernel.

    Returns:
        float64 [N], in (0, 1]; 1 where nothing failed.

    >>> chance_of_success(np.array([[0.0], [9.0]]), np.array([[0.0], [5.0]]), np.array([True, False])).round(2)
    array([0.33, 1.  ])
    """
    if not failed.any():
        return np.ones(len(places))
    squares = (places**2).sum(axis=1)[:, None] + (tried**2).sum(axis=1) - 2 * places @ tried.T
    weights = np.exp(-np.maximum(squares, 0.0) / radius**2)
    succeeded = _TRUST + weights[:, ~failed].sum(axis=1)
    return np.asarray(succeeded / (succeeded + weights[:, failed].sum(axis=1)))
