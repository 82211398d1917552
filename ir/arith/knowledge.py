"""What an analyzer knows of variables, and what it remembers of expressions because of that: one list of all of it.

Conditions hold within scopes: what is learnt there, and what was simplified by it, ends with them.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analyzer import Analyzer


class Knowledge:
    """The state of an analyzer and of its parts.

    Args:
        analyzer: with all parts made.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        a, data = analyzer, analyzer._data
        self.known: tuple[tuple[Any, str], ...] = (
            (a._bounds, "variables"), (a._bounds, "constraints"), (a._modular, "variables"),
            (a._rewrite, "substitutions"), (a._rewrite, "literals"), (a, "_symbolic"), (a, "_facts"),
        )  # fmt: skip
        """Where the bindings of variables and the conditions in force are."""
        self.memories: tuple[tuple[Any, str], ...] = (
            (a._bounds, "memo"), (a._modular, "memo"), (a._rewrite, "memo"), (a._canonical, "memo"), (a, "_parts"),
            (data._bounds, "memo"), (data._bounds, "_exact"), (data._modular, "memo"), (data._rewrite, "memo"),
        )  # fmt: skip
        """Where answers are that follow from it, by expression."""

    def forget(self) -> None:
        """What is known has changed."""
        for part, name in self.memories:
            setattr(part, name, {})

    def enter(self) -> list[Any]:
        """Begin a scope: what is learnt from now on ends with :meth:`leave` of what this returns."""
        saved = [getattr(part, name) for part, name in (*self.known, *self.memories)]
        for (part, name), value in zip(self.known, saved):
            setattr(part, name, copy(value))
        self.forget()
        return saved

    def leave(self, saved: list[Any]) -> None:
        """End a scope."""
        for (part, name), value in zip((*self.known, *self.memories), saved):
            setattr(part, name, value)
