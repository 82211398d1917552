"""What a report shows, as plain data: kernels with their trials, runs with their phases, and the machine's roofline.

:class:`DatabaseReader` makes them from a tuning database. It keeps what it has read, so that a page that follows a search asks for new
records only; drawing knows nothing of databases.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from database import Database, Session, TuningRecord, Workload
from database.record import EXPECTED_SECS
from database.workload import WorkloadSummary, entry_function
from ir.error import IRError
from ir.target import Target
from schedules.population import flops_of

from ..names import kernel_names, shapes_text, target_text
from ..roofline import Roofline, argument_bytes, roofline_of


@dataclass(frozen=True, slots=True)
class Trial:
    """One measured candidate.

    Attributes:
        number: its place among the trials of its kernel, from 1.
        secs: its time; None for one that failed.
        failure: why there is no time; None for one that ran.
        noise: half the width of the interval in which its time lies, as a share of the time (:mod:`ir.time_interval`); None where
            there were no repeats.
        expected_secs: what the search expected; None where it had no idea.
        verified: whether its outputs were compared with the program's.
    """

    number: int
    secs: float | None
    failure: str | None = None
    noise: float | None = None
    expected_secs: float | None = None
    verified: bool = False


@dataclass
class Kernel:
    """One kernel on one target.

    Attributes:
        name: what the model that was tuned last calls it.
        shapes: of its arguments.
        target: what it was tuned for; None where records tell none.
        flops: of one call; 0 where they are not known.
        n_bytes: of its arguments, each counted once.
        weight: how often one run of the model calls it; None where no run says so.
        trials: in the order in which they came.
        failure_messages: the last message of each kind of failure.
        best: the record that a build takes; None where no candidate ran.
    """

    name: str
    shapes: str
    target: Target | None
    flops: float
    n_bytes: float
    workload: Workload
    weight: float | None = None
    trials: list[Trial] = field(default_factory=list)
    failure_messages: dict[str, str] = field(default_factory=dict)
    best: TuningRecord | None = None

    @property
    def first_secs(self) -> float | None:
        """Seconds of the first trial that ran: of most searches the default schedule, with which they begin."""
        return next((trial.secs for trial in self.trials if trial.secs is not None), None)

    @property
    def best_secs(self) -> float | None:
        """Seconds of the record that a build takes."""
        return None if self.best is None else self.best.secs

    @property
    def failures(self) -> Counter[str]:
        """How many trials failed, by kind."""
        return Counter(trial.failure for trial in self.trials if trial.failure is not None)

    @property
    def flops_per_s(self) -> float | None:
        """Speed of the record that a build takes; None where nothing is computed, or nothing ran."""
        return self.flops / self.best_secs if self.best_secs and self.flops else None

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte of the arguments; None where nothing is computed."""
        return self.flops / self.n_bytes if self.flops and self.n_bytes else None

    @property
    def model_secs(self) -> float | None:
        """Seconds of a run of the model that go to this kernel; None where its weight or its time is not known."""
        return None if self.best_secs is None or self.weight is None else self.weight * self.best_secs

    def improvements(self) -> list[tuple[int, float]]:
        """(number of the trial, seconds) wherever a trial was faster than all before."""
        found: list[tuple[int, float]] = []
        for trial in self.trials:
            if trial.secs is not None and (not found or trial.secs < found[-1][1]):
                found.append((trial.number, trial.secs))
        return found


@dataclass(frozen=True)
class Run:
    """One run of the tuner: when it began (seconds since the epoch), how long it took, and what its seconds went to."""

    started_at: float
    seconds: float | None
    phases: dict[str, float]
    seed: int | None


@dataclass(frozen=True)
class Program:
    """The best program of a kernel beside the default one, as script text; a text says why where there is none."""

    kernel: str
    best: str
    default: str


@dataclass
class Report:
    """Everything that a page shows.

    Attributes:
        title: the database's name.
        kernels: those that take most of the model's time first, those without a weight behind them.
        runs: oldest first.
        rooflines: of the machines of the kernels' targets, by the targets' texts.
        programs: of the kernels that were asked for.
        notes: sentences about what the report does not hold.
        status: of a search that is under way; empty for a report of what is there.
    """

    title: str
    kernels: list[Kernel] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    rooflines: dict[str, Roofline] = field(default_factory=dict)
    programs: list[Program] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    status: str = ""

    @property
    def n_trials(self) -> int:
        """Trials of all kernels."""
        return sum(len(kernel.trials) for kernel in self.kernels)

    @property
    def model_secs(self) -> float:
        """Seconds of one run of the model in the kernels whose weight and time are known."""
        return sum(kernel.model_secs or 0.0 for kernel in self.kernels)

    def share(self, kernel: Kernel) -> float | None:
        """Which part of the model's time goes to a kernel."""
        return kernel.model_secs / self.model_secs if kernel.model_secs and self.model_secs else None


