"""``loopsmith db verify``: every record replayed, built, and compared with its program."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from database import RIGHT, open_database, open_for_writing
from database.secrets import masked

from ...console import make_console
from ...interrupt import Interrupts
from ...names import kernel_names
from ...verification import ELSEWHERE, UNREADABLE, Verification, records_to_verify, verify_records
from ..console import out, print_json
from ..options import JsonOption
from .kernels import ID_CHARACTERS, chosen_kernel, kernels_of
from .output import Path_, count_of

_SECONDS = 30.0
"""Between two lines that say how far it is, where there is no terminal."""
_FAILED = 1
"""The exit status where a record is wrong, for scripts."""
_INTERRUPTED = 130
_MEANINGS = {
    RIGHT: "right",
    UNREADABLE: "this version cannot read",
    ELSEWHERE: "replay, and are for other machines",
}


def verify(
    path: Path_,
    kernel: Annotated[
        list[str],
        typer.Option(help="Number or name of a kernel to verify, as `db ls` shows them; all by default."),
    ] = [],  # noqa: B006  typer copies it
    top_k: Annotated[
        int | None,
        typer.Option("--top", min=1, help="Only so many of the best records of each kernel and target."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also what these versions have verified on this machine before.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Replay, build and run every record that a build may use, and compare its outputs with those of the unscheduled program.

    What fails is marked in the database, and builds take the next best from then on. The best records come first. Stop with Ctrl-C, and run
    the same command again to go on. The exit status is 1 where a record has failed. Records of other machines are replayed only.

    Example: loopsmith db verify tuning.db

    Example: loopsmith db verify team.db --top 3 --kernel fused_conv2d_relu
    """
    open_database(path, must_exist=True)
    store = open_for_writing(path)
    workloads = None
    if kernel:
        kernels = kernels_of(store)
        workloads = {chosen_kernel(kernels, item).workload.shash for item in kernel}
    records = records_to_verify(store, top_k=top_k, workloads=workloads, again=again)
    names = kernel_names(store.get_sessions())
    failures: list[Verification] = []
    counts: Counter[str] = Counter()
    interrupted = False
    try:
        with Interrupts() as interrupts, _progress() as progress:
            bar = progress.add_task("verifying", total=len(records))
            told = time.monotonic()
            for found in verify_records(store, records):
                counts[found.outcome] += 1
                if not progress.console.is_terminal and time.monotonic() - told > _SECONDS:
                    told = time.monotonic()
                    progress.console.print(f"verified {sum(counts.values())} of {len(records)}")
                if found.outcome != RIGHT and found.outcome != ELSEWHERE:
                    failures.append(found)
                    if not as_json:
                        progress.console.print(_line(found, names), soft_wrap=True)
                progress.advance(bar)
                interrupts.check()
    except KeyboardInterrupt:
        interrupted = True
    done = sum(counts.values())
    if as_json:
        shown = [
            {
                "id": item.record.digest,
                "outcome": item.outcome,
                "message": item.message,
                "marked": item.is_failure,
            }
            for item in failures
        ]
        print_json({"verified": done, "of": len(records), "outcomes": dict(counts), "failures": shown})
    else:
        out.print(_summary(counts, done, len(records), path))
    if interrupted:
        out.print("interrupted: what was verified is in the database; the same command goes on from here")
        sys.exit(_INTERRUPTED)
    if any(item.is_failure for item in failures):
        raise typer.Exit(_FAILED)


def _progress() -> Progress:
    console = make_console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _line(found: Verification, names: dict[str, str]) -> str:
    """A record that is not right, in a line."""
    workload = found.record.workload
    name = names.get(workload.shash) or workload.shash
    marked = "marked" if found.is_failure else "not marked"
    message = " ".join(found.message.split())[:300]
    return f"{found.record.digest[:ID_CHARACTERS]} {name}: {found.outcome} ({marked}): {masked(message)}"


def _summary(counts: Counter[str], done: int, total: int, path: str) -> str:
    if not total:
        return f"nothing is left to verify in {masked(path)}; --again verifies all of it"
    parts = [f"{number} {_MEANINGS.get(outcome, outcome)}" for outcome, number in counts.most_common()]
    return f"verified {done} of {count_of(total, 'record')}: {', '.join(parts) or 'none'}"
