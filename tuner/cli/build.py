"""``loopsmith build``: a shared library with the best records applied."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from database.meta_schedule_apply_database import ApplyReport

from ..compile import compile_relax
from ..error import TunerError
from ..model import exported, load_model
from .console import check_writable, out, size_text
from .options import DatabaseOption, ModelFile, Shapes, TargetOption, Zoo, checked_target

_LIBRARIES = frozenset({".so", ".dylib", ".dll"})
"""Endings of shared libraries; behind ``.so`` a version may follow."""


def build(
    model: ModelFile = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The shared library to write; a C header goes beside it.")
    ] = Path("model.so"),
    zoo: Zoo = None,
    target: TargetOption = "cpu",
    database: DatabaseOption = None,
    shape: Shapes = [],  # noqa: B006
    strict: Annotated[bool, typer.Option(help="A kernel without a record is an error.")] = False,
    save_onnx: Annotated[
        bool, typer.Option("--save-onnx", help="Write the --zoo model as ONNX beside the library too.")
    ] = False,
) -> None:
    """Build a model with the best records of a database; kernels without one get a sensible default schedule."""
    _check_is_library(output)
    check_writable(output)
    check_writable(output.with_suffix(".h"))
    onnx = output.with_suffix(".onnx") if save_onnx else None
    if onnx is not None:
        if zoo is None:
            raise TunerError(f"--save-onnx writes models of --zoo; {model} is an ONNX file already")
        check_writable(onnx)
    chosen = checked_target(target)
    loaded = load_model(model, zoo, shape)
    model_bytes = exported(loaded) if onnx is not None else b""
    report = ApplyReport()
    with out.status("building"):
        executable = compile_relax(loaded.mod, chosen, loaded.params, database, strict=strict, report=report)
        executable.export_library(output)
    out.print(str(report))
    if onnx is not None:
        onnx.write_bytes(model_bytes)
        out.print(f"wrote {onnx}")
    out.print(f"wrote {output} ({size_text(output.stat().st_size)}) and {output.with_suffix('.h')}")


def _check_is_library(output: Path) -> None:
    """Refuse a name that says that the file is something else: a text, the header, the model.

    Raises:
        TunerError: its ending is none of shared libraries.
    """
    if not _LIBRARIES.isdisjoint(output.suffixes):
        return
    raise TunerError(
        f"{output} does not end as a shared library does, with {', '.join(sorted(_LIBRARIES))}; name it {output.with_suffix('.so')}"
    )
