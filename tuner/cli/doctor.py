"""``loopsmith doctor``: what is installed and what works here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from ..console import Fitted
from ..doctor import examine
from .console import note, out, print_json, working
from .options import JsonOption


def doctor(
    measure: Annotated[
        bool, typer.Option(help="Measure the peak and the noise of this machine as well, in three seconds.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Say what is installed, what this machine has, and what would not work; exit status 1 if something that everybody needs does not.

    Example: loopsmith doctor --json > machine.json
    """
    with working("looking at this machine"):
        findings = list(examine(measure))
    problems = sum(finding.is_problem for finding in findings)
    if as_json:
        print_json({"findings": [asdict(item) for item in findings], "problems": problems})
    else:
        table = Table("topic", "what", "found", "advice", box=None, pad_edge=False)
        for item in findings:
            table.add_row(item.topic, item.what, item.says, item.advice)
        out.print(Fitted(table, named=False))
        note("everything that is always needed works" if not problems else f"{problems} problems")
    if problems:
        raise typer.Exit(1)
