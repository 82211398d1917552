"""What failures teach: how likely a candidate is to run, from the decisions of those that ran and of those that failed.

A time says how slow a candidate is, a failure does not; so failures do not go into the model of times as if they were slow. (On stored
spaces with planted failures, that doubled the failures: see experiments/README.md.) What makes candidates fail is mostly one
decision, such as a tile that is too large. So for each coordinate of decision space the share of successes near to the candidate's is
compared with that everywhere, and the coordinate that speaks most against it counts.
"""

from __future__ import annotations

import numpy as np

_TRUST = 1.0
"""Weight of the opinion that a coordinate says nothing, in candidates."""
_RADIUS = 0.75
"""Distance, in doublings, over which an outcome says something of others."""


def chance_of_success(places: np.ndarray, tried: np.ndarray, failed: np.ndarray) -> np.ndarray:
    """How likely candidates are to run, relative to any candidate of the structure.

    Args:
        places: coordinates of N candidates in decision space, float64 [N, D].
        tried: those of the M measured ones of the same structure, float64 [M, D].
        failed: which of them failed, bool [M].

    Returns:
        float64 [N], in (0, 1]; 1 where nothing failed.

    >>> tried = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> chance_of_success(np.array([[0.0], [5.0]]), tried, np.array([True, True, False, False])).round(2)
    array([0.34, 1.  ])
    """
    chance = np.ones(len(places))
    if not failed.any():
        return chance
    everywhere = (_TRUST + (~failed).sum()) / (_TRUST + len(failed))
    for own, other in zip(places.T, tried.T, strict=True):
        weights = np.exp(-((own[:, None] - other) ** 2) / _RADIUS**2)
        succeeded = _TRUST * everywhere + weights[:, ~failed].sum(axis=1)
        share = succeeded / (_TRUST + weights.sum(axis=1))
        chance = np.minimum(chance, share / everywhere)
    return chance
