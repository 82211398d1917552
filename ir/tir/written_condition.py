"""Where a program is written as a Python function of its indices, the truth of a comparison is no value of the program.

Everywhere else `a == b` has the truth of identity, so that dicts and `in` work on expressions. In the function that is given to
`te.compute`, a reducer or an index map, and where frames of a builder are open, that would choose a branch silently: `i == 1 or i == 5`
would be `i == 5`. There it is refused, and so is, everywhere, the question whether a sampled number of a schedule is a certain one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..error import IRValueError

_WRITTEN: ContextVar[bool] = ContextVar("a program is being written as a Python function", default=False)

_COMPILER = __name__.partition(".")[0]
"""The package whose own code may be called from such a function, and asks for identity."""


@contextmanager
def written_as_function(is_written: bool = True) -> Iterator[None]:
    """Around Python code whose values are a part of the program, or around other code inside of it."""
    token = _WRITTEN.set(is_written)
    try:
        yield
    finally:
        _WRITTEN.reset(token)


def check_identity_is_meant(a: object, b: object, depth: int = 1) -> None:
    """Refuses the truth of `a == b` for which code of a user asks, `depth` frames above the caller, while it writes a program, or of
    what a schedule has sampled.

    Raises:
        IRValueError: it is refused; the message names the fix.
    """
    package = getattr(a, "sampled_by", None)
    if package is None and not _WRITTEN.get():
        return
    asking = sys._getframe(depth + 1).f_globals.get("__name__", "").partition(".")[0]
    if (
        package is not None
        and isinstance(getattr(b, "value", None), int)
        and asking not in (_COMPILER, package)
    ):
        raise IRValueError(
            f"whether {_shown(a)} == {b} is not known: {_shown(a)} stands for a number that a schedule has sampled;"
            f" schedule.get({_shown(a)}) is the number (a search then looks at one candidate at a time)"
        )
    if _WRITTEN.get() and asking != _COMPILER:
        raise IRValueError(
            f"whether {_shown(a)} == {_shown(b)} is not known while the program is written: Python's if, and, or, not, in, any and all"
            " would decide it once, for all elements; use tir.if_then_else, tir.all, tir.any and tir.Not on elements of tensors,"
            " such as tir.any(i == 1, i == 5) instead of i in (1, 5)"
        )


def _shown(value: object) -> str:
    return str(getattr(value, "name", value))
