"""Where threads of a block wait for each other: what they bring, and what each of them gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WARP = 32
"""Threads of a warp: consecutive numbers, the last one may have fewer."""


class Place:
    """A statement at which threads meet: they meet at one only if it is the same one.

    Args:
        number: counts those of a function, so that errors tell apart two that are written alike.
        text: the statement.
    """

    def __init__(self, number: int, text: str) -> None:
        self._told = f"meeting point {number}, {text}"

    def __str__(self) -> str:
        return self._told


class Meeting:
    """What a thread waits for.

    Args:
        place: where it waits.
        members: the numbers of the threads that must come there, too.
    """

    rule = "thread-barrier"
    """What is broken if they do not."""
    leaves_out_ended = False
    """Whether a thread that has ended need not come."""
    orders_memory = False
    """Whether what the members did before it is over for all of them behind it."""

    def __init__(self, place: Place, members: Sequence[int]) -> None:
        self.place, self.members = place, members
        self.key = (place, members)
        """Threads wait for one meeting if this is equal."""

    def complete(self, present: Mapping[int, Meeting]) -> Mapping[int, Any]:
        """All came; what each of them gets, None for who is not named.

        Args:
            present: what the threads wait for, by their numbers.
        """
        return {}


class Barrier(Meeting):
    """A barrier of a block or of a warp."""

    orders_memory = True
