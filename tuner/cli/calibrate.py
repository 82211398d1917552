"""``loopsmith calibrate``: what was measured of this machine, and what the estimates assume where nothing was."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from cost_models import Calibration
from database import Database, MemoryDatabase, open_for_writing
from database.secrets import masked
from ir.target import Target
from runners import WorkerPool

from ..calibration import calibrate as calibration_of_host
from ..calibration import known_calibration
from ..console import Fitted
from ..error import TunerError
from .console import note, out, print_json, working
from .options import JsonOption


def calibrate(
    database: Annotated[
        str | None,
        typer.Option(
            help="Tuning database that keeps the figures, as --database of `loopsmith tune`; without one they are only shown."
        ),
    ] = None,
    again: Annotated[bool, typer.Option(help="Measure even if the database knows this machine.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure this machine for the estimates of the search, and show the figures.

    It takes about two seconds, and the machine to itself. A search does the same once per database, which is tuning.db where it names
    none.

    Example: loopsmith calibrate --database tuning.db
    """
    store: Database = MemoryDatabase() if database is None else open_for_writing(database)
    known = None if again else known_calibration(store)
    if known is not None:
        title = f"this machine, as {masked(str(database))} knows it"
    else:
        messages: list[str] = []
        with working("measuring"), WorkerPool(1) as pool:
            found = calibration_of_host(store, pool, again=True, tell=messages.append)
        if found is None:
            raise TunerError(messages[-1])
        kept = (
            "kept nowhere: --database keeps them for searches"
            if database is None
            else f"kept in {masked(database)}"
        )
        kept = "" if found.disturbed else f", {kept}"
        known, title = found, f"this machine, measured now{kept}"
    if as_json:
        print_json({"target": str(Target("cpu")), **known.as_json()})
    else:
        out.print(_table(known, title))
        for remark in known.notes:
            note(remark)
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
            "-" if value is None else _short(value, unit),
            unit,
            "" if value is None or found.hertz is None else _per_second(value, unit, found.hertz),
        )
    return Fitted(table)


def _short(value: float, unit: str) -> str:
    """A few digits of a figure; what takes less than a cycle is told from nothing by no clock.

    >>> _short(0.0, "cycles"), _short(2.193, "cycles"), _short(4706.4, "cycles")
    ('< 1', '2.19', '4,706')
    """
    if unit == "cycles" and value < 1:
        return "< 1"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}" if value < 1e6 else f"{value:.3g}"


def _per_second(value: float, unit: str, hertz: float) -> str:
    """The figure in a unit with seconds, where that says more.

    >>> _per_second(8.0, "bytes/cycle", 3e9), _per_second(3000.0, "cycles", 3e9), _per_second(2.0, "vectors/cycle", 3e9)
    ('24.0 GB/s', '1 us', '')
    >>> _per_second(0.0, "cycles", 2e9)
    '< 0.5 ns'
    """
    if unit == "bytes/cycle":
        return f"{value * hertz / 1e9:.1f} GB/s"
    if unit == "cycles" and value < 1:
        return f"< {_per_second(1.0, unit, hertz)}"
    if unit == "cycles":
        return f"{value / hertz * 1e9:.3g} ns" if value < hertz * 1e-6 else f"{value / hertz * 1e6:.3g} us"
    return ""
