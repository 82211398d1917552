"""The results page of databases, made from the rows beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..harness.tables import markdown, number

_HEAD = """# Databases

What storage costs, and what it keeps. `python -m experiments.database.scale` and `python -m experiments.database.tuners` measure and write
this page; a row that is measured again takes the place of the old one. CPU is the process's own time, without a server's; where other
work uses the machine meanwhile, as it did when databases were moved and tuners ran, the clock on the wall says more than the work takes.
Questions were asked, and a million records moved, on two cores of an Intel Xeon (LLVM: rocketlake); the rest ran on two of an AMD EPYC.
"""


def write_page(folder: Path, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the page, and what it is made of."""
    parts = [_HEAD, _questions(rows), _moves(rows), _tuners(rows)]
    (folder / "database.md").write_text("\n".join(part for part in parts if part))


def _questions(rows: Mapping[str, Mapping[str, Any]]) -> str:
    asked = {key: row for key, row in rows.items() if key.startswith("ask ")}
    if not asked:
        return ""
    names = list(dict.fromkeys(name for row in asked.values() for name in row["milliseconds"]))
    header = [
        "ms a kernel",
        *(f"{key.removeprefix('ask ')}, {of}" for key in asked for of in ("median", "95 %", "CPU")),
    ]
    lines = [
        [
            name,
            *(
                number(row["milliseconds"].get(name, {}).get(of))
                for row in asked.values()
                for of in ("median", "p95", "cpu")
            ),
        ]
        for name in names
    ]
    return f"## Questions\n\n{_QUESTIONS}\n\n{markdown(header, lines)}\n"


_QUESTIONS = """Each is asked of other kernels, `query_*` of a program, whose hash is part of the time, the others of a `Workload`. What
replays a trace takes the time of the replay as well, which no storage changes. The number of a column is that of the records."""


def _moves(rows: Mapping[str, Mapping[str, Any]]) -> str:
    moved = {key: row for key, row in rows.items() if key.split()[0] in ("export", "import", "merge")}
    if not moved:
        return ""
    lines = [
        [
            key.rpartition(" ")[0],
            f"{row['records']:,}",
            number(row["seconds"], "{:.0f}"),
            number(row.get("cpu"), "{:.0f}"),
            number(1e3 * row["seconds"] / max(1, row["records"])),
            number(row["mib"], "{:.0f}"),
        ]
        for key, row in moved.items()
    ]
    header = ["what", "records", "seconds", "CPU seconds", "ms a record", "peak MiB"]
    return f"## Moving a database\n\nPeak memory is that of the whole process, libraries included.\n\n{markdown(header, lines)}\n"


def _tuners(rows: Mapping[str, Mapping[str, Any]]) -> str:
    runs = {key: row for key, row in rows.items() if key.startswith("tuners ")}
    if not runs:
        return ""
    header = [
        "storage",
        "tuners",
        "committed",
        "in the database",
        "lost",
        "twice",
        "measured twice",
        "killed",
        "seconds",
    ]
    lines = [
        [
            key.removeprefix("tuners "),
            *(
                str(row[name])
                for name in ("tuners", "committed", "stored", "lost", "twice", "measured_twice", "killed")
            ),
            number(row["seconds"], "{:.0f}"),
        ]
        for key, row in runs.items()
    ]
    return f"## Several tuners on one database\n\n{_TUNERS}\n\n{markdown(header, lines)}\n"


_TUNERS = """Processes that search the same kernels with the same seed at once, so that all want the same candidates, and only pretend to
measure. Each notes what the database has taken. Lost is what it noted and the database does not have, twice are trials of a
candidate that has one already, and measured twice are candidates that two tuners noted."""
