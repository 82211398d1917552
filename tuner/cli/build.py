"""``loopsmith build``: a shared library with the best records applied."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from database.meta_schedule_apply_database import ApplyReport

from ..compile import compile_relax
from ..error import TunerError
from ..model import exported, load_model
from .console import out
from .options import DatabaseOption, ModelFile, Shapes, TargetOption, Zoo, checked_target


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
    check_writable(output)
    onnx = output.with_suffix(".onnx") if save_onnx else None
    if onnx is not None:
        if zoo is None:
            raise TunerError(f"--save-onnx writes models of --zoo; {model} is an ONNX file already")
        check_writable(onnx)
    chosen = checked_target(target)
    loaded = load_model(model, zoo, shape)
    report = ApplyReport()
    with out.status("building"):
        executable = compile_relax(loaded.mod, chosen, loaded.params, database, strict=strict, report=report)
        executable.export_library(output)
    out.print(str(report))
    if onnx is not None:
        onnx.write_bytes(exported(loaded))
        out.print(f"wrote {onnx}")
    out.print(f"wrote {output} ({output.stat().st_size / 1e6:.1f} MB) and {output.with_suffix('.h')}")


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written, before anything is computed.

    Raises:
        TunerError: the folder is missing or not writable, or the path is a folder.
    """
    folder = path.parent
    if path.is_dir():
        raise TunerError(f"cannot write {path}: it is a folder; name a file, such as {path / 'model.so'}")
    if not folder.is_dir():
        raise TunerError(f"cannot write {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise TunerError(f"cannot write {path}: permission denied; choose another place with -o")
