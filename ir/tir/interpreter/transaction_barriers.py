"""Barriers of a block that count arrivals and bytes, and the bulk copies that tell them of their bytes.

A copy happens as late as it may: when no thread can go on without the phase that it belongs to. Until then nobody wrote its target.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from .error import refusal
from .meetings import Meeting, Place
from .memory import Memory

RULE = "transaction-barrier"


@dataclass(eq=False)
class TransactionBarrier:
    """One barrier."""

    number: int
    count: int = 0
    """Arrivals of a phase; 0 before it was made."""
    pending: int = 0
    bytes: int = 0
    """What the phase still expects."""
    phase: int = 0
    """How many have ended."""

    def arrive(self, expected: int) -> None:
        """One arrival, and bytes that are to come.

        Raises:
            UndefinedError: it was not made, or all arrivals of the phase have come.
        """
        if not self.count:
            raise refusal(
                RULE, f"barrier {self.number} is used, for which ptx_init_barrier_thread_count has not run"
            )
        if not self.pending:
            raise refusal(
                RULE,
                f"one arrives at barrier {self.number} more often than the {self.count} times of a phase",
            )
        self.bytes += expected
        self.pending -= 1
        self._end_if_complete()

    def copied(self, size: int) -> None:
        """So many bytes have come."""
        self.bytes -= size
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.pending = self.count
            self.phase += 1


@dataclass(frozen=True, eq=False)
class BulkCopy:
    """A copy that is under way."""

    barrier: TransactionBarrier
    phase: int
    """The one that it belongs to."""
    memory: Memory
    start: int
    size: int
    run: Callable[[], None]
    """Writes the target."""


@dataclass(eq=False)
class TransactionBarriers:
    """Those of a block, and what copies have written."""

    made: list[TransactionBarrier] = field(default_factory=list)
    copies: list[BulkCopy] = field(default_factory=list)
    done: dict[Memory, list[BulkCopy]] = field(default_factory=dict)

    def create(self, count: int) -> None:
        """Threads create them together: so many.

        Raises:
            UndefinedError: others were created before.
        """
        if not self.made:
            self.made = [TransactionBarrier(number) for number in range(count)]
        if len(self.made) != count:
            raise refusal(RULE, f"a block creates {count} barriers, and had created {len(self.made)}")

    def find(self, number: int) -> TransactionBarrier:
        """One of them.

        Raises:
            UndefinedError: there is none of this number.
        """
        if not 0 <= number < len(self.made):
            raise refusal(RULE, f"there is no barrier {number}; {len(self.made)} were created")
        return self.made[number]

    def begin(self, copy: BulkCopy) -> None:
        """A copy is under way: its target counts as unwritten."""
        written = copy.memory.written
        if written is not None:
            written[copy.start : copy.start + copy.size] = bytes(copy.size)
        self.copies.append(copy)

    def complete(self, awaited: Collection[TransactionBarrier]) -> bool:
        """Ends the copies that barriers wait for; whether there were any."""
        due = [copy for copy in self.copies if copy.barrier in awaited]
        self.copies = [copy for copy in self.copies if copy.barrier not in awaited]
        for copy in due:
            copy.run()
            if copy.memory.written is not None:
                copy.memory.written[copy.start : copy.start + copy.size] = b"\1" * copy.size
            before = self.done.get(copy.memory, ())
            end = copy.start + copy.size
            kept = [item for item in before if item.start >= end or copy.start >= item.start + item.size]
            self.done[copy.memory] = [*kept, copy]
            copy.barrier.copied(copy.size)
        return bool(due)


class Phase(Meeting):
    """The end of a phase, for which one thread waits.

    Args:
        place: where it waits.
        thread: its number.
        barrier: the barrier.
        parity: of the phase.
    """

    rule = RULE

    def __init__(self, place: Place, thread: int, barrier: TransactionBarrier, parity: int) -> None:
        super().__init__(place, (thread,))
        self.barrier, self._parity = barrier, parity

    @property
    def is_due(self) -> bool:
        """Whether the phase of the parity has ended."""
        return self.barrier.phase % 2 != self._parity
