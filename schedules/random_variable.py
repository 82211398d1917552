"""What a schedule's methods hand out: references to blocks and loops that survive edits, and integers chosen by sampling."""

from __future__ import annotations

from itertools import count
from typing import ClassVar

from ir import tir
from ir.error import IRTypeError

_NUMBERS = count()


class RandomVariable:
    """A reference that a schedule resolves; compared by identity."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = next(_NUMBERS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.number})"


class BlockRV(RandomVariable):
    """A block of a schedule."""

    __slots__ = ()


class LoopRV(RandomVariable):
    """A loop of a schedule."""

    __slots__ = ()


class ExprRV(tir.Var):
    """An integer chosen by a sampling instruction; :meth:`schedules.Schedule.get` gives its value."""

    sampled_by: ClassVar[str] = __name__.partition(".")[0]
    """The package whose own code may compare it by identity; others are told how to learn the number (:mod:`ir.tir.written_condition`)."""

    def __init__(self, name: str = "v") -> None:
        super().__init__(name, "int32")

    def __int__(self) -> int:
        raise IRTypeError(
            f"{self.name} stands for a number that a schedule has sampled, and is none itself; schedule.get({self.name}) is the number"
            " (a search then looks at one candidate at a time)"
        )

    __index__ = __float__ = __int__


class DecisionVar(tir.SizeVar):
    """A decision left open in a sketch, at least 1.

    Args:
        name: for people.
        at_most: the largest value that it may have; None where nobody knows.
        tiled: of a factor of a perfect tile, the extent that it divides.
    """

    __slots__ = ("at_most", "tiled")

    def __init__(self, name: str, at_most: int | None = None, tiled: int | None = None) -> None:
        super().__init__(name, "int32")
        object.__setattr__(self, "at_most", at_most)  # nodes are immutable once made
        object.__setattr__(self, "tiled", tiled)


__all__ = ["BlockRV", "DecisionVar", "ExprRV", "LoopRV", "RandomVariable"]