class DatabaseReader:
    """Reads a database into reports, each time what is new.

    Args:
        database: which; it is only read.
        title: what pages call it.
    """

    def __init__(self, database: Database, title: str) -> None:
        self._database, self._title = database, title
        self._kernels: dict[tuple[str, str], Kernel] = {}
        self._read: dict[tuple[str, str], int] = {}
        self._rooflines: dict[str, Roofline | None] = {}
        self._count = self._unreadable = 0

    def read(self) -> Report:
        """The report of what the database holds now."""
        self._read_records()
        sessions = self._database.get_sessions()
        self._name_kernels(sessions)
        kernels = list(self._kernels.values())
        kernels.sort(key=lambda item: -(item.model_secs or 0.0))
        return Report(
            self._title,
            kernels,
            [_run_of(session) for session in sessions],
            self._rooflines_of(kernels),
        )

    def _read_records(self) -> None:
        count = len(self._database)
        if count == self._count:
            return
        self._count = count
        for place, kernel in self._kernels.items():
            if kernel.target is not None:
                self._take(
                    place, self._database.get_records(kernel.workload, kernel.target, self._read[place])
                )
        if count - self._unreadable <= sum(self._read.values()):
            return
        # A kernel or a target that is new; records of no target are found in no other way.
        self._kernels, self._read = {}, {}
        for workload in self._database.get_workloads():
            by_place: dict[tuple[str, str], list[TuningRecord]] = {}
            for record in self._database.records_of(workload):
                by_place.setdefault(record.place, []).append(record)
            for place, records in by_place.items():
                try:
                    self._kernels[place] = _kernel_of(records[0])
                except IRError:  # a program of a newer version, which a warning of the database has named
                    continue
                self._read[place] = 0
                self._take(place, records)
        self._unreadable = count - sum(self._read.values())

    def _take(self, place: tuple[str, str], records: Sequence[TuningRecord]) -> None:
        if not records:
            return
        kernel = self._kernels[place]
        self._read[place] += len(records)
        trials = [record for record in records if not record.remeasured]
        if not trials and not kernel.trials:
            trials = list(records)  # a pruned export may have left nothing but second measurements
        for record in trials:
            kernel.trials.append(_trial_of(len(kernel.trials) + 1, record))
            if record.failure_kind is not None:
                kernel.failure_messages[record.failure_kind] = record.failure_message or ""
        if kernel.target is None:
            ran = [record for record in records if record.is_valid()]
            kernel.best = min(
                [*ran, *([kernel.best] if kernel.best else [])], key=TuningRecord.merit, default=None
            )
        else:
            kernel.best = self._database.query_tuning_record(kernel.workload.mod, kernel.target)

    def _name_kernels(self, sessions: Sequence[Session]) -> None:
        """The names that the last run gave, and the weights of the model that it tuned."""
        names = kernel_names(sessions)
        last = next((item.weights for item in reversed(sessions) if item.weights), {})
        for (shash, _), kernel in self._kernels.items():
            kernel.name = names.get(shash, kernel.name)
            kernel.weight = last.get(shash)

    def _rooflines_of(self, kernels: Sequence[Kernel]) -> dict[str, Roofline]:
        found: dict[str, Roofline] = {}
        for kernel in kernels:
            if kernel.target is None:
                continue
            text = target_text(kernel.target)
            if self._rooflines.get(text) is None:
                self._rooflines[text] = roofline_of(self._database, kernel.target)
            roof = self._rooflines[text]
            if roof is not None:
                found[text] = roof
        return found


def _kernel_of(record: TuningRecord) -> Kernel:
    """A kernel without trials yet."""
    func = entry_function(record.workload.mod)[1]
    summary = WorkloadSummary.of(record.workload.mod)
    return Kernel(
        summary.described,
        shapes_text(summary),
        record.target,
        flops_of(func),
        argument_bytes(func),
        record.workload,
    )


def _trial_of(number: int, record: TuningRecord) -> Trial:
    repeats = record.run_secs is not None and len(record.run_secs) > 1
    expected = record.metrics.get(EXPECTED_SECS)
    return Trial(
        number,
        record.secs if record.is_valid() else None,
        record.failure_kind if record.is_valid() or record.failure_kind else "no time",
        record.interval.noise if repeats and record.is_valid() else None,
        expected if expected and math.isfinite(expected) else None,
        record.verified,
    )


def _run_of(session: Session) -> Run:
    seconds = None if session.finished_at is None else max(0.0, session.finished_at - session.started_at)
    return Run(session.started_at, seconds, session.phases, session.seed)
