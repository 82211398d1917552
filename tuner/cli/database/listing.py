"""``loopsmith db ls`` and ``loopsmith db top``: the kernels of a database, and the best records of one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from database import TuningRecord, by_speed, open_database, pareto_front
from database.pareto import UNITS
from ir.time_interval import milliseconds

from ...error import TunerError
from ...names import target_text
from ..console import out, print_json
from ..options import JsonOption, objectives_of
from .kernels import ID_CHARACTERS, Kernel, chosen_kernel, decisions_text, kernels_of, one_by_one, trace_text
from .output import Path_, count_of, print_table


def list_workloads(path: Path_, as_json: JsonOption = False) -> None:
    """List the kernels by the names that they have in the model that was tuned last: trials, failures, and the best time of each.

    Example: loopsmith db ls tuning.db

    Example: loopsmith db ls postgresql+psycopg://user@server/tuning --json
    """
    store = open_database(path, must_exist=True)
    kernels = one_by_one(kernels_of(store))
    if as_json:
        print_json([_described(kernel) for kernel in kernels])
        return
    print_table(
        f"{path}: {count_of(len(store), 'record')}",
        ("#", "kernel", "shapes", "trials", "failed", "best ms", "GFLOP/s", "target"),
        [
            (
                str(kernel.number),
                kernel.name,
                kernel.shapes,
                str(len(kernel.trials)),
                str(kernel.failed),
                "-" if kernel.best_secs is None else milliseconds(kernel.best_secs),
                "-" if kernel.gflops is None else f"{kernel.gflops:.1f}",
                "; ".join(kernel.targets),
            )
            for kernel in kernels
        ],
    )


def _described(kernel: Kernel) -> dict[str, Any]:
    return {
        "number": kernel.number,
        "name": kernel.name,
        "workload": kernel.workload.shash,
        "shapes": kernel.shapes,
        "trials": len(kernel.trials),
        "failed": kernel.failed,
        "records": len(kernel.records),
        "best_secs": kernel.best_secs,
        "gflops": kernel.gflops,
        "targets": kernel.targets,
    }


def top(
    path: Path_,
    task: Annotated[str, typer.Option(help="Number or name of the kernel, as `db ls` shows them.")] = "0",
    count: Annotated[int, typer.Option("-k", min=1, help="How many records.")] = 5,
    objectives: Annotated[
        str,
        typer.Option(
            help=f"Show the records that no other beats in all of these, with commas between, of {', '.join(UNITS)}."
        ),
    ] = "time",
    trace: Annotated[bool, typer.Option(help="Print the trace of the best record.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the fastest records of one kernel; a build takes the first of its target that applies.

    `db show` prints all of a record whose id stands here.

    Example: loopsmith db top tuning.db --task fused_conv2d_relu -k 10
    """
    others = [name for name in objectives_of(objectives) if name != "time"]
    store = open_database(path, must_exist=True)
    kernel = chosen_kernel(kernels_of(store), task)
    records = _front(kernel, objectives)[:count] if others else store.get_top_k(kernel.workload, count)
    if as_json:
        print_json([{"id": item.digest, "applies": item.applies(), **item.as_json()} for item in records])
        return
    if not records:
        failed = sum(not item.is_valid() for item in kernel.records)
        out.print(
            f"#{kernel.number} {kernel.name}: no record of a candidate that ran"
            + (f"; {failed} failed" if failed else "; `loopsmith tune` with more trials comes to it")
        )
        return
    shown = f"the {len(records)} best by {objectives}" if others else f"the {len(records)} fastest"
    measures = [f"{name} {UNITS[name]}" for name in others]
    print_table(
        f"#{kernel.number} {kernel.name}: {shown}",
        ("ms", *measures, "runs", "checked", "applies", "target", "decisions", "id"),
        [
            (
                milliseconds(record.secs),
                *(f"{record.metrics[name]:.6g}" for name in others),
                str(len(record.run_secs or ())),
                "yes" if record.verified else "no",
                "yes" if record.applies() else "no",
                target_text(record.target),
                decisions_text(record),
                record.digest[:ID_CHARACTERS],
            )
            for record in records
        ],
    )
    if trace:
        out.print(trace_text(records[0]), soft_wrap=True)  # lines of a program stay lines


def _front(kernel: Kernel, objectives: str) -> list[TuningRecord]:
    """The records of each target that no other of it beats in all objectives, in the order of the first of these.

    Raises:
        TunerError: there are records, but none of them tells all objectives.
    """
    names = objectives_of(objectives)
    by_place: dict[tuple[str, str], list[TuningRecord]] = {}
    for item in kernel.records:
        by_place.setdefault(item.place, []).append(item)
    standing = [by_speed(items) for items in by_place.values()]
    told = [[item for item in items if {"time", *item.metrics} >= set(names)] for items in standing]
    if any(standing) and not any(told):
        raise TunerError(
            f"no record of {kernel.name} tells {objectives}; `loopsmith tune --objectives {objectives}` measures it"
        )
    return [record for items in told for record in pareto_front(items, names)]
