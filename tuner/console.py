"""Consoles of the command line and of the progress display, and tables that a narrow terminal can show."""

from __future__ import annotations

import textwrap

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_UNLIMITED = 10_000


def make_console(stderr: bool = False) -> Console:
    """A console as wide as the terminal; where the output is a pipe or a file, lines are as long as their content.

    It prints what it is given: the brackets of names, paths and traces are no markup.
    """
    console = Console(stderr=stderr, highlight=False, markup=False)
    if not console.is_terminal:
        console.soft_wrap = True
        console.width = _UNLIMITED
    return console


class Fitted:
    """A table where its columns fit without cutting a word, else one paragraph per row: ``kernel conv2d, weight 2, ...``."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = Measurement.get(console, options.update(width=_UNLIMITED), self.table).minimum
        if needed <= options.max_width:
            yield self.table
            return
        headers = [str(column.header) for column in self.table.columns]
        paragraphs = [str(self.table.title or "")]
        for row in zip(*(column.cells for column in self.table.columns), strict=True):
            named = [f"{header} {cell}" for header, cell in zip(headers, row, strict=True) if cell]
            paragraphs.append(", ".join(named))
        paragraphs.append(str(self.table.caption or ""))
        for text in filter(None, paragraphs):
            yield Text(textwrap.fill(text, options.max_width, subsequent_indent="  ", break_on_hyphens=False))
