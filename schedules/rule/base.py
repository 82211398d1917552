"""What a schedule rule is: a function from a schedule and a block to the schedules that the rule offers."""

from __future__ import annotations

import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol, Self, TypeVar

from ir.kinds import Kinds
from ir.target import Target

from ..error import RuleError, ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule

_LOG = logging.getLogger(__name__)
_PACKAGE = f"{__package__.partition('.')[0]}."


class _Copyable(Protocol):
    def copy(self) -> Self: ...


S = TypeVar("S", bound=_Copyable)
T = TypeVar("T")


def unless_refused(state: S, offer: Callable[[S], list[T]]) -> list[T]:
    """What is offered of a copy of a schedule (or of what holds one); nothing where a primitive refuses a step."""
    try:
        return offer(state.copy())
    except ScheduleError as refusal:
        _LOG.debug("does not apply here: %s", refusal)
        return []


class Alternatives:
    """Schedules that a rule offers, each made when somebody asks for it: most structures of a large space are never looked at.

    Args:
        makers: of each one; what they make is empty where that turns out to be illegal. What they do may sample nothing: nobody makes
            choices of structure by then.
    """

    def __init__(self, makers: Sequence[Callable[[], Sequence[Schedule]]]) -> None:
        self._makers = makers
        self._made: dict[int, Schedule | None] = {}

    @classmethod
    def of(cls, schedules: Iterable[Schedule]) -> Self:
        """Some that are made already."""
        return cls([partial(list, [item]) for item in schedules])

    def __len__(self) -> int:
        """How many there are at most."""
        return len(self._makers)

    def at(self, number: int) -> Schedule | None:
        """One of them, or None where it is illegal."""
        if number not in self._made:
            self._made[number] = next(iter(self._makers[number]()), None)
        return self._made[number]

    def __iter__(self) -> Iterator[Schedule]:
        for number in range(len(self)):
            if (found := self.at(number)) is not None:
                yield found


class ScheduleRule(ABC):
    """A rule of a design space.

    Rules run on schedules with open decisions (sketches) and on ordinary ones alike; they only use a schedule's methods. What narrows
    decisions (``restrict_tile``, ``constrain_numbers``) does so where they are open, and leaves alone what has been drawn.
    Contract: ``apply`` may change and return the schedule that it is given, returns at least one schedule, and returns the
    schedule unchanged where the rule does not fit the block. A primitive that refuses a step says so too: ``apply`` need not
    ask before what primitives ask.
    """

    defaults: ClassVar[Kinds[Callable[[], list[ScheduleRule]]]] = Kinds(
        "kind of target with schedule rules", ScheduleError, __package__
    )
    """What makes the rules of each kind of target, in :mod:`schedules.rule.default`."""

    may_read: ClassVar[bool] = False
    """Whether it may look at sampled numbers, and not only pass them on. Then it sees one candidate at a time where it does: each number
    that :meth:`Schedule.get` returns makes structures of its own."""

    changes_rounding: ClassVar[bool] = False
    """Whether it may offer another algorithm, whose results are rounded otherwise than the program's: for a search that checks them."""

    needs_measurement: ClassVar[bool] = False
    """Whether what it offers differs in ways that depend on data, which no estimate knows: for a search that measures."""

    def initialize(self, target: Target) -> None:
        """Learn the target before the first ``apply``."""
        self.target = target

    @abstractmethod
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule] | Alternatives:
        """The schedules that the rule offers for a block."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    @property
    def is_users(self) -> bool:
        """Whether somebody wrote it outside of this package, who wants to know where a primitive refuses a step of it."""
        return not type(self).__module__.startswith(_PACKAGE)

    def offers(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """What ``apply`` makes of a block, and the schedule as it was where a primitive refuses a step of it.

        Raises:
            RuleError: ``apply`` returns no list of schedules.
        """
        return unless_refused(sch, lambda tried: list(self.applied(tried, block))) or [sch]

    def applied(self, sch: Schedule, block: BlockRV) -> list[Schedule] | Alternatives:
        """What ``apply`` makes of a block; it may change the schedule.

        Raises:
            ScheduleError: a primitive refuses a step.
            RuleError: ``apply`` returns no list of schedules.
        """
        made = self.apply(sch, block)
        if isinstance(made, Alternatives):
            return made
        if isinstance(made, list | tuple) and made and all(isinstance(item, Schedule) for item in made):
            return list(made)
        got = (
            "Schedule"
            if isinstance(made, Schedule)
            else "an empty list"
            if made == []
            else type(made).__name__
        )
        raise RuleError(
            f"rule {type(self).__name__}: apply returns a list of schedules, got {got};"
            " return [sch] where the rule does not fit"
        )

    def initialize_with_tune_context(self, context: Any) -> None:
        """Learn the target of a tuning context."""
        self.initialize(context.target)

    @staticmethod
    def create(kind: str) -> list[ScheduleRule]:
        """The default rules for a kind of target: "llvm" (or "cpu"), "cuda", "cuda-tensorcore", or "hexagon"."""
        return ScheduleRule.defaults[kind]()

    def clone(self) -> ScheduleRule:
        """An independent copy."""
        return copy.copy(self)


class PyScheduleRule(ScheduleRule):
    """Base for rules written by users: override ``apply`` (and ``_initialize_with_tune_context`` if wanted)."""

    may_read = True

    def initialize_with_tune_context(self, context: Any) -> None:
        super().initialize_with_tune_context(context)
        self._initialize_with_tune_context(context)

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Called with the tuning context before the search."""
