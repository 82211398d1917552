"""The errors of the IR packages: one base class, from which each package derives its own."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class IRError(Exception):
    """Base class of every error that the compiler raises on purpose; its message names the place and the fix."""


class IRTypeError(IRError, TypeError):
    """A node, operator or function got a value of the wrong kind or dtype."""


class IRValueError(IRError, ValueError):
    """A node, operator or function got a value of the right kind that it cannot accept."""


class KilledProcessError(IRError):
    """A process that computed a part of the work was killed before it had an answer."""


class DiagnosticError(IRError):
    """A program could not be parsed or verified; the message carries its source lines."""


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The end of a message about an unknown name: ``"; did you mean 'float32' or 'float64'?"``, or "" if nothing is near.

    Capital letters count as small ones: who writes ``CUDA`` means ``cuda``.
    """
    by_text: dict[str, list[str]] = {}
    for item in known:
        by_text.setdefault(item.lower(), []).append(item)
    close = difflib.get_close_matches(name.lower(), by_text, n=3, cutoff=cutoff)
    near = [repr(item) for text in close for item in by_text[text]][:3]
    if not near:
        return ""
    return f"; did you mean {' or '.join([', '.join(near[:-1]), near[-1]]) if near[1:] else near[0]}?"
