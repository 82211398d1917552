"""How the commands of databases answer: a table that fits the terminal, or JSON for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.table import Table

from database.secrets import masked

from ...console import Fitted
from ..console import out

Path_ = Annotated[str, typer.Argument(help="Path or URL of the database, as --database of `loopsmith tune`.")]

_ON_THE_RIGHT = ("#", "ms", "GFLOP", "trials", "failed", "records", "runs", "only", "times")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table, or a paragraph for each row where the terminal is too narrow."""
    table = Table(title=masked(title), title_justify="left")
    for name in columns:
        is_number = any(part in name for part in _ON_THE_RIGHT)
        table.add_column(name, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*row)
    out.print(Fitted(table))


def date_text(seconds: float | None) -> str:
    """A time of this machine's zone, as ``2026-11-30 21:10``."""
    if seconds is None:
        return "-"
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g} s"


def count_of(number: int, what: str) -> str:
    """A number with what it counts: ``1 record``, ``2 records``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
