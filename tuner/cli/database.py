"""``loopsmith db``: look into a tuning database, and move records between databases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from database import (
    Database,
    TuningRecord,
    Workload,
    by_speed,
    count_records,
    export_records,
    import_records,
    open_database,
    open_for_writing,
)
from database.pareto import UNITS
from database.workload import WorkloadSummary, entry_function
from ir.error import did_you_mean
from schedules.population import flops_of

from ..console import Fitted
from ..context import TuneContext
from ..error import TunerError
from ..search.optuna_storage import StudyWriter, open_storage
from .console import check_writable, out
from .options import objectives_of

app = typer.Typer(help="Look into a tuning database, and move records.", no_args_is_help=True)
Path_ = Annotated[str, typer.Argument(help="Path or URL of the database.")]


@dataclass(frozen=True)
class _Kernel:
    """A workload as users see it: the number in its database, its name, and its records."""

    number: int
    name: str
    workload: Workload
    records: list[TuningRecord]


def _kernels(store: Database) -> list[_Kernel]:
    by_hash: dict[str, list[TuningRecord]] = {}
    for record in store.get_all_tuning_records():
        by_hash.setdefault(record.workload.shash, []).append(record)
    given = [item for session in store.get_sessions() for item in session.kernels.items()]
    named = {shash: name for shash, name in given if name != "main"}
    return [
        _Kernel(number, named.get(item.shash) or _described(item), item, by_hash.get(item.shash, []))
        for number, item in enumerate(store.get_workloads())
    ]


def _described(workload: Workload) -> str:
    """A name for what was tuned by a version that kept no names: of ``main``, as tasks are called, its blocks but the outermost."""
    summary = WorkloadSummary.of(workload.mod)
    blocks = [name for name in dict.fromkeys(summary.blocks) if name != "root"]
    return summary.name if summary.name != "main" or not blocks else " ".join(blocks)


def _chosen(kernels: list[_Kernel], asked: str) -> _Kernel:
    """The kernel that a number or a name means.

    Raises:
        TunerError: there is none, or the name is that of several.
    """
    if not kernels:
        raise TunerError("the database has no kernel yet")
    found = [item for item in kernels if asked in (str(item.number), item.name)]
    if len(found) == 1:
        return found[0]
    if found:
        numbers = ", ".join(str(item.number) for item in found)
        raise TunerError(f"{len(found)} kernels are called {asked!r}; take one of their numbers: {numbers}")
    names = [item.name for item in kernels]
    raise TunerError(
        f"the database has no kernel {asked!r}; it has 0 to {len(kernels) - 1}, which `loopsmith db ls` names{did_you_mean(asked, names)}"
    )


@app.command("ls")
def list_workloads(path: Path_) -> None:
    """List the kernels by the names that they have in the model that was tuned last: trials, failures, and the best time of each."""
    store = open_database(path, must_exist=True)
    table = Table(title=f"{path}: {len(store)} records", title_justify="left")
    for name in ("#", "kernel", "shapes", "trials", "failed", "best ms", "GFLOP/s", "target"):
        table.add_column(name, justify="left" if name in ("kernel", "shapes", "target") else "right")
    for kernel in _kernels(store):
        trials = [item for item in kernel.records if not item.remeasured]
        best = next((item.secs for item in by_speed(kernel.records)), None)
        func = entry_function(kernel.workload.mod)[1]
        shapes = ", ".join(
            "x".join(str(getattr(d, "value", d)) for d in b.shape) for b in func.buffer_map.values()
        )
        targets = {str(item.target) for item in kernel.records}
        table.add_row(
            str(kernel.number),
            kernel.name,
            shapes,
            str(len(trials)),
            str(sum(not item.is_valid() for item in trials)),
            "-" if best is None else f"{best * 1e3:.4f}",
            "-" if best is None else f"{flops_of(func) / best / 1e9:.1f}",
            "; ".join(sorted(targets)),
        )
    out.print(Fitted(table))


@app.command("top")
def top(
    path: Path_,
    task: Annotated[str, typer.Option(help="Number or name of the kernel, as `db ls` shows them.")] = "0",
    count: Annotated[int, typer.Option("-k", min=1, help="How many records.")] = 5,
    trace: Annotated[bool, typer.Option(help="Print the trace of the best record.")] = False,
) -> None:
    """Show the fastest records of one kernel; a build takes the first of its target that applies."""
    store = open_database(path, must_exist=True)
    kernel = _chosen(_kernels(store), task)
    records = store.get_top_k(kernel.workload, count)
    if not records:
        failed = sum(not item.is_valid() for item in kernel.records)
        out.print(
            f"#{kernel.number} {kernel.name}: no record of a candidate that ran"
            + (f"; {failed} failed" if failed else "; `loopsmith tune` with more trials comes to it")
        )
        return
    table = Table(title=f"#{kernel.number} {kernel.name}: the {len(records)} fastest", title_justify="left")
    for name in ("ms", "runs", "checked", "applies", "target", "decisions"):
        table.add_column(name, justify="left" if name in ("target", "decisions") else "right")
    for record in records:
        decisions = [value for _, value in record.trace_json[1]]
        table.add_row(
            f"{record.secs * 1e3:.4f}",
            str(len(record.run_secs or ())),
            "yes" if record.verified else "no",
            "yes" if record.applies() else "no",
            str(record.target),
            str(decisions),
        )
    out.print(Fitted(table))
    if trace:
        out.print(str(records[0].trace), soft_wrap=True)  # lines of a program stay lines


@app.command("export")
def export(
    path: Path_,
    output: Annotated[Path, typer.Argument(help="The .jsonl file to write.")],
    pruned: Annotated[bool, typer.Option(help="Only the best record of each workload and target.")] = False,
) -> None:
    """Write all records to a file, one line each."""
    check_writable(output)
    count = export_records(open_database(path, must_exist=True), output, pruned=pruned)
    out.print(f"wrote {count} records to {output}")


@app.command("export-study")
def export_study(
    path: Path_,
    storage: Annotated[
        str,
        typer.Argument(help="Optuna's storage: an SQLite file (study.db), a journal (study.log) or a URL."),
    ],
    objectives: Annotated[
        str, typer.Option(help=f"The trials' values, with commas between, of {', '.join(UNITS)}.")
    ] = "time",
) -> None:
    """Write all candidates into Optuna studies, one per kernel and target; those that are there already are skipped.

    Example: loopsmith db export-study tuning.db study.db && optuna-dashboard sqlite:///study.db
    """
    names = objectives_of(objectives)
    store = open_database(path, must_exist=True)
    opened = open_storage(storage)
    added = studies = 0
    for kernel in _kernels(store):
        workload, records = kernel.workload, kernel.records
        targets = {item.place[1]: item.target for item in records if item.target is not None}
        for key, target in targets.items():
            structures = TuneContext(workload.mod, target).structures()
            writer = StudyWriter(opened, kernel.name, workload, target, structures, names)
            added += writer.write([item for item in records if item.place[1] == key])
            studies += 1
    out.print(f"added {added} trials to {studies} studies in {storage}")


@app.command("import")
def import_(
    path: Path_, source: Annotated[Path, typer.Argument(help="A .jsonl file of exported records.")]
) -> None:
    """Add the records of a file; those that are there already are skipped."""
    if not source.is_file():
        raise TunerError(f"there is no file {source}")
    added = import_records(open_for_writing(path), source)
    there = count_records(source) - added
    if not added and not there and source.stat().st_size:
        raise TunerError(f"{source} holds no tuning records; give a file that `loopsmith db export` wrote")
    out.print(f"added {added} records from {source}" + (f"; {there} were there already" if there else ""))
