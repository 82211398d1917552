"""Consoles of the command line and of the progress display, and tables that a narrow terminal can show."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

_UNLIMITED = 10_000


_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What terminals obey instead of showing it, and halves of characters, which cannot be written."""


class _Printer(Console):
    """A console that shows no text as anything but text: names in databases, libraries and models are anybody's."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            is_text = not segment.control  # rich's own, such as those that move the cursor, are marked
            yield Segment(printable(segment.text), segment.style) if is_text else segment


def printable(text: str) -> str:
    """A text without control characters, which are replacement characters (U+FFFD) in it.

    >>> printable(chr(27) + "[31mred").encode()
    b'\\xef\\xbf\\xbd[31mred'
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def make_console(stderr: bool = False) -> Console:
    """A console as wide as the terminal; where the output is a pipe or a file, lines are as long as their content.

    It prints what it is given: the brackets of names, paths and traces are no markup, and control characters are :func:`printable`.
    """
    console = _Printer(stderr=stderr, highlight=False, markup=False)
    if not console.is_terminal:
        console.soft_wrap = True
        console.width = _UNLIMITED
    return console


class Fitted:
    """A table where its columns fit without cutting a word, else one paragraph per row: ``kernel conv2d, weight 2, ...``.

    Args:
        table: what is shown.
        named: whether paragraphs have the names of the columns; without them they are for cells that explain themselves.
    """

    def __init__(self, table: Table, named: bool = True) -> None:
        self.table, self._named = table, named

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        least, wanted = self._widths()
        room = options.max_width - sum(least) - _frame(len(least))
        if room >= sum(wanted) - sum(least):
            yield self.table
            return
        if room >= 0:
            # Left to itself, rich takes from the widest columns what they need, and leaves others what they do not.
            for column, width in zip(self.table.columns, _shared(least, wanted, room), strict=True):
                column.width = width
            yield self.table
            return
        headers = [str(column.header) for column in self.table.columns]
        paragraphs = [str(self.table.title or "")]
        for row in zip(*(column.cells for column in self.table.columns), strict=True):
            cells = [
                f"{header} {cell}" if self._named else str(cell)
                for header, cell in zip(headers, row, strict=True)
                if cell
            ]
            paragraphs.append(", ".join(cells))
        paragraphs.append(str(self.table.caption or ""))
        for text in filter(None, paragraphs):
            yield Text(textwrap.fill(text, options.max_width, subsequent_indent="  ", break_on_hyphens=False))

    def _widths(self) -> tuple[list[int], list[int]]:
        """The characters of the longest word, and of the longest line, of each column; without its padding."""
        least, wanted = [], []
        for column in self.table.columns:
            lines = [line for cell in (column.header, *column.cells) for line in str(cell).splitlines()]
            wanted.append(max(map(cell_len, lines), default=0))
            words = lines if column.no_wrap else [word for line in lines for word in line.split()]
            least.append(max([column.min_width or 0, *map(cell_len, words)]))
        return least, [max(pair) for pair in zip(least, wanted, strict=True)]


def _frame(columns: int) -> int:
    """Characters of a table with so many columns that are borders and padding."""
    return 3 * columns + 1


def _shared(least: list[int], wanted: list[int], room: int) -> list[int]:
    """Widths between both, which take up the room beyond the least: those that want little get it first.

    >>> _shared([4, 4, 4], [6, 30, 40], 20)
    [6, 13, 13]
    """
    widths = list(least)
    order = sorted(range(len(least)), key=lambda place: wanted[place] - least[place])
    for number, place in enumerate(order):
        given = min(wanted[place] - least[place], room // (len(order) - number))
        widths[place] += given
        room -= given
    return widths
