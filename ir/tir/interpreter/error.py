"""How the interpreter refuses what a program must not do: the rule, what was found, and where the program was.

Errors learn their place on their way out: each statement that an error passes through adds what it knows, so that nothing is noted
while all goes well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...error import IRError
from .. import stmt as S
from ..spelled import spelled

_WIDTH = 160
"""Characters of a statement that are shown at most."""
_SHOWN = 8
"""Of nested calls, so many of the innermost and of the outermost are shown at most."""


@dataclass
class Place:
    """Where a function was."""

    statement: str | None = None
    """The innermost statement, as script: its first line."""
    blocks: list[str] = field(default_factory=list)
    """The blocks around it with the values of their variables, from the innermost to the outermost."""
    loops: list[str] = field(default_factory=list)
    """The values of loop variables around it, from the innermost to the outermost."""
    function: str | None = None
    """The name of the function, if another one called it."""

    def lines(self) -> list[str]:
        """The place in words."""
        return [
            *([] if self.statement is None else [f"at {self.statement}"]),
            *[f"in block {block}" for block in self.blocks],
            *([f"for {', '.join(reversed(self.loops))}"] if self.loops else []),
            *([] if self.function is None else [f"in function {self.function}"]),
        ]


class InterpreterError(IRError):
    """The interpreted program did something undefined, an assertion of it failed, or it uses what is not known here."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.places = [Place()]
        """Where the program was; behind it, where the callers of its function were."""

    @property
    def rule(self) -> str | None:
        """The broken rule of ``docs/semantics.md``, which ends the message, if it names one."""
        found = re.search(r"\[([\w-]+)\]$", str(self.args[0]))
        return None if found is None else found[1]

    def __str__(self) -> str:
        inner, outer = self.places[:_SHOWN], self.places[_SHOWN:]
        lines = [line for place in inner for line in place.lines()]
        if len(outer) > _SHOWN:
            lines.append(f"... called through {len(outer) - _SHOWN} more calls")
        lines += [line for place in outer[-_SHOWN:] for line in place.lines()]
        return "\n  ".join([str(self.args[0]), *lines])

    def at(self, statement: S.Stmt) -> InterpreterError:
        """It happened in a statement, or in one inside of it that is known already."""
        place = self.places[-1]
        if place.statement is None:
            line = " ".join(spelled(statement).split())
            place.statement = line if len(line) <= _WIDTH else f"{line[: _WIDTH - 4]} ..."
        return self

    def in_block(self, name: str, variables: Mapping[str, Any]) -> InterpreterError:
        """It happened in a block, for values of its variables."""
        values = _values(variables.items())
        self.places[-1].blocks.append(f"{name}: {values}" if values else name)
        return self

    def in_loop(self, variable: str, value: Any) -> InterpreterError:
        """It happened in an iteration of a loop."""
        self.places[-1].loops.append(_values([(variable, value)]))
        return self

    def in_function(self, name: str) -> InterpreterError:
        """It happened in a function; what is added from now on is the place of its caller."""
        self.places[-1].function = name
        self.places.append(Place())
        return self


def _values(pairs: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in pairs)


class UndefinedError(InterpreterError):
    """The interpreted program did what a rule of ``docs/semantics.md`` leaves undefined."""


class ElementError(UndefinedError):
    """It did so to an element of memory, which who accessed it names by indices.

    Args:
        rule: the broken rule.
        what: what happened, ``{}`` for the element.
        name: that of the buffer.
        index: the offset of the element behind the buffer's address, which is all that memory knows.
    """

    def __init__(self, rule: str, what: str, name: str, index: int) -> None:
        super().__init__(f"{what.format(f'element {index} of {name}')} [{rule}]")
        self.index = index
        self._rule, self._what = rule, what

    def __reduce__(self) -> Any:
        return UndefinedError, (self.args[0],), {"places": self.places}  # pickled, it has its name for good

    def of(self, name: str) -> ElementError:
        """The error with the element as the program calls it."""
        self.args = (f"{self._what.format(name)} [{self._rule}]",)
        return self


def element(name: str, indices: Iterable[int]) -> str:
    """An element as a program writes it."""
    return f"{name}[{', '.join(map(str, indices))}]"


def refusal(rule: str, message: str, expression: Any = None) -> UndefinedError:
    """The error for a broken rule of ``docs/semantics.md``; it says what was found and in which expression."""
    place = "" if expression is None else f", in {expression}"
    return UndefinedError(f"{message}{place} [{rule}]")
