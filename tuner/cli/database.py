"""``loopsmith db``: look into a tuning database, and move records between databases."""

from __future__ import annotations

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
from schedules.population import flops_of

from ..console import Fitted
from ..context import TuneContext
from ..error import TunerError
from ..search.optuna_storage import StudyWriter, open_storage
from .console import check_writable, out
from .options import objectives_of

app = typer.Typer(help="Look into a tuning database, and move records.", no_args_is_help=True)
Path_ = Annotated[str, typer.Argument(help="Path or URL of the database.")]


def _workloads(store: Database) -> list[tuple[int, Workload, list[TuningRecord]]]:
    by_hash: dict[str, list[TuningRecord]] = {}
    for record in store.get_all_tuning_records():
        by_hash.setdefault(record.workload.shash, []).append(record)
    return [(i, item, by_hash.get(item.shash, [])) for i, item in enumerate(store.get_workloads())]


def _kernel_name(workload: Workload) -> str:
    """The name of a workload's function; of one that is called ``main``, as tasks are, the names of its blocks but the outermost."""
    summary = WorkloadSummary.of(workload.mod)
    blocks = [name for name in dict.fromkeys(summary.blocks) if name != "root"]
    return summary.name if summary.name != "main" or not blocks else " ".join(blocks)


@app.command("ls")
def list_workloads(path: Path_) -> None:
    """List the workloads: trials, failures, and the best time of each."""
    store = open_database(path, must_exist=True)
    table = Table(title=f"{path}: {len(store)} records", title_justify="left")
    for name in ("task", "kernel", "shapes", "trials", "failed", "best ms", "GFLOP/s", "target"):
        table.add_column(name, justify="left" if name in ("kernel", "shapes", "target") else "right")
    for number, workload, records in _workloads(store):
        trials = [item for item in records if not item.remeasured]
        best = next((item.secs for item in by_speed(records)), None)
        func = entry_function(workload.mod)[1]
        shapes = ", ".join(
            "x".join(str(getattr(d, "value", d)) for d in b.shape) for b in func.buffer_map.values()
        )
        targets = {str(item.target) for item in records}
        table.add_row(
            str(number),
            _kernel_name(workload),
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
    task: Annotated[int, typer.Option(help="Number of the workload, as `db ls` shows it.")] = 0,
    count: Annotated[int, typer.Option("-k", min=1, help="How many records.")] = 5,
    trace: Annotated[bool, typer.Option(help="Print the trace of the best record.")] = False,
) -> None:
    """Show the fastest records of one workload."""
    store = open_database(path, must_exist=True)
    found = _workloads(store)
    if not 0 <= task < len(found):
        raise TunerError(
            f"the database has no task {task}; it has 0 to {len(found) - 1}"
            if found
            else "the database has no task yet"
        )
    _, workload, _ = found[task]
    records = store.get_top_k(workload, count)
    table = Table(title=f"task {task}: the {len(records)} fastest", title_justify="left")
    for name in ("ms", "runs", "checked", "decisions"):
        table.add_column(name, justify="left" if name == "decisions" else "right")
    for record in records:
        decisions = [value for _, value in record.trace_json[1]]
        table.add_row(
            f"{record.secs * 1e3:.4f}",
            str(len(record.run_secs or ())),
            "yes" if record.verified else "no",
            str(decisions),
        )
    out.print(Fitted(table))
    if trace and records:
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
    for _, workload, records in _workloads(store):
        targets = {item.place[1]: item.target for item in records if item.target is not None}
        for key, target in targets.items():
            structures = TuneContext(workload.mod, target).structures()
            writer = StudyWriter(opened, _kernel_name(workload), workload, target, structures, names)
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
