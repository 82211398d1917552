"""What translated code asks of the machine that runs it, so that the translation does not know the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from ...expr import GlobalVar
from .races import Iterations


class Machine(Protocol):
    """:class:`.machine.Interpreter`, as expressions, statements and arguments see it."""

    loops: list[Iterations]
    """The parallel and vectorized loops that run, from the outermost to the innermost."""

    def call_by_name(self, name: GlobalVar, args: Sequence[Any]) -> Any:
        """Runs a function of the module that the program calls."""

    def order(self, iterations: range) -> Iterable[int]:
        """The order in which the iterations of a parallel or vectorized loop run."""
