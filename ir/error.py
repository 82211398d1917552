"""The errors of the IR packages: one base class, from which each package derives its own."""

from __future__ import annotations


class IRError(Exception):
    """Base class of every error that the compiler raises on purpose; its message names the place and the fix."""


class IRTypeError(IRError, TypeError):
    """A node, operator or function got a value of the wrong kind or dtype."""


class IRValueError(IRError, ValueError):
    """A node, operator or function got a value of the right kind that it cannot accept."""


class DiagnosticError(IRError):
    """A program could not be parsed or verified; the message carries its source lines."""
