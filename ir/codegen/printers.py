"""How the modules of a back end enter what prints which class of node."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

_Printer = TypeVar("_Printer", bound=Callable[..., Any])


def entering(
    printers: MutableMapping[type, Callable[..., Any]],
) -> Callable[..., Callable[[_Printer], _Printer]]:
    """A decorator factory: ``@prints(Add, Sub)`` on ``(emitter, node)`` enters the function for nodes of these classes.

    >>> table = {}
    >>> prints = entering(table)
    >>> @prints(int)
    ... def number(emitter, node):
    ...     return str(node)
    >>> table[int] is number
    True
    """

    def prints(*classes: type) -> Callable[[_Printer], _Printer]:
        def enter(function: _Printer) -> _Printer:
            printers.update(dict.fromkeys(classes, function))
            return function

        return enter

    return prints
