"""MetaScheduleApplyDatabase: replace each kernel of a module by the best that a database knows, and report what was done.

Nothing here measures or searches: building with a database needs ``ir``, ``schedules`` and ``database`` alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ir import GlobalVar, IRModule, structural_hash
from ir.forked_map import forked_map
from ir.target import Target
from ir.tir import PrimFunc
from ir.transform import ModulePass, PassContext
from schedules import Schedule, ScheduleError
from schedules.dlight import default_schedule
from schedules.population import flops_of

from .base import Database
from .error import DatabaseError
from .opening import open_database
from .record import TuningRecord
from .workload import Workload, entry_function, has_static_arguments, kernel_module

_LOG = logging.getLogger(__name__)

DefaultSchedule = Callable[[IRModule, Target], Schedule]


@dataclass
class AppliedKernel:
    """What became of one kernel.

    Attributes:
        name: its function in the module.
        source: ``record``, ``default`` (a schedule without tuning) or ``unscheduled``.
        reason: the record's time, or why there is none.
        flops: of one call; 0 for symbolic shapes.
    """

    name: str
    source: str
    reason: str
    flops: float


@dataclass
class ApplyReport:
    """One row per kernel, and the share of the floating-point operations that records cover."""

    kernels: list[AppliedKernel] = field(default_factory=list)

    @property
    def coverage(self) -> float:
        """Share of all kernels' FLOPs that run a tuned schedule."""
        total = sum(item.flops for item in self.kernels)
        tuned = sum(item.flops for item in self.kernels if item.source == "record")
        return tuned / total if total else 1.0

    def misses(self) -> list[AppliedKernel]:
        """Kernels without a record."""
        return [item for item in self.kernels if item.source != "record"]

    def __str__(self) -> str:
        width = max([len(item.name) for item in self.kernels] + [6])
        lines = [f"{'kernel':{width}}  {'source':11}  {'MFLOP':>10}  record, or why there is none"]
        lines += [
            f"{item.name:{width}}  {item.source:11}  {item.flops / 1e6:10.2f}  {item.reason}"
            for item in self.kernels
        ]
        lines.append(f"records cover {self.coverage:.1%} of the floating-point operations")
        return "\n".join(lines)


class MissingRecordError(DatabaseError):
    """Strict application found a kernel without a record."""


@dataclass(frozen=True)
class _Plan:
    """How a kernel is to be scheduled: by a record, by default, or not at all; and why, in words."""

    name: str
    kernel: IRModule
    source: str
    reason: str
    record: TuningRecord | None = None


