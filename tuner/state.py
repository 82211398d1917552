"""How far a tuning run is: what task schedulers decide by, and what measure callbacks are shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from database import Database, MemoryDatabase, TuningRecord
from database.workload import Workload
from ir.time_interval import UNKNOWN_NOISE

from .context import TuneContext
from .incumbent import Incumbent
from .search.base import SearchStrategy


@dataclass(eq=False)
class TaskState:
    """How far one task is."""

    context: TuneContext
    strategy: SearchStrategy
    workload: Workload
    trials: int = 0
    """Trials of this session."""
    earlier_trials: int = 0
    """Trials that the database had already."""
    others_trials: int = 0
    """Trials that other tuners have added to the database since."""
    best: TuningRecord | None = None
    """The record that a build would take."""
    best_secs: float = float("inf")
    """Its time."""
    incumbent: Incumbent | None = None
    """The best candidate as it was built, once one has been measured, where the runner can measure it again."""
    history: list[float] = field(default_factory=list)
    """Best time after each batch."""
    confirmed: set[str] = field(default_factory=set)
    """Candidates that have passed the whole check in this session, by the keys of their traces."""
    failures: Counter[str] = field(default_factory=Counter)
    last_errors: dict[str, str] = field(default_factory=dict)
    finished: bool = False
    exhausted: bool = False
    """Whether the search had no other candidate before its trials were used up."""
    settled: bool = False
    """Whether the final choice has come to this task."""
    choice: str | None = None
    """"confirmed" or "changed" when the fastest candidates were measured again in turns; "last resort" when all trials failed and a
    program that needs no search is right.
    """

    @property
    def all_trials(self) -> int:
        """Trials by whomever, whenever."""
        return self.trials + self.earlier_trials + self.others_trials

    @property
    def best_noise(self) -> float:
        """How certain the best time is."""
        return UNKNOWN_NOISE if self.incumbent is None else self.incumbent.interval.noise

    @property
    def gflops(self) -> float:
        """Speed of the best candidate, 0 when there is none."""
        return self.context.flops / self.best_secs / 1e9 if self.best_secs < float("inf") else 0.0


@dataclass
class TimeShares:
    """Seconds of the tuning loop by what they went to."""

    search: float = 0.0
    measure: float = 0.0
    check: float = 0.0
    """What of measuring went to checking outputs."""
    commit: float = 0.0
    total: float = 0.0

    @property
    def overhead(self) -> float:
        """Share of the time that was neither building nor measuring."""
        return 0.0 if self.total == 0 else 1.0 - self.measure / self.total

    def phases(self) -> dict[str, float]:
        """Seconds of the run by what they went to, which add up to :attr:`total`.

        >>> TimeShares(search=2.0, measure=7.0, check=3.0, total=10.0).phases()
        {'search': 2.0, 'build and measure': 4.0, 'check': 3.0, 'other': 1.0}
        """
        check = min(self.check, self.measure)  # of devices elsewhere, several check at a time
        other = max(0.0, self.total - self.search - self.measure)
        return {
            "search": self.search,
            "build and measure": self.measure - check,
            "check": check,
            "other": other,
        }

    @property
    def check_share(self) -> float:
        """Share of the time that went to checking candidates."""
        return 0.0 if self.total == 0 else self.check / self.total


class TuningRun:
    """One run over several tasks.

    Attributes:
        tasks: in the order in which they were given.
        database: where their records go, from the start on.
        times: what the run's seconds went to.
        interrupted: whether Ctrl-C, SIGTERM or SIGHUP ended it.
    """

    def __init__(self) -> None:
        self.tasks: list[TaskState] = []
        self.database: Database = MemoryDatabase()
        self.times = TimeShares()
        self.interrupted = False

    def shares(self) -> list[float]:
        """What part of the model's time each task takes, by its best candidate; 0 where there is none."""
        found = [
            task.context.weight * task.best_secs if task.best_secs < float("inf") else 0.0
            for task in self.tasks
        ]
        total = sum(found)
        return [secs / total if total else 0.0 for secs in found]
