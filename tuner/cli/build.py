"""``loopsmith build``: a shared library with the best records applied."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from database.meta_schedule_apply_database import ApplyReport
from ir.codegen.model_header import checked_prefix

from ..compile import compile_relax
from ..error import TunerError
from ..model import exported, load_model
from .console import check_writable, note, out, renamed, size_text, working
from .options import DatabaseOption, ModelFile, Shapes, TargetOption, Zoo, checked_target
from .output_file import HEADER, LIBRARY, ONNX_MODEL, check_apart, check_output

_LIBRARIES = frozenset({".so", ".dylib", ".dll"})
"""Endings of shared libraries; behind ``.so`` a version may follow."""


def build(
    model: ModelFile = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The shared library to write; a C header goes beside it.",
        ),
    ] = Path("model.so"),
    zoo: Zoo = None,
    target: TargetOption = "cpu",
    database: DatabaseOption = None,
    shape: Shapes = [],  # noqa: B006
    strict: Annotated[bool, typer.Option(help="A kernel without a record is an error.")] = False,
    save_onnx: Annotated[
        bool, typer.Option("--save-onnx", help="Write the --zoo model as ONNX beside the library too.")
    ] = False,
    lock: Annotated[
        Path | None,
        typer.Option(
            help="A lock file that pins the record of each kernel: used instead of a database where it is there, else written."
        ),
    ] = None,
    update_lock: Annotated[
        bool, typer.Option("--update-lock", help="Write the lock file again from the database.")
    ] = False,
    dynamic: Annotated[
        bool,
        typer.Option(
            "--dynamic",
            help="Dimensions without a --shape stay open: one library for all sizes, whose kernels of open shape have no records.",
        ),
    ] = False,
    prefix: Annotated[
        str | None,
        typer.Option(
            help="What the names in the library and its header begin with, for programs with several models."
        ),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(help="The model's licence, as `loopsmith inspect` is to tell it: MIT, for instance."),
    ] = None,
) -> None:
    """Build a model with the best records of a database; kernels without one get a sensible default schedule."""
    _check_is_library(output)
    check_output(output, LIBRARY)
    check_output(output.with_suffix(".h"), HEADER)
    onnx = output.with_suffix(".onnx") if save_onnx else None
    if onnx is not None:
        if zoo is None:
            raise TunerError(f"--save-onnx writes models of --zoo; {model} is an ONNX file already")
        check_output(onnx, ONNX_MODEL)
    if update_lock and lock is None:
        raise TunerError(
            "--update-lock writes the file that --lock names; name one, as in --lock tuning.lock"
        )
    check_apart(
        model=model, lock=lock, library=output, its_header=output.with_suffix(".h"), its_ONNX_model=onnx
    )
    is_locked = lock is not None and lock.exists() and not update_lock
    if lock is not None and not is_locked:
        check_writable(lock)
    if prefix is not None:
        checked_prefix(prefix)
    chosen = checked_target(target)
    loaded = load_model(model, zoo, shape, dynamic=dynamic)
    model_bytes = exported(loaded) if onnx is not None else b""
    report = ApplyReport()
    about = {"name": loaded.name, **({} if licence is None else {"licence": licence})}
    with working("building"):
        executable = compile_relax(
            loaded.mod,
            chosen,
            loaded.params,
            database,
            strict=strict,
            report=report,
            lock=lock,
            update_lock=update_lock,
            about=about,
        )
        executable.export_library(output, prefix=prefix)
    out.print(str(report))
    if lock is not None:
        note(f"{lock} pinned the records; no database was opened" if is_locked else f"wrote {lock}")
    elif database is None:
        note("no database was named: --database applies records, as those of `loopsmith tune` in tuning.db")
    if onnx is not None:
        onnx.write_bytes(model_bytes)
        note(f"wrote {onnx}")
    note(f"wrote {output} ({size_text(output.stat().st_size)}) and {output.with_suffix('.h')}")


def _check_is_library(output: Path) -> None:
    """Refuse a name that says that the file is something else: a text, the header, the model.

    Raises:
        TunerError: its ending is none of shared libraries.
    """
    if not _LIBRARIES.isdisjoint(output.suffixes):
        return
    raise TunerError(
        f"{output} does not end as a shared library does, with {', '.join(sorted(_LIBRARIES))}; name it {renamed(output, '.so')}"
    )
