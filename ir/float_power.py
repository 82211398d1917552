"""Powers of floats as C's mathematical library has them."""

from __future__ import annotations

from typing import Any

import numpy as np


def float_power(x: Any, y: Any) -> np.ndarray[Any, Any]:
    """``x`` to the power ``y`` of numpy's floats.

    For an exponent 0.5 that it repeats numpy takes the square root, which differs where the base is -0.0 or -infinity.

    >>> float_power(np.array(-0.0), np.array(0.5)).item(), float_power(np.array(-np.inf), np.array(0.5)).item()
    (0.0, inf)
    """
    with np.errstate(all="ignore"):
        found = np.asarray(np.power(x, y))
        unlike_root = np.equal(y, 0.5) & (np.equal(x, 0) | np.equal(x, -np.inf))
        return np.where(unlike_root, np.abs(x), found).astype(found.dtype)
