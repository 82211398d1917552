"""TaskScheduler: tunes several tasks in turn under one budget of trials and time, and keeps every result at once."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, ClassVar

from cost_models import CostModel
from database import Database, TuningRecord, by_speed
from database.record import EXPECTED_SECS
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
from .time_budget import TimeBudget

_LOG = logging.getLogger(__name__)

_LEAST_SHARE = 0.01
"""Share of a task in the model's time from which its final choice is worth a second."""
_SETTLING_SECS, _SETTLING_SHARE = 10.0, 0.1
"""Final choices begin, the heaviest first, for so many seconds or such a share of the search, whichever is more."""
FINAL_CHOICES = ("auto", "all", "never")
"""Whose final choice is made: that of the heavy kernels that got trials, while the time for it lasts; of all kernels; of none."""


def check_final_choice(which: str) -> str:
    """Refuse what is no final choice.

    Raises:
        TunerError: it is another word.
    """
    if which not in FINAL_CHOICES:
        raise TunerError(f"final_choice is one of {', '.join(FINAL_CHOICES)}, got {which!r}")
    return which


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
        final_choice: str = "auto",
    ) -> None:
        """Tune until the trials or the seconds are used up, all spaces are exhausted, or somebody ends it (Ctrl-C, SIGTERM, SIGHUP).

        A last batch is as small as the time that is left for it, at the pace of those before, and a tenth of the seconds is left to the
        final choice, unless that is to be all or none.

        Where every trial of a task failed, a program that needs no search is kept if it is right: the schedule of builds without
        records, or the kernel as it was given.

        Each result is committed to the database as soon as it is there; what may be the best of a batch, once the fastest has
        passed the whole check. Unless somebody ends it, the fastest candidates of the tasks that ``final_choice`` says
        (:data:`FINAL_CHOICES`) are measured again in turns at the end. ``measure_callbacks`` are told of this run beside
        the scheduler's own. Trials that other tuners add to the database in the meantime count, too.

        Raises:
            TunerError: there is no such ``final_choice``.
            KeyboardInterrupt: Ctrl-C, after the callbacks heard the end; every finished trial is in the database. A caller
                that went on as if the search had ended would take a part of it for the whole.
            SystemExit: SIGTERM or SIGHUP, likewise; its code is 128 and the signal's number.
        """
        check_final_choice(final_choice)
        begin = time.monotonic()
        settles = final_choice == "auto" and runner.measures_again
        self._time = TimeBudget(max_seconds, _SETTLING_SHARE if settles else 0.0)
        self.tasks, self.times, self.interrupted = [], TimeShares(), False
        begun: list[SearchStrategy] = []
        self._callbacks = [*self.measure_callbacks, *measure_callbacks]
        self._builder, self._runner, self.database, self._session = builder, runner, database, session_id
        per_task = max_trials_per_task or max_trials_global
        try:
            with Interrupts() as self._interrupts:
                for context, strategy in zip(contexts, strategies, strict=True):
                    self.tasks.append(self._meet(context, strategy, per_task))
                for task, cost_model in self._to_begin(cost_models, max_trials_global, per_task):
                    self._interrupts.check()
                    if self._time.trials_are_over:
                        break
                    self._begin(task, cost_model, per_task, num_trials_per_iter)
                    begun.append(task.strategy)
                for callback in self._callbacks:
                    callback.start(self)
                self._loop(max_trials_global, per_task)
                self._settle(final_choice)
                self._take_last_resorts()
                self._look_up_all()
        except STOPS:
            self.interrupted = True
            self._look_up_all()
            raise
        finally:
            for strategy in begun:
                strategy.post_tuning()
            self.times.total = time.monotonic() - begin
            for callback in self._callbacks:
                callback.finish(self)

    def _meet(self, context: TuneContext, strategy: SearchStrategy, per_task: int) -> TaskState:
        """A task with what the database knows of it."""
        workload = self.database.commit_workload(context.mod)
        # Block names are no part of a workload's identity: traces must fit the module that the database keeps.
        context.mod = workload.mod
        state = TaskState(context, strategy, workload)
        # A second measurement is no trial: it must not shorten the search of a session that resumes.
        state.earlier_trials = self.database.count_trials(workload, context.target)
        self._look_up(state)
        state.finished = per_task <= state.earlier_trials
        return state

    def _to_begin(
        self, cost_models: Sequence[CostModel], max_trials: int, per_task: int
    ) -> list[tuple[TaskState, CostModel]]:
        """The tasks that may get trials; says what is done with them, or why there are none."""
        earlier = sum(task.earlier_trials for task in self.tasks)
        left = [item for item in zip(self.tasks, cost_models, strict=True) if not item[0].finished]
        if earlier >= max_trials:
            self._tell(
                f"nothing to measure: the database has {earlier} trials of earlier runs, and these are all of the {max_trials} of"
                f" --trials (max_trials_global); a larger number goes on, such as {earlier + max_trials}"
            )
            return []
        if not left and self.tasks:
            self._tell(
                f"nothing to measure: each kernel has the {per_task} trials of --trials-per-task (max_trials_per_task) from earlier"
                " runs; a larger number goes on"
            )
        elif left:
            self._tell(f"preparing the search of {_kernels(len(left))}")
        return left

    def _begin(self, task: TaskState, cost_model: CostModel, per_task: int, batch: int) -> None:
        """Start the strategy of a task."""
        task.strategy.initialize_with_tune_context(task.context)
        trials = max(0, per_task - task.earlier_trials)
        sketches = task.context.sketches()
        if _LOG.isEnabledFor(logging.INFO):
            count = f"{sum(sketch.size() for sketch in sketches):,}"
            _LOG.info("%s: %d structures with %s candidates", task.context.task_name, len(sketches), count)
        task.strategy.pre_tuning(trials, batch, sketches, self.database, cost_model)

    def _tell(self, text: str) -> None:
        for callback in self._callbacks:
            callback.notice(text)

    def _look_up(self, task: TaskState) -> None:
        """Take for the best candidate so far the one that a build would take, which may be another tuner's."""
        records = self.database.get_records(task.workload, task.context.target)
        task.best = next((record for record in by_speed(records) if record.applies()), None)
        task.best_secs = float("inf") if task.best is None else task.best.secs
        if task.best is None or not self._runner.measures_again:
            task.incumbent = None
        elif task.incumbent is None or task.incumbent.record.trace_key != task.best.trace_key:
            task.incumbent = Incumbent.of_record(task.best)

    def _look_up_all(self) -> None:
        for task in self.tasks:
            self._look_up(task)

    def _budget(self, max_trials: int, per_task: int) -> int:
        """Trials that are left: other tuners on this database use them up, too."""
        for task in self.tasks:
            known = self.database.count_trials(task.workload, task.context.target)
            task.others_trials = max(0, known - task.earlier_trials - task.trials)
            task.finished = task.finished or task.all_trials >= per_task
        return max_trials - sum(task.all_trials for task in self.tasks)

    def _loop(self, max_trials: int, per_task: int) -> None:
        begin, shortened = time.monotonic(), set()
        while (budget := self._budget(max_trials, per_task)) > 0:
            self._interrupts.check()
            trials = sum(task.trials for task in self.tasks)
            if self._time.trials_are_over:
                if not trials and not all(task.finished for task in self.tasks):
                    self._tell(
                        "nothing was measured: the time of --time (max_seconds) was over when the search was prepared"
                    )
                break
            task_id = self.next_task_id()
            if task_id < 0:
                break
            task = self.tasks[task_id]
            searching = time.monotonic()
            candidates = task.strategy.generate_measure_candidates()
            self.times.search += time.monotonic() - searching
            if not candidates:
                task.finished = True
                task.exhausted = task.all_trials < per_task and task_id not in shortened
                continue
            count = min(budget, self._time.fitting(trials, time.monotonic() - begin))
            if count < len(candidates):
                shortened.add(task_id)  # its strategy does not propose the others again
                candidates = candidates[:count]
            results = self._measure(task, candidates)
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

    def _settle(self, which: str) -> None:
        """Make the final choice of tasks, the heaviest first.

        Unless it is to be all, those in which the model spends next to no time are left out, and those that got no trials, and what
        remains when the time for it is up, or that of the run.
        """
        shares = self.shares()
        chosen = [
            task
            for task, share in sorted(zip(self.tasks, shares, strict=True), key=lambda item: -item[1])
            if share and (which == "all" or (which == "auto" and task.trials and share >= _LEAST_SHARE))
        ]
        if which == "auto" and self._time.is_over:
            return
        begin = time.monotonic()
        allowed = max(_SETTLING_SECS, _SETTLING_SHARE * (self.times.search + self.times.measure))
        if chosen and self._runner.measures_again:
            self._tell(f"the final choice: measuring the fastest of {_kernels(len(chosen))} again, in turns")
        for number, task in enumerate(chosen, 1):
            self._interrupts.check()
            if which == "auto" and (time.monotonic() - begin > allowed or self._time.is_over):
                break
            self._settle_one(task)
            if task.choice is not None and len(chosen) > 1:
                self._tell(f"final choice {number}/{len(chosen)}: {task.context.task_name} {task.choice}")
        self.times.measure += time.monotonic() - begin

    def _settle_one(self, task: TaskState) -> None:
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
            task.context.default_key,
        )
        task.settled = True
        if found is not None:
            task.choice = found[0]
            self._look_up(task)

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
            record = self._record(task, candidate, result)
            if result.ok:
                task.best, task.best_secs, task.choice = record, record.secs, "last resort"
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
        self._look_up(task)
        if not again.is_valid():
            found = f"is given up: {again.failure_message}"
        else:
            found = f"takes {again.secs / before:.2f} times its time"
            if task.best is not None and task.best.trace_key != again.trace_key:
                found += ", and another is the best now"
        self._tell(f"{task.context.task_name}: the best candidate, measured again, {found}")

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
                device_type=task.context.target.device_type,
            )

    def _commit(self, task: TaskState, candidate: MeasureCandidate, result: MeasureResult | None) -> None:
        assert result is not None
        task.trials += 1
        record = self._record(task, candidate, result)
        if not result.ok:
            task.failures[str(result.kind)] += 1
            task.last_errors[str(result.kind)] = result.error_msg or ""
        elif task.best is None or record.merit() < task.best.merit():
            task.best, task.best_secs = record, record.secs
            is_looked_at = self._runner.measures_again and not result.cut
            task.incumbent = Incumbent(result.artifact, record, time.monotonic()) if is_looked_at else None

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
            metrics=result.metrics
            if candidate.expected_secs is None
            else {**result.metrics, EXPECTED_SECS: candidate.expected_secs},
            versions={"check": result.check} if result.check else None,
            session_id=self._session,
        )
        if result.confirmed:
            task.confirmed.add(record.trace_key)
        self.database.commit_tuning_record(record)
        return record


def _kernels(count: int) -> str:
    return "one kernel" if count == 1 else f"{count} kernels"


def _illegal(message: str) -> MeasureResult:
    return MeasureResult(ResultKind.ILLEGAL_SCHEDULE, None, message)
