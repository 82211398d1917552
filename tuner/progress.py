"""Live progress of tuning: a table on a terminal, plain lines elsewhere, and a summary at the end."""

from __future__ import annotations

import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table

from ir.time_interval import milliseconds
from runners import MeasureResult, ResultKind

from .callback.base import MeasureCallback
from .console import Fitted, make_console
from .report.markup import node, table, text_of
from .search.base import MeasureCandidate
from .state import TaskState, TuningRun

_COLUMNS = ("#", "kernel", "weight", "trials", "best ms", "GFLOP/s", "share", "errors")
_LESS_NEEDED = ("weight", "GFLOP/s", "errors", "share")
"""Columns that a narrow terminal goes without while the search runs, in this order."""
_SPARE_LINES = 2
"""Of a terminal, for the cursor and for what is printed above the table."""
_MAX_ROWS = 30
_REDRAWN_SECS = 0.5
"""Between two drawings in a notebook."""
_MIN_NAME, _MAX_NAME = 18, 44
"""Characters of a kernel's name; one that is cut ends in an ellipsis."""
_MAX_REASON = 400
"""Characters of why a trial failed: enough to name the place."""
_MAX_NAMES = 5
"""Kernels that a sentence names; the others are counted."""


class Progress(MeasureCallback):
    """What both displays share: the summary table, counts, and the estimated time left.

    Args:
        max_trials: of all runs on the database.
        max_seconds: from now on.
        console: where it is shown; by default standard error.
    """

    def __init__(self, max_trials: int, max_seconds: float | None, console: Console | None = None) -> None:
        self.console = console or make_console(stderr=True)
        self.max_trials, self.max_seconds = max_trials, max_seconds
        self._told = self._begin = time.monotonic()

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
            estimates.append(self.max_seconds - (time.monotonic() - self._told))
        return _duration(max(0.0, min(estimates))) if estimates else "?"

    def table(
        self,
        scheduler: TuningRun,
        rows: int = _MAX_ROWS,
        columns: Sequence[str] = _COLUMNS,
        name_width: int = _MAX_NAME,
    ) -> Table:
        """One row per task, heaviest first.

        Args:
            scheduler: what is shown.
            rows: how many tasks; the others are counted below.
            columns: which, of :data:`_COLUMNS`.
            name_width: characters of a kernel's name; one that is cut ends in an ellipsis.
        """
        _, done = self._done(scheduler)
        title = f"{done}/{self.max_trials} trials, {_duration(time.monotonic() - self._begin)}, {self._remaining(scheduler)} left"
        table = Table(title=title, title_justify="left")
        for name in columns:
            table.add_column(
                name,
                justify="left" if name in ("kernel", "errors") else "right",
                no_wrap=name != "errors",
                min_width=len(name),  # a name of two words is measured by the longer one otherwise
            )
        shares = scheduler.shares()
        for number, task in enumerate(scheduler.tasks[:rows]):
            cells = _cells(number, task, shares[number], name_width)
            table.add_row(*(cells[name] for name in columns))
        if len(scheduler.tasks) > rows:
            table.caption = f"and {len(scheduler.tasks) - rows} more"
        return table

    def finish(self, task_scheduler: TuningRun) -> None:
        self.console.print(Fitted(self.table(task_scheduler)))
        self._summarize(task_scheduler)

    def _summarize(self, task_scheduler: TuningRun) -> None:
        """The sentences below the table."""
        times = task_scheduler.times
        now, _ = self._done(task_scheduler)
        rate = now / times.total if times.total else 0.0
        self.console.print(
            f"{now} trials in {_duration(times.total)} ({rate:.2f} per second); search and bookkeeping took {times.overhead:.1%},"
            f" checks {times.check_share:.1%}{self._valid(task_scheduler)}"
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

    def _valid(self, scheduler: TuningRun) -> str:
        """Which share of what the search proposed was a program."""
        proposed, _ = self._done(scheduler)
        refused = sum(task.failures[str(ResultKind.ILLEGAL_SCHEDULE)] for task in scheduler.tasks)
        return f"; {1 - refused / proposed:.1%} of the candidates were valid" if proposed else ""

    def _print_choices(self, scheduler: TuningRun) -> None:
        choices = Counter(task.choice for task in scheduler.tasks)
        if not (choices["confirmed"] or choices["changed"]):
            return
        found = [
            (task, share) for task, share in zip(scheduler.tasks, scheduler.shares(), strict=True) if share
        ]
        settled = [share for task, share in found if task.settled]
        hint = (
            ""  # what was interrupted had not come to its end, whatever it was told
            if len(settled) == len(found) or scheduler.interrupted
            else "; --final-choice all (final_choice='all') comes to the others"
        )
        self.console.print(
            f"measured the fastest again, in turns: {choices['confirmed']} confirmed, {choices['changed']} changed; settled"
            f" {len(settled)} of {len(found)} kernels, {sum(settled):.0%} of the model's time{hint}"
        )

    def _print_exhausted(self, names: list[str]) -> None:
        if names:
            others = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
            self.console.print(
                f"more trials change nothing, no other candidates were found: {', '.join(names[:_MAX_NAMES])}{others}"
            )


class _Screenful:
    """What of a run's table a terminal shows at once: a row that scrolled away could not be redrawn, and would stay as it was."""

    def __init__(self, display: Progress, scheduler: TuningRun) -> None:
        self._display, self._scheduler = display, scheduler

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, console.size.height - _SPARE_LINES
        columns, name_width = self._columns(console, options)
        rows = max(1, min(len(self._scheduler.tasks), _MAX_ROWS, height))
        while True:
            table = self._display.table(self._scheduler, rows, columns, name_width)
            lines = console.render_lines(table, options.update(width=width), pad=False)
            if len(lines) <= height or rows == 1:
                break
            rows = max(1, min(rows - 1, rows * height // len(lines)))
        for line in lines[: max(1, height)]:
            yield from line
            yield Segment.line()

    def _columns(self, console: Console, options: ConsoleOptions) -> tuple[list[str], int]:
        """The columns that leave room for a kernel's name, and how much of it."""
        columns, dropped = list(_COLUMNS), list(_LESS_NEEDED)
        while True:
            table = self._display.table(self._scheduler, _MAX_ROWS, columns, name_width=1)
            wide = options.update(width=_MAX_NAME * len(columns))
            without_name = Measurement.get(console, wide, table).minimum - len("kernel")
            room = options.max_width - without_name
            if room >= _MIN_NAME or not dropped:
                return columns, max(1, min(_MAX_NAME, room))
            columns.remove(dropped.pop(0))


class LiveProgress(Progress):
    """A table that is redrawn in place, as much of it as the terminal shows."""

    def start(self, task_scheduler: TuningRun) -> None:
        super().start(task_scheduler)
        self._live = Live(
            _Screenful(self, task_scheduler), console=self.console, refresh_per_second=4, transient=True
        )
        self._live.start()

    def trial(self, task_scheduler: TuningRun, task: TaskState, result: MeasureResult) -> None:
        self._live.update(_Screenful(self, task_scheduler))

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
            f"{milliseconds(task.best_secs)} ms, {task.gflops:.1f} GFLOP/s"
            if task.best_secs < float("inf")
            else "nothing yet"
        )
        failed = sum(not result.ok for result in results)
        suffix = f", {failed} failed" if failed else ""
        self.console.print(
            f"[{done}/{self.max_trials}] {task.context.task_name}: {best}{suffix}; {self._remaining(task_scheduler)} left"
        )


class NotebookProgress(Progress):
    """The table in the output of a notebook's cell, drawn anew in place at most twice a second; sentences are lines below it.

    Args:
        show: makes an output of HTML and gives what changes it, as IPython's ``display(..., display_id=True)``.
    """

    def __init__(
        self, max_trials: int, max_seconds: float | None, show: Callable[[str], Callable[[str], object]]
    ) -> None:
        super().__init__(max_trials, max_seconds, make_console())
        self._show = show
        self._change: Callable[[str], object] | None = None
        self._next = 0.0

    def start(self, task_scheduler: TuningRun) -> None:
        super().start(task_scheduler)
        self._change = self._show(self._html(task_scheduler))

    def trial(self, task_scheduler: TuningRun, task: TaskState, result: MeasureResult) -> None:
        if self._change is not None and time.monotonic() >= self._next:
            self._change(self._html(task_scheduler))
            self._next = time.monotonic() + _REDRAWN_SECS

    def finish(self, task_scheduler: TuningRun) -> None:
        if self._change is not None:
            self._change(self._html(task_scheduler))
        self._summarize(task_scheduler)

    def _html(self, scheduler: TuningRun) -> str:
        drawn = self.table(scheduler)
        rows = zip(*(column.cells for column in drawn.columns), strict=True)
        headers = [str(column.header) for column in drawn.columns]
        made = table(str(drawn.title), headers, [[str(cell) for cell in row] for row in rows])
        return text_of(node("div", made, node("p", str(drawn.caption)) if drawn.caption else None))


def progress_display(max_trials: int, max_seconds: float | None) -> Progress:
    """The display that fits: a table in a notebook or on a terminal, plain lines where standard error is neither."""
    show = _notebook_output()
    if show is not None:
        return NotebookProgress(max_trials, max_seconds, show)
    kind = LiveProgress if sys.stderr.isatty() else PlainProgress
    return kind(max_trials, max_seconds)


def _notebook_output() -> Callable[[str], Callable[[str], object]] | None:
    """What makes outputs of HTML in the notebook that this process serves; None where it serves none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):  # a terminal's shell has no kernel
        return None
    from IPython.display import HTML, display

    def show(html: str) -> Callable[[str], object]:
        handle = display(HTML(html), display_id=True)
        return lambda changed: handle.update(HTML(changed))

    return show


def _cells(number: int, task: TaskState, share: float, name_width: int) -> dict[str, str]:
    """A row of the table, by column; ``share`` is the task's of the model's time."""
    found = task.best_secs < float("inf")
    name = task.context.task_name
    return {
        "#": str(number),
        "kernel": name if len(name) <= name_width else f"{name[: name_width - 1]}…",
        "weight": f"{task.context.weight:g}",
        "trials": str(task.all_trials),
        "best ms": milliseconds(task.best_secs) if found else "-",
        "GFLOP/s": f"{task.gflops:.1f}" if found else "-",
        "share": f"{share:.0%}" if share else "-",
        "errors": ", ".join(f"{kind} {count}" for kind, count in task.failures.most_common()),
    }


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{seconds:.0f}s"
