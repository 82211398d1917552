"""``loopsmith lock``: lock files of builds, looked at and compared, and checked where nobody looks, as in CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from database import DatabaseError, target_differences
from database.meta_schedule_apply_database import ModelKernel, kernels_of
from database.target_key import explicit_target, target_key
from database.tuning_lock import LockedKernel, TuningLock
from ir.target import Target

from ..compile import prepare
from ..console import Fitted
from ..model import load_model
from .console import out
from .options import ModelFile, Shapes, Zoo, checked_target

app = typer.Typer(help="Look at, compare and check lock files of builds.", no_args_is_help=True)

LockFile = Annotated[Path, typer.Argument(help="A lock file that `loopsmith build --lock` wrote.")]
_DIFFERENT = 1
"""The exit status where something is not as it should be; 2 is for files that are no lock files."""


@app.command()
def check(
    lock: LockFile,
    model: ModelFile = None,
    zoo: Zoo = None,
    target: Annotated[
        str | None, typer.Option(help="What the build is for; by default what the lock was written for.")
    ] = None,
    shape: Shapes = [],  # noqa: B006
) -> None:
    """Exit with 1, naming each kernel, where one has no record, or another target's; with a model, also where it is not the locked one."""
    pinned = TuningLock.read(lock)
    chosen = pinned.target if target is None else explicit_target(checked_target(target))
    problems = [*_of_other_targets(pinned, chosen), *pinned.without_record()]
    if model is not None or zoo is not None:
        loaded = load_model(model, zoo, shape)
        kernels = kernels_of(prepare(loaded.mod, chosen, loaded.params), chosen)
        problems += [item for item in pinned.differences(kernels) if item not in problems]
        problems += _that_do_not_apply(pinned, kernels)
    for text in dict.fromkeys(problems):
        out.print(text, markup=False, highlight=False, soft_wrap=True)
    for text in pinned.version_differences():
        out.print(f"note: {text}", markup=False, highlight=False, soft_wrap=True)
    if problems:
        out.print(f"{lock}: {len(dict.fromkeys(problems))} problems")
        raise typer.Exit(_DIFFERENT)
    out.print(f"{lock}: each of {len(pinned.kernels)} kernels has a record for {chosen}", soft_wrap=True)


@app.command()
def show(lock: LockFile) -> None:
    """The kernels of a lock file with their records."""
    pinned = TuningLock.read(lock)
    versions = ", ".join(f"{name} {version}" for name, version in pinned.versions.items())
    out.print(f"target {pinned.target}, written with {versions}", soft_wrap=True)
    table = Table()
    for name in ("kernel", "workload", "record", "time"):
        table.add_column(name, justify="right" if name == "time" else "left")
    for kernel in pinned.kernels:
        record = "" if kernel.record is None else str(kernel.record["id"])
        table.add_row(kernel.described, kernel.workload, record, kernel.time_text)
    out.print(Fitted(table))


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(help="A lock file.")],
    after: Annotated[Path, typer.Argument(help="Another one.")],
) -> None:
    """What two lock files pin differently, a line for each kernel; exits with 1 where they differ."""
    old, new = TuningLock.read(before), TuningLock.read(after)
    lines = [*_head_differences(old, new), *_kernel_differences(old, new)]
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)
    if lines:
        raise typer.Exit(_DIFFERENT)
    out.print("both pin the same")


def _of_other_targets(lock: TuningLock, chosen: Target) -> list[str]:
    """Kernels that are for neither the target nor its host."""
    host = chosen.host if chosen.host is not None else Target("llvm")
    expected = {target_key(chosen), *([target_key(host)] if chosen.is_gpu else ())}
    found = []
    for kernel in lock.kernels:
        if target_key(kernel.target) not in expected:
            fields = target_differences(chosen, kernel.target)
            told = ", ".join(f"{name} {had!r} instead of {wanted!r}" for name, wanted, had in fields)
            found.append(f"{kernel.described}: a record of another target ({told})")
    return found


def _that_do_not_apply(lock: TuningLock, kernels: list[ModelKernel]) -> list[str]:
    """Records that this version can make no schedule of."""
    found = []
    for item in kernels:
        locked = lock.by_key.get((item.workload, target_key(item.target)))
        record = None if locked is None else locked.record_of(item.module)
        if record is None:
            continue
        try:
            record.schedule_of(item.var.name_hint)
        except DatabaseError as error:
            found.append(f"{item.var.name_hint}: {error}")
    return found


def _head_differences(old: TuningLock, new: TuningLock) -> list[str]:
    lines = [f"target: {name} {a!r} -> {b!r}" for name, a, b in target_differences(old.target, new.target)]
    for name in sorted(old.versions.keys() | new.versions.keys()):
        a, b = old.versions.get(name), new.versions.get(name)
        if a != b:
            lines.append(f"version: {name} {a} -> {b}")
    return lines


def _kernel_differences(old: TuningLock, new: TuningLock) -> list[str]:
    lines = [f"- {_told(kernel)}" for key, kernel in old.by_key.items() if key not in new.by_key]
    for key, kernel in new.by_key.items():
        before = old.by_key.get(key)
        if before is None:
            lines.append(f"+ {_told(kernel)}")
        elif _content(before) != _content(kernel):
            lines.append(f"  {kernel.described}: {_pinned(before)} -> {_pinned(kernel)}")
    return lines


def _content(kernel: LockedKernel) -> object:
    return kernel.names, kernel.source, kernel.record


def _told(kernel: LockedKernel) -> str:
    return f"{kernel.described} (workload {kernel.workload}): {_pinned(kernel)}"


def _pinned(kernel: LockedKernel) -> str:
    return kernel.source if kernel.record is None else f"{kernel.time_text} (record {kernel.record['id']})"
