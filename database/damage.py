"""Rows that are damaged: one of them must not end the reading of all others."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ir.error import IRError

if TYPE_CHECKING:
    from .schema import Base

DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, IRError)
"""What is raised where a row holds something else than was written."""


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
