"""``loopsmith bench``: latency of a built model beside other runtimes, measured in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ir.time_interval import milliseconds

from ..compare.accuracy import formats_of, require_tolerance, tolerance_for
from ..compare.contestants import Source, contestant_of_library, contestants
from ..compare.reference import flatten
from ..compare.survival import require_survives, runs_in_process
from ..compare.turns import Contestant, take_turns
from ..console import Fitted
from .console import note, out, print_json
from .options import JsonOption, Shapes, ToleranceOption


def bench(
    library: Annotated[Path, typer.Argument(help="A model built by `loopsmith build`.")],
    compare: Annotated[
        str,
        typer.Option(
            help="Runtimes to compare with, comma-separated: onnxruntime, torch, torch.compile. They run on the processor."
        ),
    ] = "",
    onnx: Annotated[
        Path | None, typer.Option(help="The ONNX file of the model (default: beside the library).")
    ] = None,
    zoo: Annotated[
        str | None, typer.Option(help="The architecture that was built with --zoo, instead of an ONNX file.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds in which the contestants take turns.")] = 9,
    tolerance: ToleranceOption = None,
    threads: Annotated[int, typer.Option(min=0, help="Threads of every contestant; 0 takes all cores.")] = 0,
    as_json: JsonOption = False,
    shape: Shapes = [],  # noqa: B006
) -> None:
    """Measure latency; with --compare the contestants take turns in one run, and ratios are printed.

    What computes something else than the library is refused.

    PyTorch runs the exported program (.pt2) beside the ONNX file where there is one, else the model's operators one by one.
    """
    names = [item.strip() for item in compare.split(",") if item.strip()]
    ours, arrays, machine = contestant_of_library(library, threads, shape)
    if runs_in_process(machine):
        require_survives(ours.call)
    source = Source(onnx or library.with_suffix(".onnx"), zoo)
    wanted = flatten(ours.call()) if names else None
    require_tolerance(tolerance)
    if tolerance is None:
        tolerance = tolerance_for(formats_of(machine.executable, wanted or ()))
    entries: list[Contestant] = [ours, *contestants(names, source, arrays, threads, wanted, tolerance)]
    times = take_turns(entries, rounds)
    if as_json:
        rows = [
            {
                "runtime": entry.name,
                "median_secs": times[entry.name].median,
                "min_secs": times[entry.name].minimum,
                "ratio": times[entry.name].median / times[ours.name].median,
            }
            for entry in entries
        ]
        print_json({"library": str(library), "device": str(machine.device), "runtimes": rows})
        return
    table = Table(title=str(library), title_justify="left")
    for name in ("runtime", "median ms", "min ms", "ratio to loopsmith"):
        table.add_column(name, justify="left" if name == "runtime" else "right")
    for entry in entries:
        result = times[entry.name]
        ratio = result.median / times[ours.name].median
        table.add_row(entry.name, milliseconds(result.median), milliseconds(result.minimum), f"{ratio:.2f}x")
    out.print(Fitted(table))
    if names and machine.device.type != "cpu":
        note(f"loopsmith ran on {machine.device}, {' and '.join(names)} on the processor")
