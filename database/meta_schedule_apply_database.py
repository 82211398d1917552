"""MetaScheduleApplyDatabase: replace each kernel of a module by the best that a database knows, and report what was done.

Nothing here measures or searches: building with a database needs ``ir``, ``schedules`` and ``database`` alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
from .record import WRONG_RESULT, TuningRecord, key_of_trace
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


_REFUSES_DEFAULT = (WRONG_RESULT, "crash", "build_error")
"""The failures of a default schedule that was measured for which a build does without it: it is no program to run. One that took too
long, or too much memory, may be what there is."""


@dataclass(frozen=True)
class _Plan:
    """How a kernel is to be scheduled, and why, in words.

    Attributes:
        source: ``record`` where there are records, else ``default`` or ``unscheduled``.
        records: those to try, the best first.
        skipped: the faster records that do not apply, in words.
        refused: schedules that the database knows to be no program to run: what became of each, by the keys of their traces.
    """

    name: str
    kernel: IRModule
    source: str
    reason: str
    records: tuple[TuningRecord, ...] = ()
    skipped: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Outcome:
    """What became of a plan; without a function its records do not apply, for the reasons in ``skipped``."""

    function: PrimFunc | None
    source: str
    reason: str
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class MetaScheduleApplyDatabase(ModulePass):
    """Apply the best record of a database to every PrimFunc that has none of its own schedule.

    Before: ``@T.prim_func def matmul`` with plain loops. After: the same function as the record's trace schedules it. A record that does
    not apply any more is named in a warning and in the report, and the next best takes its place. A kernel without one gets the schedule
    of ``fallback``, also where all candidates failed, unless that schedule itself was among them and is no program to run.

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
            DatabaseError: there is no target, or the database of ``work_dir`` cannot be read.
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
            self._require_records(
                [(var.name_hint, plans[key].source, plans[key].reason) for var, _, key in kernels]
            )
        outcomes = self._carry_out_all(plans, target, store)
        if self.strict:  # there were records, of which none applies
            self._require_records(
                [(var.name_hint, outcomes[key].source, outcomes[key].reason) for var, _, key in kernels]
            )
        for var, func, key in kernels:
            outcome = outcomes[key]
            flops = flops_of(func) if has_static_arguments(func) else 0.0
            self.report.kernels.append(AppliedKernel(var.name_hint, outcome.source, outcome.reason, flops))
            if outcome.source != "unscheduled":
                assert outcome.function is not None
                functions[var] = outcome.function.with_attrs({**func.attrs.dict, "tir.is_scheduled": True})
        return mod.replace(functions=functions)

    def _require_records(self, found: list[tuple[str, str, str]]) -> None:
        """Raise a MissingRecordError that names all kernels without a record; ``found`` are names, sources and reasons."""
        missing = "; ".join(f"{name}: {reason}" for name, source, reason in found if source != "record")
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
            # Of such kernels there are no records; a GPU runs nothing without threads, and its default schedules know symbolic shapes.
            source = "default" if target.is_gpu and self.fallback is not None else "unscheduled"
            return _Plan(name, kernel, source, "its arguments are scalars or of symbolic shape")
        record = None if store is None else store.query_tuning_record(kernel, target, name)
        if record is not None:
            return _Plan(name, kernel, "record", _time_of(record), (record,))
        return self._plan_without(kernel, target, store, name)

    def _plan_without(
        self,
        kernel: IRModule,
        target: Target,
        store: Database | None,
        name: str,
        skipped: tuple[str, ...] = (),
    ) -> _Plan:
        """How a kernel is scheduled that has no record, or none that applies."""
        reason, refused = "no database", {}
        if store is not None:
            failed = [item for item in store.get_records(Workload(kernel), target) if item.failure_kind]
            refused = {item.trace_key: _why(item) for item in failed if item.failure_kind in _REFUSES_DEFAULT}
            if skipped:
                reason = f"{len(skipped)} records do not apply, of which the best: {skipped[0]}"
            elif failed:
                reason = f"no candidate ran and was right: {_why(failed[-1])}"
            else:
                nearest = store.nearest_record(kernel, target)
                reason = nearest.explain() if nearest is not None else "the database has no record"
        self._warn(name, reason)
        source = "unscheduled" if self.fallback is None else "default"
        return _Plan(name, kernel, source, reason, refused=refused)

    def _carry_out_all(
        self, plans: dict[int, _Plan], target: Target, store: Database | None
    ) -> dict[int, _Outcome]:
        """What becomes of each plan. Where the best record does not apply the others are asked for, and without any the default."""
        outcomes: dict[int, _Outcome] = {}
        while plans:
            # Databases are asked by this process alone: a connection must not be shared with children.
            found = forked_map(
                lambda plan: self._carried_out(plan, target),
                list(plans.values()),
                named=lambda plan: f"kernel {plan.name}",
            )
            left: dict[int, _Plan] = {}
            for (key, plan), outcome in zip(plans.items(), found, strict=True):
                for message in outcome.skipped:
                    _LOG.warning("kernel %s: skipped %s", plan.name, message)
                if outcome.function is None:
                    assert store is not None
                    left[key] = self._next_plan(plan, outcome, target, store)
                else:
                    outcomes[key] = outcome
            plans = left
        return outcomes

    def _next_plan(self, plan: _Plan, outcome: _Outcome, target: Target, store: Database) -> _Plan:
        """What to do where the records of a plan do not apply: try all others, or do without."""
        skipped = (*plan.skipped, *outcome.skipped)
        if not plan.skipped:
            (best,) = plan.records
            others = tuple(store.records_behind(best, plan.kernel, target))
            if others:
                return replace(plan, records=others, skipped=skipped)
        return self._plan_without(plan.kernel, target, store, plan.name, skipped)

    def _carried_out(self, plan: _Plan, target: Target) -> _Outcome:
        if plan.records:
            return _first_that_applies(plan)
        if plan.source == "unscheduled":
            return _Outcome(_main(plan.kernel), plan.source, plan.reason)
        assert self.fallback is not None
        try:
            schedule = self.fallback(plan.kernel, target)
        except ScheduleError as error:
            reason = f"{plan.reason}; no default schedule either: {error}"
            return _Outcome(_main(plan.kernel), "unscheduled", reason)
        key = key_of_trace(None if schedule.trace is None else schedule.trace.as_json())
        if key in plan.refused:
            reason = f"{plan.reason}; the default schedule was measured, too: {plan.refused[key]}"
            return _Outcome(_main(plan.kernel), "unscheduled", reason)
        return _Outcome(_main(schedule.mod), plan.source, plan.reason)

    def _warn(self, name: str, reason: str) -> None:
        if self.enable_warning:
            _LOG.warning("no record for kernel %s: %s", name, reason)


def _first_that_applies(plan: _Plan) -> _Outcome:
    skipped: list[str] = []
    for record in plan.records:
        try:
            function = _main(record.schedule_of(plan.name).mod)
        except DatabaseError as error:
            skipped.append(str(error))
            continue
        reason, passed_over = _time_of(record), len(plan.skipped) + len(skipped)
        if passed_over:
            reason += f"; {passed_over} faster records do not apply, of which the best: {[*plan.skipped, *skipped][0]}"
        return _Outcome(function, "record", reason, tuple(skipped))
    return _Outcome(None, plan.source, plan.reason, tuple(skipped))


def _time_of(record: TuningRecord) -> str:
    return f"{record.secs * 1e3:.4f} ms"


def _why(failed: TuningRecord) -> str:
    message = (failed.failure_message or "").partition("\n")[0]
    return f"{failed.failure_kind}: {message}" if message else str(failed.failure_kind)


def _main(mod: IRModule) -> PrimFunc:
    return entry_function(mod)[1]
