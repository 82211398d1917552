"""Arguments and options that several subcommands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from database.pareto import checked_objectives
from ir.codegen.llvm.compile import options_of, target_machine
from ir.target import Target, list_tags

from ..error import TunerError
from ..report.server import PageServer
from ..zoo.catalog import names as zoo_names
from .console import speak_json, tell


def _json_asked(asked: bool) -> bool:
    speak_json(asked)
    return asked


ModelFile = Annotated[Path | None, typer.Argument(help="An ONNX file.", show_default=False)]
Zoo = Annotated[
    str | None,
    typer.Option(
        help="An architecture with random weights instead of a file, such as resnet18 or bert_base; `loopsmith zoo` lists all.",
        autocompletion=lambda: zoo_names(),
    ),
]
TargetOption = Annotated[
    str,
    typer.Option(
        help="What to build for, such as cpu, 'llvm -mcpu=znver4 -num-cores 2', cuda (this machine's device) or nvidia/nvidia-a100.",
        autocompletion=lambda: ["cpu", "cuda", *list_tags()],
    ),
]
Shapes = Annotated[
    list[str], typer.Option("--shape", help="Shape of an input with open dimensions, as name:1,3,224,224.")
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        help="Tuning database: a path (SQLite), a folder with a / at its end (JSON), or an SQLAlchemy URL."
    ),
]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        metavar="ERROR",
        help="Relative error, of the largest magnitude of an output, up to which outputs agree: 1e-4 for float32, more where the model has"
        " narrower numbers. Indices (32 and 64 bits) and conditions that differ have an error of at least 1.",
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the result as JSON, for programs.",
        callback=_json_asked,
        is_eager=True,
    ),
]
Serve = Annotated[
    str | None,
    typer.Option(
        help="Show a live page at this address, such as 127.0.0.1:8080 (or 8080), which this machine alone reaches; 0 as the port takes a"
        " free one. Another address, such as 0.0.0.0:8080, shows it to all who reach that.",
        metavar="HOST:PORT",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random choices.")]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def say_where(server: PageServer) -> None:
    """Print the address of a live page, and who reaches it."""
    tell(f"live page: {server.url}")  # whose port may be any
    if not server.is_private:
        tell("everybody who reaches this address can read names, programs and times of the database")


def checked_target(text: str) -> Target:
    """The target of a command, before anything is computed for it.

    Raises:
        TargetError: it is not the text of a target.
        CodegenError: LLVM does not know its processor, a feature or its triple; the message names what is near.
    """
    target = Target(text)
    if target.kind_name == "llvm":
        target_machine(options_of(target))
    return target


def objectives_of(text: str) -> tuple[str, ...]:
    """Names of objectives with commas between.

    Raises:
        DatabaseError: there are none, one is unknown, or one comes twice.
    """
    return checked_objectives([name.strip() for name in text.split(",")])


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``45s``, ``30m`` or ``2h``.

    Raises:
        TunerError: it is something else.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if match is None:
        raise TunerError(
            f"--time {text!r} is no duration; write seconds (90 or 90s), minutes (30m) or hours (2h)"
        )
    return float(match.group(1)) * _UNITS[match.group(2)]
