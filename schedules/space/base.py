"""What a design space is: the structures (sketches) and random schedules of a program."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ir import IRModule
from ir.kinds import Kinds
from ir.target import Target
from ir.tir import PrimFunc

from ..error import ScheduleError
from ..mutator.base import Mutator
from ..population.sketch import Sketch
from ..postproc.base import Postproc
from ..postproc.default import postprocess
from ..rule.base import ScheduleRule
from ..rule.custom import FunctionRule
from ..schedule import Schedule
from .structures import Structures

FROM_TARGET = "from-target"


class SpaceGenerator(ABC):
    """Generates a design space.

    Contract: at least one sketch and one schedule for every program; the same program and target give the same space.

    Args:
        sch_rules: the rules, or plain functions ``(schedule, block) -> schedules``.
        postprocs: the postprocessors of its candidates.
        mutator_probs: mutators, each with the share of the mutants of an evolutionary search that it makes; mutants that change any
            decisions, as all do by default, make up what is missing to 1.

    Each may be a name ("llvm", "cuda", ...) for those registered for that kind of target; "from-target" leaves it to the target.
    """

    kinds: ClassVar[Kinds[Callable[..., SpaceGenerator]]] = Kinds(
        "space generator", ScheduleError, __package__
    )
    """The generators that :meth:`create` knows; each registers itself where it is defined."""

    # Generators that users write need not call ``__init__``.
    sch_rules: list[ScheduleRule] | None = None
    postprocs: list[Postproc] | None = None
    mutator_probs: dict[Mutator, float] | None = None

    takes_rules: bool = True
    """Whether the space is made by ``sch_rules``."""

    def __init__(
        self,
        sch_rules: Sequence[ScheduleRule | Callable[..., Any]] | str | None = FROM_TARGET,
        postprocs: Sequence[Postproc] | str | None = FROM_TARGET,
        mutator_probs: Mapping[Mutator, float] | str | None = FROM_TARGET,
    ) -> None:
        owner = type(self).__name__
        if isinstance(sch_rules, str):
            self.sch_rules = None if sch_rules == FROM_TARGET else ScheduleRule.create(sch_rules)
        elif sch_rules is not None:
            self.sch_rules = [
                item if isinstance(item, ScheduleRule) else FunctionRule(item)
                for item in listed(f"{owner}: sch_rules", sch_rules, "rule", (ScheduleRule, Callable))
            ]
        if isinstance(postprocs, str):
            self.postprocs = None if postprocs == FROM_TARGET else Postproc.create(postprocs)
        elif postprocs is not None:
            self.postprocs = listed(f"{owner}: postprocs", postprocs, "postprocessor", Postproc)
        if isinstance(mutator_probs, str):
            self.mutator_probs = None if mutator_probs == FROM_TARGET else Mutator.create(mutator_probs)
        elif mutator_probs is not None:
            self.mutator_probs = _shares(f"{owner}: mutator_probs", mutator_probs)

    def postprocess(self, sch: Schedule, target: Target) -> bool:
        """Apply the postprocessors to a candidate; False when one refuses it."""
        if self.postprocs is None:
            return postprocess(sch, target)
        sch.enter_postproc()
        for postproc in self.postprocs:
            postproc.initialize(target)
        return all(postproc.accepts(sch) for postproc in self.postprocs)

    def initialize_with_tune_context(self, context: Any) -> None:
        """Learn the target of a tuning context, of which own rules, postprocessors and mutators learn, too."""
        self.target: Target = context.target
        for part in (*(self.sch_rules or ()), *(self.postprocs or ()), *(self.mutator_probs or ())):
            part.initialize_with_tune_context(context)

    def generator_of(self, structures: Structures, sketch: Sketch) -> SpaceGenerator:
        """Whose postprocessors and mutators the candidates of one of its structures have: here its own."""
        return self

    def completed(self, other: SpaceGenerator) -> SpaceGenerator:
        """A copy that takes the rules, postprocessors and mutators that it leaves to the target from another one."""
        made = copy.copy(self)
        if made.takes_rules and made.sch_rules is None:
            made.sch_rules = other.sch_rules
        if made.postprocs is None:
            made.postprocs = other.postprocs
        if made.mutator_probs is None:
            made.mutator_probs = other.mutator_probs
        return made

    def generate_design_space(self, mod: PrimFunc | IRModule, target: Target | None = None) -> list[Schedule]:
        """Random schedules of the space, one per structure that a search begins with."""
        generator = np.random.default_rng(0)
        return [
            sketch.materialize(mod, row)
            for sketch in self.generate_sketches(mod, target or Target("cpu"))
            for row in sketch.sample(1, generator)
        ]

    @abstractmethod
    def generate_sketches(self, mod: PrimFunc | IRModule, target: Target) -> list[Sketch]:
        """The structures that a search begins with, with open decisions."""

    def structures(self, mod: PrimFunc | IRModule, target: Target) -> Structures:
        """All structures, of which those that a search begins with are known."""
        return Structures(self.generate_sketches(mod, target))

    def clone(self) -> SpaceGenerator:
        """An independent copy, with rules, postprocessors and mutators of its own."""
        made = copy.copy(self)
        if self.sch_rules is not None:
            made.sch_rules = [rule.clone() for rule in self.sch_rules]
        if self.postprocs is not None:
            made.postprocs = [postproc.clone() for postproc in self.postprocs]
        if self.mutator_probs is not None:
            made.mutator_probs = {mutator.clone(): share for mutator, share in self.mutator_probs.items()}
        return made

    @staticmethod
    def create(
        kind: str | Callable[..., Any] = "post-order-apply", *args: Any, **kwargs: Any
    ) -> SpaceGenerator:
        """A generator by name: "post-order-apply", "schedule-fn", "union", ...; or from a function that schedules.

        Raises:
            ScheduleError: it is neither a name nor a function, as a class.
        """
        if callable(kind) and not isinstance(kind, type):
            return SpaceGenerator.kinds["schedule-fn"](kind, *args, **kwargs)
        return SpaceGenerator.kinds[kind](*args, **kwargs)  # type: ignore[index]  # a class is refused there


def listed(what: str, given: Any, kind: str, types: Any) -> list[Any]:
    """The parts that a user gave as a list.

    Args:
        what: where they were given, for messages.
        kind: what each of them is called.
        types: what each of them is an instance of.

    Raises:
        ScheduleError: they are no list, or one of them is something else.
    """
    if not isinstance(given, list | tuple):
        raise ScheduleError(f"{what} is a list of {kind}s, got {given!r}; write [{kind}]")
    for item in given:
        _require_one(what, item, kind, types)
    return list(given)


def _shares(what: str, given: Any) -> dict[Mutator, float]:
    """Mutators with their shares, as a user gave them."""
    if not isinstance(given, Mapping):
        raise ScheduleError(
            f"{what} is a dict of mutators and their shares, got {given!r}; write {{mutator: 0.5}}"
        )
    for mutator, share in given.items():
        _require_one(what, mutator, "mutator", Mutator)
        if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share < math.inf:
            raise ScheduleError(
                f"{what}: the share of {type(mutator).__name__} is a number of at least 0, got {share!r}"
            )
    return dict(given)


def _require_one(what: str, item: Any, kind: str, types: Any) -> None:
    if isinstance(item, type):
        raise ScheduleError(f"{what} holds {kind}s, got the class {item.__name__}; write {item.__name__}()")
    if not isinstance(item, types):
        raise ScheduleError(f"{what} holds {kind}s, got {item!r}")
