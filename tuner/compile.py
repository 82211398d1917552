"""Building with what tuning found: graph passes, the database's records, code generation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from cost_models import estimate_seconds
from database import Database, open_database
from database.meta_schedule_apply_database import ApplyReport, MetaScheduleApplyDatabase
from ir import IRModule, relax
from ir.codegen.llvm.compile import require_processor
from ir.target import Target
from ir.tir import PrimFunc
from schedules.dlight import default_schedule


def prepare(mod: IRModule, target: Target, params: dict[str, Any] | None = None) -> IRModule:
    """Graph passes up to fused kernels. Tuning and building share them, so that records are found again."""
    if params:
        mod = relax.transform.BindParams("main", params)(mod)
    with target:
        mod = relax.get_pipeline("zero")(mod)
        return relax.transform.AttachAttrLayoutFreeBuffers()(mod)


def ranked_default() -> Any:
    """The schedule of kernels without a record, its decisions ranked by the analytical model."""
    return partial(default_schedule, rank=estimate_seconds)


def compile_relax(
    mod: IRModule,
    target: Any = "cpu",
    params: dict[str, Any] | None = None,
    database: Database | str | Path | None = None,
    *,
    strict: bool = False,
    report: ApplyReport | None = None,
    scheduled: bool = True,
) -> Any:
    """Build a model with the best records of a database.

    Args:
        mod: a Relax module.
        target: a Target or its text.
        params: weights of ``main`` by name.
        database: a Database, path or URL; by default that of the innermost ``with database:`` block, as wherever records are applied.
            Where there is none either, kernels get default schedules; ``MemoryDatabase()`` asks for them within a block.
        strict: a kernel without a record is an error.
        report: filled in with what was applied to each kernel.
        scheduled: False leaves kernels without a record as plain loops (to compare with).

    Returns:
        A :class:`runners.Executable`.
    """
    chosen = target if isinstance(target, Target) else Target(target)
    require_processor(chosen)  # before minutes of graph passes
    store = open_database(database, must_exist=True) if database is not None else None
    prepared = prepare(mod, chosen, params)
    apply = MetaScheduleApplyDatabase(
        database=store,
        strict=strict,
        fallback=ranked_default() if scheduled else None,
        report=report if report is not None else ApplyReport(),
    )
    with chosen:
        applied = apply(prepared)
    return relax.build(applied, chosen, pipeline=None)


def compile_tir(database: Database, mod: IRModule | PrimFunc, target: Any) -> Any:
    """The best schedule of a kernel in a database, or None; see :meth:`database.Database.query_schedule`."""
    chosen = target if isinstance(target, Target) else Target(target)
    module = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
    return database.query_schedule(module, chosen, "main")
