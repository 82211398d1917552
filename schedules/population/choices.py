"""Choices of structure: decisions that change the loop tree, or that a program looks at, and that no array can carry.

Where a sketch may go on in several ways (a compute location, a number that a user's function reads), the run of the rule stops, and is run
again once for each way that somebody wants to see. A run is described by the numbers that were chosen on the way; the same numbers
give the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ir.tir.stmt_functor import variables_in

from ..trace import Trace
from .decision import Decision, variables_of

NumberOf = Callable[[Any], int | None]
ALL = frozenset({-1})
"""Closed: every decision of the run."""


class OpenChoice(BaseException):
    """A run has come to a choice that nobody has made yet.

    Not an error: it must get past a user's ``except Exception``.

    Attributes:
        place: of the choice among all decisions of the run.
        decision: what there is to choose from.
        number_in: what the traces of candidates chose, from a trace; None where it is something else.
    """

    def __init__(self, place: int, decision: Decision, number_in: Callable[[Trace], int | None]) -> None:
        super().__init__(place)
        self.place, self.decision, self.number_in = place, decision, number_in


class ReadsDecision(BaseException):
    """A run asks for the number behind an open decision: from here on that decision is a choice of structure.

    Attributes:
        place: of the decision among all decisions of the run.
    """

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class Choices:
    """The choices of one run, which a :class:`~schedules.population.sketch.SketchSchedule` and its copies ask.

    Args:
        made: what was chosen, by the place of the decision among all of the run.
        closed: places of decisions that are choices of structure, since the run reads their numbers; :data:`ALL` for all.
        generator: draws what was not chosen; without it a run stops there.
    """

    def __init__(
        self,
        made: Mapping[int, int],
        closed: frozenset[int] = frozenset(),
        generator: np.random.Generator | None = None,
    ) -> None:
        self._made, self._closed, self._generator = made, closed, generator
        self._places: dict[Any, int] = {}
        """Where each decision variable that this run opened came from."""
        self._asked = 0
        """Decisions so far."""

    def again(self) -> Choices:
        """The same choices for another run of the same."""
        return Choices(self._made, self._closed, self._generator)

    def number_of(
        self, decision: Decision, position: int, read: NumberOf, *, is_structural: bool = False
    ) -> int | None:
        """The number of a decision that a run comes to; None where it stays open.

        Args:
            decision: what there is to choose from.
            position: of the instruction in traces.
            read: from what a trace says was decided to the number of the decision, None where it has none.
            is_structural: whether it changes the loop tree, and cannot stay open.

        Raises:
            OpenChoice: it is a choice of structure that nobody has made.
        """
        place, self._asked = self._asked, self._asked + 1
        if not is_structural and self._closed is not ALL and place not in self._closed:
            self._places.update(dict.fromkeys(variables_of(decision), place))
            return None
        if decision.size == 1:
            return 0
        if place in self._made:
            return self._made[place] % decision.size
        if self._generator is not None:
            return int(decision.draw(1, self._generator)[0])

        def number_in(trace: Trace) -> int | None:
            if position >= len(trace.insts):
                return None
            decided = trace.get_decision(trace.insts[position])
            return None if decided is None else read(decided)

        raise OpenChoice(place, decision, number_in)

    def read(self, value: Any) -> None:
        """Somebody gets a number.

        Raises:
            ReadsDecision: a decision that this run has left open is behind it.
        """
        for var in variables_in(value):
            if var in self._places:
                raise ReadsDecision(self._places[var])
