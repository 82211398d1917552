"""Building with what tuning found: graph passes, the database's records, code generation."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cost_models import estimate_seconds
from database import Database, has_static_arguments, open_database
from database.meta_schedule_apply_database import ApplyReport, MetaScheduleApplyDatabase, kernels_of
from database.tuning_lock import LockedDatabase, LockError, TuningLock
from ir import IRModule, relax
from ir.error import IRTypeError
from ir.relax.vm_build import require_buildable
from ir.target import Target
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.dlight import default_schedule
from schedules.population import flops_of

from .provenance import model_hash, provenance_of
from .roofline import argument_bytes

_LOG = logging.getLogger(__name__)

WORK = "work"
"""Where the description of an executable has the work of its kernels: (FLOPs, bytes) by name, as :func:`work_of` gives them."""


def work_of(prepared: IRModule) -> dict[str, tuple[float, float]]:
    """FLOPs of the kernels of a prepared model, and bytes of their arguments, each counted once; those of symbolic shapes are left out.

    They are those of the kernels as they were given: schedules that pad, or compute by another algorithm, do other work.
    """
    return {
        var.name_hint: (flops_of(func), argument_bytes(func))
        for var, func in prepared.functions.items()
        if isinstance(func, PrimFunc) and has_static_arguments(func)
    }


def prepare(mod: IRModule, target: Target, params: dict[str, Any] | None = None) -> IRModule:
    """Graph passes up to fused kernels. Tuning and building share them, so that records are found again.

    Raises:
        IRTypeError: ``mod`` is no module, or ``params`` are not given by name.
    """
    _check_model(mod, params)
    if params:
        mod = relax.transform.BindParams("main", params)(mod)
    with target:
        mod = relax.get_pipeline("zero")(mod)
        return relax.transform.CopyBetweenDevices()(relax.transform.AttachAttrLayoutFreeBuffers()(mod))


def _check_model(mod: object, params: object) -> None:
    if isinstance(mod, PrimFunc):
        raise IRTypeError(
            "a model is an IRModule of Relax functions, got PrimFunc; tune_tir tunes a kernel, ir.build builds it"
        )
    if not isinstance(mod, IRModule):
        raise IRTypeError(
            f"a model is an IRModule of Relax functions, got {type(mod).__name__}; ir.relax.frontend.onnx.from_onnx makes one of an"
            " ONNX file or model"
        )
    if params is not None and not isinstance(params, Mapping):
        fix = "; the target is target=" if isinstance(params, str | Target) else ""
        raise IRTypeError(
            f"params, the weights, are given by name, as in {{'w': array}}, got {type(params).__name__}{fix}"
        )


def default_of_builds(mod: IRModule | PrimFunc, target: Target) -> Schedule:
    """The schedule of kernels without a record, its decisions ranked by the analytical model.

    Raises:
        ScheduleError: there is none.
    """
    return default_schedule(mod, target, rank=estimate_seconds)


def compile_relax(
    mod: IRModule,
    target: Any = "cpu",
    params: dict[str, Any] | None = None,
    database: Database | str | Path | None = None,
    *,
    strict: bool = False,
    report: ApplyReport | None = None,
    scheduled: bool = True,
    lock: str | Path | None = None,
    update_lock: bool = False,
    about: Mapping[str, str] | None = None,
) -> Any:
    """Build a model with the best records of a database.

    The order of the first arguments is that of :func:`ir.relax.build`; :func:`tuner.tune_relax` has the field's, which is another.

    Args:
        mod: a Relax module.
        target: a Target or its text.
        params: weights of ``main`` by name.
        database: a Database, path or URL; by default that of the innermost ``with database:`` block, as wherever records are applied.
            Where there is none either, kernels get default schedules; ``MemoryDatabase()`` asks for them within a block.
        strict: a kernel without a record is an error, and so are other versions of the software than those of the lock.
        report: filled in with what was applied to each kernel.
        scheduled: False leaves kernels without a record as plain loops (to compare with).
        lock: a lock file (:mod:`database.tuning_lock`). One that is there pins the record of each kernel: the build takes those, and opens
            no database. One that is missing is written with what the build has applied.
        update_lock: write the lock file again from the database, also where there is one; needs both.
        about: what the library's provenance tells of the model: its ``name`` and ``licence``.

    Returns:
        A :class:`runners.Executable`.

    Raises:
        IRTypeError: an argument stands in the place of another.
        MissingRecordError: ``strict``, and a kernel has no record.
        LockError: the lock is damaged, or for another model or target; it names the kernels. Or ``update_lock`` has no lock or no
            database, or another file is in the place of the lock.
        DatabaseFileError: the lock cannot be read or written.
    """
    if isinstance(target, Mapping) and not {"kind", "tag"} & set(target):
        raise IRTypeError(
            "the second argument of compile_relax is the target, got a dict without a kind; weights by name are params="
        )
    if isinstance(mod, Database):
        raise IRTypeError("the first argument of compile_relax is the model; the database is database=")
    chosen = target if isinstance(target, Target) else Target(target)
    # Before minutes of graph passes.
    require_buildable(chosen)
    if update_lock and lock is None:
        raise LockError(
            "update_lock=True writes the file that lock= names; name one, as in lock='tuning.lock'"
        )
    if update_lock and database is None and Database.current() is None:
        raise LockError(
            f"{lock} is written again from a database, and none was named: name one with --database (database=)"
        )
    locking = None if lock is None else _Locking.of(Path(lock), update_lock, strict)
    pinned = None if locking is None else locking.pinned
    store: Database | None = None
    if pinned is not None:
        store = LockedDatabase(pinned)
    elif database is not None:
        store = open_database(database, must_exist=True)
    prepared = prepare(mod, chosen, params)
    if locking is not None and pinned is not None:
        pinned.require_fits(kernels_of(prepared, chosen), str(locking.path))
    fallback = default_of_builds if scheduled else None
    applied_report = report if report is not None else ApplyReport()
    apply = MetaScheduleApplyDatabase(
        database=store,
        strict=strict,
        fallback=fallback if pinned is None else pinned.fallback(fallback),
        report=applied_report,
    )
    with chosen:
        applied = apply(prepared)
    checksum = None if locking is None else locking.finished(applied_report, chosen)
    executable = relax.build(applied, chosen, pipeline=None)
    provenance = provenance_of(model_hash(mod, params), applied_report, lock=checksum, about=about)
    executable.metadata["provenance"] = provenance
    executable.metadata[WORK] = work_of(prepared)
    return executable


@dataclass(frozen=True)
class _Locking:
    """The lock file of a build; ``pinned`` is what is in it, None where the build is to write it."""

    path: Path
    pinned: TuningLock | None

    @staticmethod
    def of(path: Path, update: bool, strict: bool) -> _Locking:
        """The lock of a path, which is read where it is there and not to be written again."""
        if update or not path.exists():
            TuningLock.require_place(path)
            return _Locking(path, None)
        pinned = TuningLock.read(path)
        if differs := ", ".join(pinned.version_differences()):
            message = f"{path} was written with other software, of which the code may be another: {differs}"
            if strict:
                raise LockError(f"{message}. Install those versions, or write it again with --update-lock")
            _LOG.warning("%s", message)
        return _Locking(path, pinned)

    def finished(self, report: ApplyReport, target: Target) -> str:
        """Compare what was applied with the lock, or write it; its checksum."""
        if self.pinned is not None:
            self.pinned.require_applied(report, str(self.path))
            return self.pinned.checksum
        written = TuningLock.of_report(report, target)
        written.write(self.path)
        return written.checksum


def compile_tir(database: Database, mod: IRModule | PrimFunc, target: Any) -> Any:
    """The best schedule of a kernel in a database, or None; see :meth:`database.Database.query_schedule`."""
    chosen = target if isinstance(target, Target) else Target(target)
    module = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
    return database.query_schedule(module, chosen, "main")
