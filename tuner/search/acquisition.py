"""Acquisition functions: what it is worth to measure a candidate, given what a model expects of it and how sure it is.

Scores are logarithms of speed, up to a constant. A model that names no uncertainty makes every function rank by the expectation
alone. (Expected improvement: Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions", 1998; upper
confidence bounds: Srinivas et al., "Gaussian Process Optimization in the Bandit Setting", ICML 2010.)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..error import TunerError

_CONFIDENCE = 1.0
"""Deviations that the upper confidence bound adds."""
_LEAST_DEVIATION = 1e-3
"""Deviations are no smaller where a model has any: a tenth of a percent of a time is less than any clock tells."""

Acquisition = Callable[[np.ndarray, np.ndarray, float], np.ndarray]
"""(expected scores [N], their deviations [N], score of the best that was measured) to values [N], not negative, higher is better. Values of
several calls with the same best can be compared: structures and generations are."""

_FAR = 300.0
"""Logarithms of speed beyond this are no speeds of ours; some other scale's order is kept all the same."""


def expected(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """The speed that is expected, relative to that of the best.

    >>> expected(np.log([1.0, 0.5]), np.zeros(2), np.log(2.0))
    array([0.5 , 0.25])
    """
    distance = np.abs(mean - best)
    bounded = np.minimum(distance, _FAR) + np.log1p(np.maximum(distance - _FAR, 0.0))
    return np.exp(np.copysign(bounded, mean - best))


def upper_confidence(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """The speed that would not surprise."""
    return expected(mean + _CONFIDENCE * deviation, deviation, best)


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """By how much a candidate will be better than the best on average, where one that is worse counts as no change.

    The integral of max(0, score - best) over a normal distribution of the score.

    >>> expected_improvement(np.array([0.0, 0.0, -1.0]), np.array([0.1, 1.0, 1.0]), 0.0).round(3)
    array([0.04 , 0.399, 0.083])
    """
    if not deviation.any():
        return expected(mean, deviation, best)
    spread = np.maximum(deviation, _LEAST_DEVIATION)
    ratio = (mean - best) / spread
    density = np.exp(-0.5 * ratio**2) / math.sqrt(2 * math.pi)
    value = spread * (density + ratio * _normal_distribution(ratio))
    # Far behind, the difference of two tiny numbers: the order of the expectation decides there.
    return np.maximum(value, 1e-12 * expected(mean, deviation, best))


def _normal_distribution(ratio: np.ndarray) -> np.ndarray:
    """The standard normal distribution function, by the error function of Abramowitz and Stegun 7.1.26 (error below 2e-7)."""
    argument = np.abs(ratio) / math.sqrt(2)
    t = 1.0 / (1.0 + 0.3275911 * argument)
    powers = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    tail = 0.5 * powers * np.exp(-(argument**2))
    return np.where(ratio >= 0, 1.0 - tail, tail)


ACQUISITIONS: dict[str, Acquisition] = {
    "expected-improvement": expected_improvement,
    "upper-confidence": upper_confidence,
    "mean": expected,
}


def acquisition(name: str) -> Acquisition:
    """A function by its name.

    Raises:
        TunerError: there is none of that name.
    """
    if name not in ACQUISITIONS:
        raise TunerError(f"no acquisition function {name!r}; there are {', '.join(ACQUISITIONS)}")
    return ACQUISITIONS[name]
