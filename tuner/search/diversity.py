"""Batches whose candidates are not all alike: what one of them will teach, its neighbours need not be measured for.

The candidates of a batch are chosen one after the other, each the best by its value times a factor that falls towards zero near those
chosen before. (Local penalization: González et al., "Batch Bayesian Optimization via Local Penalization", AISTATS 2016; here with
distances in decision space, where a sketch counts doublings of tile factors and other choices that differ.)
"""

from __future__ import annotations

import numpy as np


def spread_out(
    values: np.ndarray, places: np.ndarray, groups: np.ndarray, count: int, radius: float
) -> list[int]:
    """Positions of up to ``count`` candidates, best first.

    Args:
        values: float64 [N], not negative.
        places: coordinates in decision space, float64 [N, D]; only those of one group are compared.
        groups: number of the structure of each candidate, int64 [N].
        count: how many.
        radius: distance at which the factor has risen to 1 - 1/e; 0 takes the best values wherever they lie.

    >>> values, places = np.array([1.0, 0.99, 0.5]), np.array([[0.0], [0.1], [3.0]])
    >>> spread_out(values, places, np.zeros(3, int), 2, radius=0.0), spread_out(values, places, np.zeros(3, int), 2, radius=1.0)
    ([0, 1], [0, 2])
    """
    count = min(count, len(values))
    if radius <= 0:
        return [int(item) for item in np.argsort(-values, kind="stable")[:count]]
    left = values.astype(np.float64).copy()
    chosen: list[int] = []
    for _ in range(count):
        best = int(left.argmax())
        chosen.append(best)
        alike = groups == groups[best]
        squares = ((places[alike] - places[best]) ** 2).sum(axis=1)
        left[alike] *= 1.0 - np.exp(-squares / radius**2)
        left[chosen] = -1.0
    return chosen
