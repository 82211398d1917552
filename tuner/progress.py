"""Live progress of tuning: a table on a terminal, plain lines elsewhere, and a summary at the end."""

from __future__ import annotations

import sys
import textwrap
import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table

from runners import MeasureResult

from .callback.base import MeasureCallback
from .console import Fitted, make_console
from .search.base import MeasureCandidate
from .state import TaskState, TuningRun

_MAX_ROWS = 30
_MAX_NAME = 44
"""Characters of a kernel's name; one that is cut ends in an ellipsis."""
_MAX_REASON = 400
"""Characters of why a trial failed: enough to name the place."""
_MAX_NAMES = 5
"""Kernels that a sentence names; the others are counted."""


class Progress(MeasureCallback):
    """What both displays share: the summary table, counts, and the estimated time left."""

    def __init__(self, max_trials: int, max_seconds: float | None, console: Console | None = None) -> None:
        self.console = console or make_console(stderr=True)
        self.max_trials, self.max_seconds = max_trials, max_seconds
        self._begin = time.monotonic()

    def notice(self, text: str) -> None:
        self.console.print(text)

    def start(self, task_scheduler: TuningRun) -> None:
        self._begin = time.monotonic()

    def _done(self, scheduler: TuningRun) -> tuple[int, int]:
        """(trials of this session, trials by whomever, whenever)."""
        return sum(task.trials for task in scheduler.tasks), sum(task.all_trials for task in scheduler.tasks)

    def _remaining(self, scheduler: TuningRun) -> str:
        now, done = self._done(scheduler)
        elapsed = time.monotonic() - self._begin
        left = self.max_trials - done
        estimates = [0.0] if left <= 0 else [left * elapsed / now] if now else []
        if self.max_seconds is not None:
            estimates.append(self.max_seconds - elapsed)
        return _duration(max(0.0, min(estimates))) if estimates else "?"

    def table(self, scheduler: TuningRun) -> Table:
        """One row per task, heaviest first."""
        _, done = self._done(scheduler)
        title = f"{done}/{self.max_trials} trials, {_duration(time.monotonic() - self._begin)}, {self._remaining(scheduler)} left"
        table = Table(title=title, title_justify="left")
        for name in ("#", "kernel", "weight", "trials", "best ms", "GFLOP/s", "share", "errors"):
            table.add_column(
                name, justify="left" if name in ("kernel", "errors") else "right", no_wrap=name != "errors"
            )
        shares = scheduler.shares()
        for number, task in enumerate(scheduler.tasks[:_MAX_ROWS]):
            found = task.best_secs < float("inf")
            table.add_row(
                str(number),
                name if len(name := task.context.task_name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…",
                f"{task.context.weight:g}",
                str(task.all_trials),
                f"{task.best_secs * 1e3:.4f}" if found else "-",
                f"{task.gflops:.1f}" if found else "-",
                f"{shares[number]:.0%}" if shares[number] else "-",
                ", ".join(f"{kind} {count}" for kind, count in task.failures.most_common()),
            )
        if len(scheduler.tasks) > _MAX_ROWS:
            table.caption = f"and {len(scheduler.tasks) - _MAX_ROWS} more"
        return table

    def finish(self, task_scheduler: TuningRun) -> None:
        self.console.print(Fitted(self.table(task_scheduler)))
        times = task_scheduler.times
        now, _ = self._done(task_scheduler)
        rate = now / times.total if times.total else 0.0
        self.console.print(
            f"{now} trials in {_duration(times.total)} ({rate:.2f} per second); search and bookkeeping took {times.overhead:.1%},"
            f" checks {times.check_share:.1%}"
        )
        others = sum(task.others_trials for task in task_scheduler.tasks)
        if others:
            self.console.print(f"{others} more trials came from other tuners on this database, and count")
        self._print_choices(task_scheduler)
        self._print_exhausted([task.context.task_name for task in task_scheduler.tasks if task.exhausted])
        for task in task_scheduler.tasks:
            found = task.best_secs < float("inf")
            if task.trials and (not found or task.choice == "last resort"):
                reasons = "; ".join(
                    f"{kind}: {textwrap.shorten(text, _MAX_REASON, placeholder=' ...')}"
                    for kind, text in task.last_errors.items()
                )
                kept = "; kept a program that needs no search" if found else ""
                self.console.print(
                    f"{task.context.task_name}: all {task.trials} trials failed: {reasons}{kept}"
                )

    def _print_choices(self, scheduler: TuningRun) -> None:
        choices = Counter(task.choice for task in scheduler.tasks)
        if not (choices["confirmed"] or choices["changed"]):
            return
        found = [
            (task, share) for task, share in zip(scheduler.tasks, scheduler.shares(), strict=True) if share
        ]
        settled = [share for task, share in found if task.settled]
        hint = (
            ""
            if len(settled) == len(found)
            else "; --final-choice all (final_choice='all') comes to the others"
        )
        self.console.print(
            f"measured the fastest again, in turns: {choices['confirmed']} choices confirmed, {choices['changed']} changed; settled"
            f" {len(settled)} of {len(found)} kernels, {sum(settled):.0%} of the model's time{hint}"
        )

    def _print_exhausted(self, names: list[str]) -> None:
        if names:
            others = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
            self.console.print(
                f"more trials change nothing, no other candidates were found: {', '.join(names[:_MAX_NAMES])}{others}"
            )


class LiveProgress(Progress):
    """A table that is redrawn in place."""

    def start(self, task_scheduler: TuningRun) -> None:
        super().start(task_scheduler)
        self._live = Live(
            Fitted(self.table(task_scheduler)), console=self.console, refresh_per_second=4, transient=True
        )
        self._live.start()

    def trial(self, task_scheduler: TuningRun, task: TaskState, result: MeasureResult) -> None:
        self._live.update(Fitted(self.table(task_scheduler)))

    def finish(self, task_scheduler: TuningRun) -> None:
        if hasattr(self, "_live"):
            self._live.stop()
        super().finish(task_scheduler)


class PlainProgress(Progress):
    """A line per batch, for logs and pipes."""

    def apply(
        self,
        task_scheduler: TuningRun,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        results: Sequence[MeasureResult],
    ) -> None:
        task = task_scheduler.tasks[task_id]
        _, done = self._done(task_scheduler)
        best = (
            f"{task.best_secs * 1e3:.4f} ms, {task.gflops:.1f} GFLOP/s"
            if task.best_secs < float("inf")
            else "nothing yet"
        )
        failed = sum(not result.ok for result in results)
        suffix = f", {failed} failed" if failed else ""
        self.console.print(
            f"[{done}/{self.max_trials}] {task.context.task_name}: {best}{suffix}; {self._remaining(task_scheduler)} left"
        )


def progress_display(max_trials: int, max_seconds: float | None) -> Progress:
    """The display that fits where standard error goes."""
    kind = LiveProgress if sys.stderr.isatty() else PlainProgress
    return kind(max_trials, max_seconds)


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{seconds:.0f}s"
