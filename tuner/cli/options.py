"""Arguments and options that several subcommands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from database.pareto import checked_objectives
from ir.codegen.llvm.compile import options_of, target_machine
from ir.target import Target

from ..error import TunerError

ModelFile = Annotated[Path | None, typer.Argument(help="An ONNX file.", show_default=False)]
Zoo = Annotated[
    str | None,
    typer.Option(
        help="An architecture with random weights instead of a file, such as resnet18 or bert_base; another name lists all."
    ),
]
TargetOption = Annotated[
    str, typer.Option(help="What to build for, such as cpu or 'llvm -mcpu=znver4 -num-cores 2'.")
]
Shapes = Annotated[
    list[str], typer.Option("--shape", help="Shape of an input with open dimensions, as name:1,3,224,224.")
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(help="Tuning database: a path (SQLite) or an SQLAlchemy URL."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random choices.")]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


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
