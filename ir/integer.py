"""Division of integers that rounds towards zero, as C's does: Python and numpy have operators for rounding down alone."""

from __future__ import annotations

from typing import Any


def truncated_quotient(a: Any, b: Any) -> Any:
    """``a / b`` rounded towards zero, of Python's integers or of numpy's, whose smallest divided by -1 wraps.

    >>> truncated_quotient(-7, 2), truncated_quotient(7, 2)
    (-3, 3)
    """
    quotient = a // b
    # rounded down although the exact quotient is negative and no integer: one more is towards zero
    return quotient + ((quotient < 0) & (quotient * b != a))


def truncated_remainder(a: Any, b: Any) -> Any:
    """What :func:`truncated_quotient` leaves; it has the sign of ``a``."""
    return a - truncated_quotient(a, b) * b
