"""What settings of builders and runners may be: a wrong one is named where it is given, not where it is used."""

from __future__ import annotations

from numbers import Integral, Real

from .error import RunnerError


def check_whole(name: str, value: object, least: int) -> None:
    """Refuse what is no count.

    Raises:
        RunnerError: it is no whole number, or less than ``least``.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise RunnerError(f"{name} is a whole number of at least {least}, got {value!r}")


def check_seconds(name: str, value: object) -> None:
    """Refuse what is no time.

    Raises:
        RunnerError: it is no number, or negative.
    """
    if not isinstance(value, Real) or isinstance(value, bool) or not float(value) >= 0:
        raise RunnerError(f"{name} is a number of seconds of at least 0, got {value!r}")
