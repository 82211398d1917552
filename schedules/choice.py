"""A decision between numbers, which a search makes."""

from __future__ import annotations

from collections.abc import Sequence

from .random_variable import ExprRV
from .schedule import Schedule


def one_of(sch: Schedule, candidates: Sequence[int]) -> ExprRV:
    """A decision between numbers, all of which are as likely."""
    return sch.sample_categorical(candidates, [1.0 / len(candidates)] * len(candidates))
