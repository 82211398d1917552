"""``loopsmith calibrate``: what was measured of this machine, and what the estimates assume where nothing was."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from cost_models import Calibration
from database import Database, MemoryDatabase, open_for_writing
from ir.target import Target
from runners import WorkerPool

from ..calibration import calibrate as calibration_of_host
from ..calibration import known_calibration
from ..console import Fitted
from ..error import TunerError
from .console import out


def calibrate(
    database: Annotated[
        str | None,
        typer.Option(
            help="Tuning database that keeps the figures: a path (SQLite) or a URL; none by default."
        ),
    ] = None,
    again: Annotated[bool, typer.Option(help="Measure even if the database knows this machine.")] = False,
) -> None:
    """Measure this machine for the estimates of the search, and show the figures.

    It takes about two seconds, and the machine to itself. A search does the same once per database.

    Example: loopsmith calibrate --database tuning.db
    """
    store: Database = MemoryDatabase() if database is None else open_for_writing(database)
    known = None if again else known_calibration(store)
    if known is not None:
        out.print(_table(known, f"this machine, as {database} knows it"))
    else:
        messages: list[str] = []
        with out.status("measuring"), WorkerPool(1) as pool:
            found = calibration_of_host(store, pool, again=True, tell=messages.append)
        if found is None:
            raise TunerError(messages[-1])
        kept = "" if database is None or found.disturbed else f", kept in {database}"
        out.print(_table(found, f"this machine, measured now{kept}"))
        known = found
    for note in known.notes:
        out.print(note)
    if known.disturbed:
        raise TunerError(
            "other processes disturbed the measurement, which is not kept; try again on a quieter machine"
        )


def _table(found: Calibration, title: str) -> Fitted:
    target = Target("cpu")
    table = Table(title=f"{title}: {target}", title_justify="left")
    for name in ("figure", "value", "unit", "per second"):
        table.add_column(name, justify="left" if name in ("figure", "unit") else "right")
    for item in found.figures():
        value = getattr(found, item.name)
        unit = item.metadata["unit"]
        table.add_row(
            item.metadata["meaning"],
            "-" if value is None else _short(value),
            unit,
            "" if value is None or found.hertz is None else _per_second(value, unit, found.hertz),
        )
    return Fitted(table)


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}" if value < 1e6 else f"{value:.3g}"


def _per_second(value: float, unit: str, hertz: float) -> str:
    """The figure in a unit with seconds, where that says more.

    >>> _per_second(8.0, "bytes/cycle", 3e9), _per_second(3000.0, "cycles", 3e9), _per_second(2.0, "vectors/cycle", 3e9)
    ('24.0 GB/s', '1 us', '')
    """
    if unit == "bytes/cycle":
        return f"{value * hertz / 1e9:.1f} GB/s"
    if unit == "cycles":
        return f"{value / hertz * 1e9:.3g} ns" if value < hertz * 1e-6 else f"{value / hertz * 1e6:.3g} us"
    return ""