@dataclass(frozen=True)
class MetaScheduleApplyDatabase(ModulePass):
    """Apply the best record of a database to every PrimFunc that has none of its own schedule.

    Before: ``@T.prim_func def matmul`` with plain loops. After: the same function as the record's trace schedules it.

    Args:
        work_dir: folder whose ``tuning.db`` (or path of a database that) is used when no database is given or current.
        enable_warning: log a warning for each kernel without a record.
        database: the database, its path or its URL; None is that of the innermost ``with db:`` block, or else of ``work_dir``. Where there
            is none at all, every kernel is one without a record; ``MemoryDatabase()`` asks for that within a block.
        strict: a kernel without a record is an error.
        fallback: makes the schedule of kernels without a record, in several processes where there are many; None leaves them as they are.
        report: filled in with what was done.
    """

    work_dir: str | None = None
    enable_warning: bool = False
    database: Database | str | Path | None = None
    strict: bool = False
    fallback: DefaultSchedule | None = default_schedule
    report: ApplyReport = field(default_factory=ApplyReport)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with scheduled kernels.

        Raises:
            MissingRecordError: ``strict``, and a kernel has no record.
            DatabaseError: there is no target, the database of ``work_dir`` cannot be read, or a record does not apply.
        """
        target = Target.current(allow_none=True)
        if target is None:
            raise DatabaseError(
                "MetaScheduleApplyDatabase needs a target; apply it within `with Target(...):`"
            )
        store = self._store()
        functions = dict(mod.functions)
        kernels: list[tuple[GlobalVar, PrimFunc, int]] = []
        plans: dict[int, _Plan] = {}
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc) or func.attrs.get("tir.is_scheduled"):
                continue
            kernel = kernel_module(func)
            key = structural_hash(kernel)
            kernels.append((var, func, key))
            if key not in plans:
                plans[key] = self._plan(kernel, target, store, var.name_hint)
        if self.strict:
            self._require_records([(var.name_hint, plans[key]) for var, _, key in kernels])
        # Databases are asked by this process alone: a connection must not be shared with children.
        planned = {key: plan for key, plan in plans.items() if plan.source != "unscheduled"}
        found = forked_map(
            lambda plan: self._carried_out(plan, target),
            list(planned.values()),
            named=lambda plan: f"kernel {plan.name}",
        )
        scheduled = dict(zip(planned, found, strict=True))
        for var, func, key in kernels:
            result, source, reason = scheduled.get(key, (func, plans[key].source, plans[key].reason))
            flops = flops_of(func) if has_static_arguments(func) else 0.0
            self.report.kernels.append(AppliedKernel(var.name_hint, source, reason, flops))
            if source != "unscheduled":
                functions[var] = result.with_attrs({**func.attrs.dict, "tir.is_scheduled": True})
        return mod.replace(functions=functions)

    def _require_records(self, plans: list[tuple[str, _Plan]]) -> None:
        """Raise a MissingRecordError that names all kernels without a record, before any of them gets a schedule."""
        missing = "; ".join(f"{name}: {plan.reason}" for name, plan in plans if plan.source != "record")
        if missing:
            raise MissingRecordError(
                f"kernels without a record, which a strict build refuses: {missing}; tune them first (loopsmith tune) and name that"
                " database, or build without strict, which gives them default schedules"
            )

    def _store(self) -> Database | None:
        found = self.database if self.database is not None else Database.current()
        if found is not None:
            return open_database(found, must_exist=True)
        if self.work_dir is None:
            return None
        path = Path(self.work_dir)
        return open_database(path / "tuning.db" if path.is_dir() else path, must_exist=True)

    def _plan(self, kernel: IRModule, target: Target, store: Database | None, name: str) -> _Plan:
        main = _main(kernel)
        if not has_static_arguments(main):
            return _Plan(name, kernel, "unscheduled", "its arguments are scalars or of symbolic shape")
        reason = "no database"
        if store is not None:
            record = store.query_tuning_record(kernel, target, name)
            if record is not None:
                return _Plan(name, kernel, "record", f"{record.secs * 1e3:.4f} ms", record)
            failed = store.get_records(Workload(kernel), target)
            if failed:
                # A default schedule is a candidate like those, and nobody has checked it.
                reason = f"no candidate ran and was right: {_why(failed[-1])}"
                self._warn(name, reason)
                return _Plan(name, kernel, "unscheduled", reason)
            nearest = store.nearest_record(kernel, target)
            reason = nearest.explain() if nearest is not None else "the database has no record"
        self._warn(name, reason)
        return _Plan(name, kernel, "unscheduled" if self.fallback is None else "default", reason)

    def _carried_out(self, plan: _Plan, target: Target) -> tuple[PrimFunc, str, str]:
        """(function, source, reason) of one kernel."""
        if plan.record is not None:
            return _main(plan.record.schedule_of(plan.name).mod), plan.source, plan.reason
        assert self.fallback is not None
        try:
            return _main(self.fallback(plan.kernel, target).mod), plan.source, plan.reason
        except ScheduleError as error:
            return _main(plan.kernel), "unscheduled", f"{plan.reason}; no default schedule either: {error}"

    def _warn(self, name: str, reason: str) -> None:
        if self.enable_warning:
            _LOG.warning("no record for kernel %s: %s", name, reason)


def _why(failed: TuningRecord) -> str:
    message = (failed.failure_message or "").partition("\n")[0]
    return f"{failed.failure_kind}: {message}" if message else str(failed.failure_kind)


def _main(mod: IRModule) -> PrimFunc:
    return entry_function(mod)[1]
