"""Where threads of a block wait for each other: what they bring, and what each of them gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
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
    takes_who_is_there = False
    """Whether it is one of those who have come, where others do not."""
    orders_memory = False
    """Whether what the members did before it is over for all of them behind it."""

    def __init__(self, place: Place, members: Sequence[int]) -> None:
        self.place, self.members = place, members
        self.key = (place, members)
        """Threads wait for one meeting if this is equal."""

    @property
    def is_due(self) -> bool:
        """Whether it can end once all are there."""
        return True

    def complete(self, present: Mapping[int, Meeting]) -> Mapping[int, Any]:
        """All came; what each of them gets, None for who is not named.

        Args:
            present: what the threads wait for, by their numbers.
        """
        return {}


class Barrier(Meeting):
    """A barrier of a block or of a warp."""

    orders_memory = True


class Shuffle(Meeting):
    """Threads of a warp that read each other's values.

    Args:
        value: what the thread brings.
        source: the number of the thread whose value it gets.
    """

    rule = "warp-shuffle"
    leaves_out_ended = True

    def __init__(self, place: Place, members: Sequence[int], value: Any, source: int) -> None:
        super().__init__(place, members)
        self.value, self.source = value, source

    def complete(self, present: Mapping[int, Meeting]) -> Mapping[int, Any]:
        """The value for each of them, in a tuple; nothing where its source is not there."""
        values = {
            number: meeting.value for number, meeting in present.items() if isinstance(meeting, Shuffle)
        }
        return {
            number: (values[meeting.source],)
            for number, meeting in present.items()
            if isinstance(meeting, Shuffle) and meeting.source in values
        }


class Together(Meeting):
    """Lanes of a warp that compute something together.

    Args:
        brought: what the thread brings.
    """

    rule = "warp-matrix"

    def __init__(self, place: Place, members: Sequence[int], brought: Any) -> None:
        super().__init__(place, members)
        self.brought = brought

    def complete(self, present: Mapping[int, Meeting]) -> Mapping[int, Any]:
        """What all of them bring, in their order."""
        found = [meeting.brought for meeting in present.values() if isinstance(meeting, Together)]
        return dict.fromkeys(present, found)


class Roll(Meeting):
    """Threads of a warp that ask which of them are here: those that are, once none of the block can run on."""

    takes_who_is_there = True
    leaves_out_ended = True

    def complete(self, present: Mapping[int, Meeting]) -> Mapping[int, Any]:
        """Their numbers."""
        return dict.fromkeys(present, tuple(present))


class Reduction(Meeting):
    """Threads that combine their values.

    Args:
        values: what the thread brings; None where it adds nothing.
    """

    def __init__(self, place: Place, members: Sequence[int], values: tuple[Any, ...] | None) -> None:
        super().__init__(place, members)
        self.values = values

    def complete(self, present: Mapping[int, Meeting]) -> Mapping[int, Any]:
        """The same object for all of them."""
        brought = [meeting.values for meeting in present.values() if isinstance(meeting, Reduction)]
        return dict.fromkeys(present, Combined([values for values in brought if values is not None]))


class Combined:
    """What the values of several threads give together: the first one that asks computes it."""

    def __init__(self, brought: Sequence[tuple[Any, ...]]) -> None:
        self._brought = brought
        self._found: tuple[Any, ...] | None = None

    def value(
        self,
        combine: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]],
        identity: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """The values combined; the identity, where there are none."""
        if self._found is None:
            self._found = reduce(combine, self._brought) if self._brought else identity
        return self._found
