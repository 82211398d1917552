"""Consoles of the command line and of the progress display."""

from __future__ import annotations

from rich.console import Console

_UNLIMITED = 10_000


def make_console(stderr: bool = False) -> Console:
    """A console as wide as the terminal; where the output is a pipe or a file, tables are as wide as their content.

    It prints what it is given: the brackets of names, paths and traces are no markup.
    """
    console = Console(stderr=stderr, soft_wrap=True, highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console
