"""Instructions: the steps of a trace. Their kinds come from the declarations of the primitives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ir.kinds import Kinds

from .argument import Argument
from .error import TraceError
from .state import ScheduleState


@dataclass(frozen=True, eq=False)
class InstructionKind:
    """A kind of instruction: what a primitive's declaration says about its steps.

    Attributes:
        name: the name in JSON, such as ``Split``.
        method: the schedule's method.
        arguments: how the parameters of the method are recorded, in the method's order; a decision is none of them.
        is_pure: whether it changes nothing and may be dropped when its outputs are unused.
        returns_list: whether it gives a list of random variables, even of one.
        variadic: the parameter that takes any number of values (``*loops``), if there is one.
        decision: the parameter that takes the decision, if it samples.
    """

    name: str
    method: str
    arguments: Mapping[str, Argument]
    is_pure: bool = False
    returns_list: bool = False
    variadic: str | None = None
    decision: str | None = None

    kinds: ClassVar[Kinds[InstructionKind]] = Kinds("instruction", TraceError, f"{__package__}.primitive")
    """All kinds; :func:`schedules.declaration.primitive` enters each primitive's."""

    @staticmethod
    def get(name: str) -> InstructionKind:
        """The kind called ``name``; raises TraceError listing what there is."""
        return InstructionKind.kinds[name]

    @property
    def takes_decision(self) -> bool:
        """Whether it samples."""
        return self.decision is not None

    @property
    def is_postproc(self) -> bool:
        """Whether it separates the design-space part of a trace from postprocessing."""
        return self.name == "EnterPostproc"

    def record(self, sch: ScheduleState, given: Mapping[str, Any], outputs: Sequence[Any]) -> Instruction:
        """The instruction of a step with settled arguments."""
        inputs: list[Any] = []
        attrs: list[Any] = []
        for name, is_input, record in self._recorders:
            slots = inputs if is_input else attrs
            if record is None:
                slots.append(given[name])
            else:
                slots.extend(record(sch, given[name]))
        return Instruction(self, tuple(inputs), tuple(attrs), tuple(outputs))

    @cached_property
    def _recorders(self) -> list[tuple[str, bool, Callable[[ScheduleState, Any], Sequence[Any]] | None]]:
        """(name, whether it is an input, how it is recorded where that is not as it is) of the arguments."""
        return [
            (name, item.is_input, None if type(item).record is Argument.record else item.record)
            for name, item in self.arguments.items()
        ]

    @cached_property
    def _players(self) -> list[tuple[str, bool, int | None, Callable[[Sequence[Any]], Any] | None]]:
        """(name, whether it is an input, slots, how it is given back where that is not as it is) of the arguments."""
        return [
            (name, item.is_input, item.slots, None if type(item).replay is Argument.replay else item.replay)
            for name, item in self.arguments.items()
        ]

    def replayed(self, inputs: Sequence[Any], attrs: Sequence[Any]) -> dict[str, Any]:
        """The method's arguments by name; those that an older trace does not have yet are left out.

        Raises:
            TraceError: there are more inputs or attributes than the primitive takes.
        """
        given: dict[str, Any] = {}
        taken = [0, 0]
        for name, is_input, slots, replay in self._players:
            source = inputs if is_input else attrs
            begin = taken[is_input]
            end = len(source) if slots is None else begin + slots
            if begin < end <= len(source):
                given[name] = source[begin] if replay is None else replay(source[begin:end])
                taken[is_input] = end
        if taken[True] < len(inputs) or taken[False] < len(attrs):
            raise TraceError(
                f"{self.name} takes {', '.join(self.arguments) or 'nothing'}; the trace has inputs {list(inputs)} and"
                f" attributes {list(attrs)}"
            )
        return given

    def apply(self, sch: ScheduleState, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
        """Replay a step; what the method returns."""
        given = self.replayed(inputs, attrs)
        if self.decision is not None:
            given[self.decision] = decision
        if self.variadic is None:
            return getattr(sch, self.method)(**given)
        several = given.pop(self.variadic, ())
        return getattr(sch, self.method)(*several, **given)

    def __repr__(self) -> str:
        return f"InstructionKind({self.name})"


@dataclass(frozen=True, eq=False)
class Instruction:
    """One step: its kind, the random variables and numbers it takes, its constant attributes, and what it returns."""

    kind: InstructionKind
    inputs: tuple[Any, ...]
    attrs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    def __repr__(self) -> str:
        return (
            f"{self.kind.name}(inputs={list(self.inputs)}, attrs={list(self.attrs)}) -> {list(self.outputs)}"
        )
