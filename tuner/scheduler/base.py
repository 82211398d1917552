"""TaskScheduler: tunes several tasks in turn under one budget of trials and time, and keeps every result at once."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, ClassVar

from cost_models import CostModel
from database import Database, TuningRecord, by_speed
from ir.kinds import Kinds
from ir.time_interval import noise_of
from runners import (
    Builder,
    MeasureRequest,
    MeasureResult,
    ResultKind,
    Runner,
    finished_results,
    measure_candidates,
)
from runners.measure import STOPS
from schedules import ScheduleError

from ..callback.base import MeasureCallback
from ..context import TuneContext
from ..error import TunerError
from ..incumbent import Incumbent
from ..interrupt import Interrupts
from ..program import ScheduledProgram
from ..search.base import MeasureCandidate, SearchStrategy
from ..state import TaskState, TimeShares, TuningRun
from .final import settle
from .last_resort import last_resorts

_LEAST_SHARE = 0.01
"""Share of a task in the model's time from which its final choice is worth a second."""
_SETTLING_SECS, _SETTLING_SHARE = 10.0, 0.05
"""Final choices begin, the heaviest first, for so many seconds or such a share of the search, whichever is more."""


class TaskScheduler(TuningRun, ABC):
    """Decides which task gets the next batch.

    Args:
        measure_callbacks: told of every run of this scheduler.
    """

    kinds: ClassVar[Kinds[Callable[..., TaskScheduler]]] = Kinds("task scheduler", TunerError, __package__)
    """The schedulers that :meth:`create` knows; each registers itself where it is defined."""

    def __init__(self, measure_callbacks: Sequence[MeasureCallback] = ()) -> None:
        super().__init__()
        self.measure_callbacks = list(measure_callbacks)

    @staticmethod
    def create(kind: str = "gradient", *args: Any, **kwargs: Any) -> TaskScheduler:
        """A scheduler by name: "gradient", "round-robin", or whatever was registered since.

        Raises:
            TunerError: the name is unknown.
        """
        return TaskScheduler.kinds[kind](*args, **kwargs)

    @abstractmethod
    def next_task_id(self) -> int:
        """The task to tune next among those not finished; -1 when all are."""

    def tune(
        self,
        contexts: Sequence[TuneContext],
        strategies: Sequence[SearchStrategy],
        *,
        max_trials_global: int,
        max_trials_per_task: int | None = None,
        num_trials_per_iter: int = 16,
        builder: Builder,
        runner: Runner,
        database: Database,
        cost_models: Sequence[CostModel],
        measure_callbacks: Sequence[MeasureCallback] = (),
        max_seconds: float | None = None,
        session_id: str | None = None,
    ) -> None:
        """Tune until the trials or the seconds are used up, all spaces are exhausted, or somebody ends it (Ctrl-C, SIGTERM, SIGHUP).

        Where every trial of a task failed, a program that needs no search is kept if it is right: the schedule of builds without
        records, or the kernel as it was given.

        Each result is committed to the database as soon as it is there; what may be the best of a batch, once the fastest has
        passed the whole check. Without Ctrl-C the fastest candidates of each
        task that got trials are measured again in turns at the end. ``measure_callbacks`` are told of this run beside
        the scheduler's own.

        Raises:
            KeyboardInterrupt: Ctrl-C, after the callbacks heard the end; every finished trial is in the database. A caller
                that went on as if the search had ended would take a part of it for the whole.
            SystemExit: SIGTERM or SIGHUP, likewise; its code is 128 and the signal's number.
        """
        begin = time.monotonic()
        self.tasks, self.times, self.interrupted = [], TimeShares(), False
        self._callbacks = [*self.measure_callbacks, *measure_callbacks]
        self._builder, self._runner, self.database, self._session = builder, runner, database, session_id
        per_task = max_trials_per_task or max_trials_global
        try:
            with Interrupts() as self._interrupts:
                for context, strategy, cost_model in zip(contexts, strategies, cost_models, strict=True):
                    self.tasks.append(
                        self._start(context, strategy, cost_model, per_task, num_trials_per_iter)
                    )
                for callback in self._callbacks:
                    callback.start(self)
                self._loop(max_trials_global, per_task, max_seconds, begin)
                self._settle()
                self._take_last_resorts()
        except STOPS:
            self.interrupted = True
            raise
        finally:
            for task in self.tasks:
                task.strategy.post_tuning()
            self.times.total = time.monotonic() - begin
            for callback in self._callbacks:
                callback.finish(self)

    def _start(
        self, context: TuneContext, strategy: SearchStrategy, cost_model: CostModel, per_task: int, batch: int
    ) -> TaskState:
        workload = self.database.commit_workload(context.mod)
        # Block names are no part of a workload's identity: traces must fit the module that the database keeps.
        context.mod = workload.mod
        state = TaskState(context, strategy, workload)
        records = self.database.get_records(workload, context.target)
        # A second measurement is no trial: it must not shorten the search of a session that resumes.
        state.earlier_trials = sum(not item.remeasured for item in records)
        self._go_by(state, records)
        strategy.initialize_with_tune_context(context)
        strategy.pre_tuning(
            max(0, per_task - state.earlier_trials), batch, context.sketches(), self.database, cost_model
        )
        state.finished = per_task <= state.earlier_trials
        return state

    def _go_by(self, task: TaskState, records: Sequence[TuningRecord]) -> None:
        """Take the best of some records for the best candidate so far."""
        best = next(iter(by_speed(records)), None)
        task.best_secs = float("inf") if best is None else best.secs
        task.incumbent = None
        if best is not None and self._runner.measures_again:
            task.incumbent = Incumbent.of_record(best)

    def _loop(self, max_trials: int, per_task: int, max_seconds: float | None, begin: float) -> None:
        budget = max_trials - sum(task.earlier_trials for task in self.tasks)
        while budget > 0 and (max_seconds is None or time.monotonic() - begin < max_seconds):
            self._interrupts.check()
            task_id = self.next_task_id()
            if task_id < 0:
                break
            task = self.tasks[task_id]
            searching = time.monotonic()
            candidates = task.strategy.generate_measure_candidates()
            self.times.search += time.monotonic() - searching
            if not candidates:
                task.finished = True
                task.exhausted = task.trials + task.earlier_trials < per_task
                continue
            candidates = candidates[:budget]
            results = self._measure(task, candidates)
            budget -= len(candidates)
            searching = time.monotonic()
            for candidate, result in zip(candidates, results):
                candidate.metrics = result.metrics
                candidate.noise = noise_of(result.run_secs) if result.run_secs else 0.0
            seconds = [result.secs if result.ok else None for result in results]
            task.strategy.notify_runner_results(candidates, seconds)
            task.history.append(task.best_secs)
            self.times.search += time.monotonic() - searching
            for callback in self._callbacks:
                callback.apply(self, task_id, candidates, results)

    def _settle(self) -> None:
        """Measure the fastest candidates of each task again; tasks in which the model spends next to no time are left out."""
        spent = [task.context.weight * task.best_secs for task in self.tasks]
        total = sum(secs for secs in spent if secs < float("inf"))
        begin = time.monotonic()
        allowed = max(_SETTLING_SECS, _SETTLING_SHARE * (self.times.search + self.times.measure))
        for secs, task in sorted(zip(spent, self.tasks), key=lambda item: -item[0]):
            self._interrupts.check()
            if time.monotonic() - begin > allowed:
                break
            if task.trials and secs < float("inf") and secs >= _LEAST_SHARE * total:
                self._look_at_machine(task)
                found = settle(
                    self.database,
                    task.workload,
                    task.context.target,
                    self._builder,
                    self._runner,
                    self._session,
                    self.times,
                    task.confirmed,
                )
                if found is not None:
                    task.choice, task.best_secs = found
        self.times.measure += time.monotonic() - begin

    def _take_last_resorts(self) -> None:
        """Leave no task that had its turn without a program while there is one that is right."""
        for task in self.tasks:
            if task.best_secs < float("inf") or not (task.trials or task.finished):
                continue
            tried = self.database.get_records(task.workload, task.context.target)
            for candidate in last_resorts(task.context, tried):
                self._interrupts.check()
                if self._take(task, candidate):
                    break

    def _take(self, task: TaskState, candidate: MeasureCandidate) -> bool:
        """Measure a candidate outside of the budget, for builds to know what it is; whether it runs and is right."""
        measuring = time.monotonic()
        requests = self._requests(task, [candidate], [None], [])
        found = [result for _, result in measure_candidates(requests, self._builder, self._runner)]
        self.times.measure += time.monotonic() - measuring
        for result in found:
            self._record(task, candidate, result)
            if result.ok:
                task.best_secs, task.choice = result.secs, "last resort"
        return any(result.ok for result in found)

    def _measure(self, task: TaskState, candidates: Sequence[MeasureCandidate]) -> list[MeasureResult]:
        """Build and measure a batch, committing each result when it comes."""
        measuring = time.monotonic()
        self._look_at_machine(task)
        self.times.measure += time.monotonic() - measuring
        searching = time.monotonic()
        results: list[MeasureResult | None] = [None] * len(candidates)
        positions: list[int] = []
        requests = self._requests(task, candidates, results, positions)
        first = list(islice(requests, 1))
        self.times.search += time.monotonic() - searching
        measuring = time.monotonic()

        def keep(index: int, result: MeasureResult) -> None:
            results[positions[index]] = result
            self.times.check += result.check_secs
            committing = time.monotonic()
            self._commit(task, candidates[positions[index]], result)
            self.times.commit += time.monotonic() - committing
            for callback in self._callbacks:
                callback.trial(self, task, result)

        measured = measure_candidates(chain(first, requests), self._builder, self._runner)
        try:
            for index, result in measured:
                keep(index, result)
                self._interrupts.check()
        except STOPS as stop:
            for index, result in finished_results(measured, stop):
                keep(index, result)
            raise
        self.times.measure += time.monotonic() - measuring
        return [result if result is not None else _illegal("it was not measured") for result in results]

    def _look_at_machine(self, task: TaskState) -> None:
        """Measure the best candidate again, and tell where it takes another time than before, or computes something else."""
        if task.incumbent is None:
            return
        before = task.best_secs
        again = task.incumbent.look_again(self._runner, self._builder, task.context.mod)
        if again is None:
            return
        again.session_id = self._session
        self.database.commit_tuning_record(again)
        if again.is_valid():
            task.best_secs = again.secs
            found = f"takes {again.secs / before:.2f} times its time"
        else:
            self._go_by(task, self.database.get_records(task.workload, task.context.target))
            found = f"is given up: {again.failure_message}"
        for callback in self._callbacks:
            callback.notice(f"{task.context.task_name}: the best candidate, measured again, {found}")

    def _requests(
        self,
        task: TaskState,
        candidates: Sequence[MeasureCandidate],
        results: list[MeasureResult | None],
        positions: list[int],
    ) -> Iterator[MeasureRequest]:
        """Make programs of candidates, one after the other; ``positions`` are those of the candidates that have one."""
        module_json = task.workload.module_json
        best = None if task.best_secs == float("inf") else task.best_secs
        for position, candidate in enumerate(candidates):
            try:
                trace = candidate.trace(task.context)
            except ScheduleError as error:
                # The arrays called it valid and the replay refuses it: a defect of the arrays, counted and shown.
                trace, message = None, str(error)
            else:
                message = "a postprocessor refused the candidate"
            if trace is None:
                results[position] = _illegal(message)
                self._commit(task, candidate, results[position])
                continue
            positions.append(position)
            program = ScheduledProgram(module_json, trace.as_json())
            yield MeasureRequest(
                program,
                task.context.target,
                reference=task.context.mod,
                best_secs=best,
                best_noise=task.best_noise,
            )

    def _commit(self, task: TaskState, candidate: MeasureCandidate, result: MeasureResult | None) -> None:
        assert result is not None
        task.trials += 1
        record = self._record(task, candidate, result)
        if not result.ok:
            task.failures[str(result.kind)] += 1
            task.last_errors[str(result.kind)] = result.error_msg or ""
        elif record.secs < task.best_secs:
            task.best_secs = record.secs
            if self._runner.measures_again and not result.cut:
                task.incumbent = Incumbent(result.artifact, record, time.monotonic())

    def _record(self, task: TaskState, candidate: MeasureCandidate, result: MeasureResult) -> TuningRecord:
        schedule = candidate._schedule
        trace = schedule.trace if schedule is not None else candidate.sketch.trace_of(candidate.row)
        record = TuningRecord(
            trace,
            task.workload,
            result.run_secs,
            task.context.target,
            None,
            verified=result.verified,
            cut=result.cut,
            failure_kind=None if result.ok else str(result.kind),
            failure_message=result.error_msg,
            metrics=result.metrics,
            versions={"check": result.check} if result.check else None,
            session_id=self._session,
        )
        if result.confirmed:
            task.confirmed.add(record.trace_key)
        self.database.commit_tuning_record(record)
        return record


def _illegal(message: str) -> MeasureResult:
    return MeasureResult(ResultKind.ILLEGAL_SCHEDULE, None, message)
