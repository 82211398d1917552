"""MetaScheduleApplyDatabase: replace each kernel of a module by the best that a database knows, and report what was done.

Nothing here measures or searches: building with a database needs ``ir``, ``schedules`` and ``database`` alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ir import GlobalVar, IRModule
from ir.forked_map import forked_map
from ir.target import Target
from ir.time_interval import milliseconds
from ir.tir import PrimFunc
from ir.transform import ModulePass, PassContext
from schedules import Schedule, ScheduleError
from schedules.dlight import default_schedule
from schedules.population import flops_of
from schedules.scheduled import IS_SCHEDULED, in_place_of

from .base import Database
from .error import DatabaseError
from .opening import open_database
from .record import WRONG_RESULT, TuningRecord, key_of_trace
from .workload import Workload, entry_function, has_static_arguments, kernel_module, structural_key

_LOG = logging.getLogger(__name__)

_Key = tuple[str, bool]
"""A kernel by its structural hash, and whether it is for the model's target."""
DefaultSchedule = Callable[[IRModule, Target], Schedule]


@dataclass
class AppliedKernel:
    """What became of one kernel.

    Attributes:
        name: its function in the module.
        source: ``record``, ``default`` (a schedule without tuning) or ``unscheduled``.
        reason: the record's time, or why there is none.
        flops: of one call; None for symbolic shapes.
        workload: the hash by which databases know it.
        target: what it is for.
        record: the record that was applied; None for other sources.
    """

    name: str
    source: str
    reason: str
    flops: float | None
    workload: str = ""
    target: Target | None = None
    record: TuningRecord | None = None


@dataclass
class ApplyReport:
    """One row per kernel, and the share of the floating-point operations that records cover."""

    kernels: list[AppliedKernel] = field(default_factory=list)

    @property
    def coverage(self) -> float:
        """Share of all kernels' FLOPs that run a tuned schedule; where none is known to have any, the share of the kernels."""
        tuned = [item for item in self.kernels if item.source == "record"]
        if total := sum(item.flops or 0.0 for item in self.kernels):
            return sum(item.flops or 0.0 for item in tuned) / total
        return len(tuned) / len(self.kernels) if self.kernels else 1.0

    def misses(self) -> list[AppliedKernel]:
        """Kernels without a record."""
        return [item for item in self.kernels if item.source != "record"]

    def __str__(self) -> str:
        width = max([len(item.name) for item in self.kernels] + [6])
        lines = [f"{'kernel':{width}}  {'source':11}  {'MFLOP':>10}  record, or why there is none"]
        for item in self.kernels:
            work = "-" if item.flops is None else f"{item.flops / 1e6:.2f}"
            lines.append(f"{item.name:{width}}  {item.source:11}  {work:>10}  {item.reason}")
        lines.append(self._covered())
        return "\n".join(lines)

    def _covered(self) -> str:
        unknown = sum(item.flops is None for item in self.kernels)
        if unknown and not any(item.flops for item in self.kernels):
            count = len(self.kernels) - len(self.misses())
            return f"records cover {count} of {len(self.kernels)} kernels; how much work those of open shape are is not known"
        beside = f", beside {unknown} kernels of open shape" if unknown else ""
        return f"records cover {self.coverage:.1%} of the floating-point operations{beside}"


class MissingRecordError(DatabaseError):
    """Strict application found a kernel without a record."""


_REFUSES_DEFAULT = (WRONG_RESULT, "crash", "build_error")
"""The failures of a default schedule that was measured for which a build does without it: it is no program to run. One that took too
long, or too much memory, may be what there is."""


@dataclass(frozen=True)
class ModelKernel:
    """A kernel of a prepared model that schedules are applied to.

    Attributes:
        var, func: the function in the module.
        module: the kernel by itself, as databases know it.
        workload: its hash there.
        target: what it is for: the model's target, or the processor that is the host of a GPU.
    """

    var: GlobalVar
    func: PrimFunc
    module: IRModule
    workload: str
    target: Target


def kernels_of(mod: IRModule, target: Target) -> list[ModelKernel]:
    """The kernels of a prepared model that have no schedule of their own, in the order of the module."""
    found = []
    for var, func in mod.functions.items():
        if isinstance(func, PrimFunc) and not func.attrs.get(IS_SCHEDULED):
            kernel = kernel_module(func.without_attr("tir.is_host_func"))
            found.append(ModelKernel(var, func, kernel, structural_key(kernel), _target_of(func, target)))
    return found


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
    target: Target | None = None
    """What it is for; None is the target in force."""
    shash: str = ""
    """Of the kernel, as workloads have it."""


