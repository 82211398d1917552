"""How far a model's own deviations can be trusted: compared with what was measured of the candidates that it proposed.

The members of an ensemble see the same features and begin from the same estimate, so that they err together: their spread says where
the model is less certain, and much too little how uncertain it is. The ratio of the misses to the spread, over what was
measured so far, makes one of the other. (Recalibration of predicted deviations: Kuleshov, Fenner and Ermon, "Accurate Uncertainties
for Deep Learning Using Calibrated Regression", ICML 2018, with a single factor in place of their curve.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_FIRST, _WEIGHT = 10.0, 8.0
"""The factor before anything is known, and how many measurements it counts as."""
_SMALLEST, _LARGEST = 1.0, 50.0


@dataclass
class DeviationScale:
    """Sums over the candidates whose deviations were known when they were proposed."""

    _misses: float = 0.0
    _spread: float = 0.0
    _count: int = 0

    @property
    def factor(self) -> float:
        """By how much deviations are to be multiplied.

        >>> scale = DeviationScale()
        >>> scale.factor
        10.0
        >>> scale.learn(np.array([-0.1, 0.1] * 100), np.full(200, 0.05))
        >>> round(scale.factor, 1)
        2.8
        """
        if self._count == 0:
            return _FIRST
        first = _WEIGHT * self._spread / self._count
        factor = math.sqrt((first * _FIRST**2 + self._misses) / (first + self._spread))
        return min(max(factor, _SMALLEST), _LARGEST)

    def learn(self, misses: np.ndarray, deviations: np.ndarray) -> None:
        """Add measured candidates: by how much their scores were missed, and what the model had said of its deviation [N]."""
        known = np.isfinite(misses) & (deviations > 0)
        self._misses += float((misses[known] ** 2).sum())
        self._spread += float((deviations[known] ** 2).sum())
        self._count += int(known.sum())
