"""Arguments of primitives: how each is made definite before a step, kept in the trace, given back on replay, and printed.

A primitive's declaration names one of these per parameter (:func:`schedules.declaration.primitive`). What only one primitive
takes is defined beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .error import ScheduleError
from .state import ScheduleState

Show = Callable[[Any], str]
"""A value as Python text; random variables by their names in the trace."""


class Argument:
    """An attribute of the instruction: plain data that is kept as it is given."""

    is_input = False
    """Inputs are random variables and numbers that may be sampled; everything else is an attribute."""
    slots: int | None = 1
    """How many of the instruction's inputs or attributes it takes up; None for all that are left."""

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        """What a value stands for in this schedule: a name becomes a block, a buffer its position, and so on.

        Args:
            sch: the schedule, before the step.
            value: what the caller passed.
            given: the arguments by name; those before this one are settled.

        Raises:
            ScheduleError: it stands for nothing.
        """
        return value

    def record(self, sch: ScheduleState, value: Any) -> Sequence[Any]:
        """A settled value as the trace keeps it, one item per slot."""
        return (value,)

    def replay(self, slots: Sequence[Any]) -> Any:
        """The value to pass to the method, from what the trace keeps."""
        return slots[0]

    def text(self, name: str, value: Any, show: Show) -> str | None:
        """The argument in the call that a trace prints; None leaves it out."""
        return f"{name}={show(value)}"


class Input(Argument):
    """A number, an expression over sampled numbers, or other data that is kept among the inputs."""

    is_input = True


class Flag(Argument):
    """True or False, which other writers keep as 1 or 0."""

    def replay(self, slots: Sequence[Any]) -> Any:
        return bool(slots[0])


class Integers(Argument):
    """A list of integers."""

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        return [int(getattr(item, "value", item)) for item in value or ()]


class Block(Input):
    """A block, or the name of one."""

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        return sch._named(value)


class Blocks(Input):
    """A list of blocks or names; None and no blocks mean the same."""

    slots = None

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        return [sch._named(item) for item in value or ()]

    def replay(self, slots: Sequence[Any]) -> Any:
        # Traces of earlier versions list them one by one.
        nested = len(slots) == 1 and isinstance(slots[0], list | tuple)
        return list(slots[0] if nested else slots)

    def text(self, name: str, value: Any, show: Show) -> str | None:
        return f"{name}={show(value)}" if value else None


class Loop(Input):
    """A loop."""


class Loops(Input):
    """Loops one after the other (``*loops``), or one list of them."""

    slots = None

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        return list(value[0] if len(value) == 1 and isinstance(value[0], list) else value)

    def record(self, sch: ScheduleState, value: Any) -> Sequence[Any]:
        return list(value)

    def replay(self, slots: Sequence[Any]) -> Any:
        return list(slots)

    def text(self, name: str, value: Any, show: Show) -> str | None:
        return ", ".join(show(item) for item in value) or None


class BlockOrLoop(Block):
    """A block, the name of one, or a loop."""


class Factors(Input):
    """The extents of new loops: numbers, sampled numbers, and None for what is left."""

    slots = None

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        if not isinstance(value, list | tuple):
            raise ScheduleError(f"{sch._step}: expected a list of factors, such as [None, 8], got {value!r}")
        return value

    def record(self, sch: ScheduleState, value: Any) -> Sequence[Any]:
        return list(value)

    def replay(self, slots: Sequence[Any]) -> Any:
        return list(slots)


class BufferIndex(Argument):
    """The position of a buffer among those that ``block`` reads (or writes); its name, or the buffer itself."""

    def __init__(self, is_write: bool) -> None:
        self._is_write = is_write

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        if isinstance(value, int):
            return value
        return sch._buffer_index(sch._block(given["block"]), value, self._is_write)


class AnyBuffer(Argument):
    """A buffer that ``block`` reads or writes: ("read" or "write", position), its name, or the buffer itself."""

    slots = 2

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        is_write, position = sch._which_buffer(sch._block(given["block"]), value)
        return ("write" if is_write else "read", position)

    def record(self, sch: ScheduleState, value: Any) -> Sequence[Any]:
        kind, position = value
        return (position, kind == "write")

    def replay(self, slots: Sequence[Any]) -> Any:
        position, is_write = slots
        return ("write" if is_write else "read", int(position))

    def text(self, name: str, value: Any, show: Show) -> str | None:
        return f'{name}=("{value[0]}", {value[1]})'


class Map(Argument):
    """An index map, or a Python function of indices.

    Args:
        ndim: how many indices it takes: a function of the schedule and of the arguments before it.
    """

    def __init__(self, ndim: Callable[[ScheduleState, Mapping[str, Any]], int]) -> None:
        self._ndim = ndim

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        return sch._as_index_map(value, self._ndim(sch, given), sch._block(given["block"]))

    def record(self, sch: ScheduleState, value: Any) -> Sequence[Any]:
        return (sch._recorded_map(value),)


class Decision:
    """What a sampling primitive decides: kept beside the instruction, so that it can be changed or left open.

    Args:
        draw: from the schedule, the decision, and the arguments before it to a decision that fits them. None is drawn; any other
            is checked, and fitted where it was made for another program.
    """

    def __init__(self, draw: Callable[[Any, Any, Mapping[str, Any]], Any]) -> None:
        self.draw = draw
