"""How the interpreter refuses what a program must not do."""

from __future__ import annotations

from typing import Any

from ...error import IRError


class InterpreterError(IRError):
    """The interpreted program did something undefined, an assertion of it failed, or it uses what is not known here."""


class UndefinedError(InterpreterError):
    """The interpreted program did what a rule of ``docs/semantics.md`` leaves undefined."""


def refusal(rule: str, message: str, expression: Any = None) -> UndefinedError:
    """The error for a broken rule of ``docs/semantics.md``; it says what was found and in which expression."""
    place = "" if expression is None else f", in {expression}"
    return UndefinedError(f"{message}{place} [{rule}]")