@dataclass(frozen=True)
class _Outcome:
    """What became of a plan; without a function its records do not apply, for the reasons in ``skipped``."""

    function: PrimFunc | None
    source: str
    reason: str
    skipped: tuple[str, ...] = ()
    record: TuningRecord | None = None


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
        kernels: list[tuple[ModelKernel, _Key]] = []
        plans: dict[_Key, _Plan] = {}
        for item in kernels_of(mod, target):
            key = (item.workload, item.target is target)
            kernels.append((item, key))
            if key not in plans:
                planned = self._plan(item.module, item.target, store, item.var.name_hint)
                plans[key] = replace(planned, target=item.target, shash=item.workload)
        if self.strict:
            self._require_records(
                [(item.var.name_hint, plans[key].source, plans[key].reason) for item, key in kernels]
            )
        outcomes = self._carry_out_all(plans, target, store)
        if self.strict:  # there were records, of which none applies
            self._require_records(
                [(item.var.name_hint, outcomes[key].source, outcomes[key].reason) for item, key in kernels]
            )
        for item, key in kernels:
            outcome = outcomes[key]
            self.report.kernels.append(_applied(item, outcome))
            if outcome.source != "unscheduled":
                assert outcome.function is not None
                functions[item.var] = in_place_of(item.func, outcome.function)
        return mod.replace(functions=functions)

    def _require_records(self, found: list[tuple[str, str, str]]) -> None:
        """Raise a MissingRecordError that names all kernels without a record; ``found`` are names, sources and reasons."""
        by_reason: dict[str, list[str]] = {}
        for name, source, reason in found:
            if source != "record":
                by_reason.setdefault(reason, []).append(name)
        missing = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
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
        self, plans: dict[_Key, _Plan], target: Target, store: Database | None
    ) -> dict[_Key, _Outcome]:
        """What becomes of each plan. Where the best record does not apply the others are asked for, and without any the default."""
        outcomes: dict[_Key, _Outcome] = {}
        while plans:
            # Databases are asked by this process alone: a connection must not be shared with children.
            found = forked_map(
                lambda plan: self._carried_out(plan, plan.target or target),
                list(plans.values()),
                named=lambda plan: f"kernel {plan.name}",
            )
            left: dict[_Key, _Plan] = {}
            for (key, plan), outcome in zip(plans.items(), found, strict=True):
                for message in outcome.skipped:
                    _LOG.warning("kernel %s: skipped %s", plan.name, message)
                if outcome.function is None:
                    assert store is not None
                    own = plan.target or target
                    left[key] = replace(
                        self._next_plan(plan, outcome, own, store), target=own, shash=plan.shash
                    )
                else:
                    _LOG.info("kernel %s: %s, %s", plan.name, outcome.source, outcome.reason)
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


def _applied(kernel: ModelKernel, outcome: _Outcome) -> AppliedKernel:
    flops = flops_of(kernel.func) if has_static_arguments(kernel.func) else None
    return AppliedKernel(
        kernel.var.name_hint,
        outcome.source,
        outcome.reason,
        flops,
        kernel.workload,
        kernel.target,
        outcome.record if outcome.source == "record" else None,
    )


def _target_of(func: PrimFunc, target: Target) -> Target:
    """What a kernel of a model is for: the model's target, or the processor that is the host of a GPU."""
    if target.is_gpu and func.attrs.get("tir.is_host_func"):
        return target.host if target.host is not None else Target("llvm")
    return target


def _first_that_applies(plan: _Plan) -> _Outcome:
    skipped: list[str] = []
    for record in plan.records:
        try:
            is_own = record.workload.shash == plan.shash
            function = _main(record.schedule_of(plan.name, None if is_own else plan.kernel).mod)
        except DatabaseError as error:
            skipped.append(str(error))
            continue
        reason = (
            _time_of(record) if is_own else f"{_time_of(record)} for an equal kernel, whose trace was adapted"
        )
        passed_over = len(plan.skipped) + len(skipped)
        if passed_over:
            reason += f"; {passed_over} faster records do not apply, of which the best: {[*plan.skipped, *skipped][0]}"
        return _Outcome(function, "record", reason, tuple(skipped), record)
    return _Outcome(None, plan.source, plan.reason, tuple(skipped))


def _time_of(record: TuningRecord) -> str:
    return f"{milliseconds(record.secs)} ms"


def _why(failed: TuningRecord) -> str:
    message = (failed.failure_message or "").partition("\n")[0]
    return f"{failed.failure_kind}: {message}" if message else str(failed.failure_kind)


def _main(mod: IRModule) -> PrimFunc:
    return entry_function(mod)[1]
