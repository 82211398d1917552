"""Rows and lines that are damaged: one of them must not end the reading of all others."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ir.error import IRError

from .error import DatabaseError

if TYPE_CHECKING:
    from .schema import Base

_LOG = logging.getLogger(__name__)
_NAMED = 10
"""How many of what is left out of one reading are named; the others are counted."""

DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, IRError)
"""What is raised where a row holds something else than was written."""

FAULTS = (*DAMAGE, ArithmeticError, AssertionError, RuntimeError, StopIteration, MemoryError)
"""What is raised where a program or a trace that nobody wrote is worked with: passes and primitives were made for those that are ones."""


@dataclass(frozen=True)
class Damage:
    """Stands for a value that cannot be read."""

    why: str


class DamagedRow(ValueError):
    """What a row refers to is damaged."""

    def __init__(self, row: Base, why: Exception) -> None:
        super().__init__(row, why)
        self.row, self.why = row, why


def read_text(data: bytes) -> str:
    """Text of a column; what is no UTF-8 becomes surrogates, which no text of ours has."""
    return data.decode(errors="surrogateescape")


def read_json(text: str | bytes) -> Any:
    """The value that a text stands for, or a :class:`Damage`.

    >>> read_json("[1]"), read_json("[1")
    ([1], Damage(why="Expecting ',' delimiter: line 1 column 3 (char 2)"))
    """
    try:
        if isinstance(text, str) and not text.isascii():
            text = text.encode()  # raises an error for surrogates
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return Damage(str(error))


def sound(value: Any) -> Any:
    """A value as it was read.

    Raises:
        ValueError: it is damaged.
    """
    if isinstance(value, Damage):
        raise ValueError(value.why)
    return value


class LeftOut:
    """What of one reading cannot be read: named in warnings, once something else could be, and counted.

    Attributes:
        count: how much there was.
    """

    def __init__(self, *, is_silent: bool = False) -> None:
        """
        Args:
            is_silent: warn of nothing: what is read is read again, and named then.
        """
        self.count = 0
        self._is_silent = is_silent
        self._held: list[DatabaseError] = []
        """What is not said yet: where nothing at all can be read, the first is an error."""
        self._is_read = False
        self._named: set[str] = set()

    def add(self, error: DatabaseError) -> None:
        """Leave out what an error names, which several things may have in common."""
        self.count += 1
        if self._is_read:
            self._name(error)
        else:
            self._held.append(error)
            del self._held[_NAMED:]

    def go_on(self) -> None:
        """Something else could be read."""
        if not self._is_read:
            self._is_read = True
            for error in self._held:
                self._name(error)

    def end(self, where: object) -> None:
        """All was read.

        Raises:
            DatabaseError: nothing could be: the first error.
        """
        if self._held and not self._is_read:
            raise self._held[0]
        if self.count > _NAMED and not self._is_silent:
            _LOG.warning("%s: %d items could not be read, and were left out", where, self.count)

    def _name(self, error: DatabaseError) -> None:
        if not self._is_silent and len(self._named) < _NAMED and str(error) not in self._named:
            self._named.add(str(error))
            _LOG.warning("left out: %s", error)
