"""``loopsmith profile``: where the time of a model goes, kernel by kernel."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from ..error import TunerError
from ..profile import profile_model
from .console import note, out, print_json, working
from .options import JsonOption, Seed, Shapes, TargetOption
from .output_file import TRACE, check_output

_DEFAULT_DATABASE = "tuning.db"


def profile(
    model: Annotated[
        Path,
        typer.Argument(
            help="A model built by `loopsmith build` (.so), or an ONNX file, which is built first."
        ),
    ],
    database: Annotated[
        str | None,
        typer.Option(
            help="Tuning database: its calibration tells the machine's peak, and its records are applied to an ONNX file."
            f" {_DEFAULT_DATABASE} if there is one.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Write the run to this .json file as a trace, which chrome://tracing and ui.perfetto.dev show."
        ),
    ] = None,
    as_json: JsonOption = False,
    target: TargetOption = "cpu",
    shape: Shapes = [],  # noqa: B006  typer copies it
    seed: Seed = 0,
) -> None:
    """Time the kernels of a model, on random inputs.

    The table has each kernel's calls in one run, their time and share, GFLOP/s, GB/s (of the arguments, each counted once) and how near
    that is to what the machine allows (100 % is the roofline). Below it is what the processor counted, where the system allows it.

    Example: loopsmith profile model.so --database tuning.db

    Example: loopsmith profile model.so --trace trace.json
    """
    if trace is not None:
        if trace.suffix.lower() != ".json":
            raise TunerError(
                f"a trace is a .json file; name it {trace.with_suffix('.json') if trace.name else 'trace.json'}"
            )
        check_output(trace, TRACE)
    if database is None and Path(_DEFAULT_DATABASE).is_file():
        database = _DEFAULT_DATABASE
    options = {"target": target, "database": database, "shapes": shape, "seed": seed}
    with working("building the model") if model.suffix.lower() == ".onnx" else nullcontext():
        found = profile_model(model, **options)  # type: ignore[arg-type]
    if trace is not None:
        found.write_trace(trace)
    if as_json:
        print_json(found.as_json())
        return
    out.print(found)
    if trace is not None:
        note(f"wrote {trace}; chrome://tracing and ui.perfetto.dev show it")
