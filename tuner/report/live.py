"""Live pages: of a search, as a measure callback, and of a database that somebody else writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from database import Database
from runners import MeasureResult

from ..callback.base import MeasureCallback
from ..state import TaskState, TuningRun
from .numbers import DatabaseReader, Report
from .page import PROGRAMS
from .programs import programs_of
from .server import PageServer

_BETWEEN_SECS = 2.0
"""Between two drawings of a search."""
_DRAWING_SHARE = 0.02
"""Of a search's time that drawing may take, where there is much to draw."""
_LOOKING_SECS = 1.0
"""Between two looks at a database."""
_WATCHING = "programs are shown when the search has ended; `loopsmith report` shows them at any time"


class LivePage(MeasureCallback):
    """Shows a search on a server's page while it runs: the numbers of its database, between two measurements.

    Args:
        server: where it is shown; its owner closes it.
        title: of the page.
        max_trials: of all runs on the database.
        programs: kernels whose programs are shown at the end; none of a search that was interrupted.
    """

    def __init__(self, server: PageServer, title: str, max_trials: int, programs: int = PROGRAMS) -> None:
        self._server, self._title, self._max_trials, self._programs = server, title, max_trials, programs
        self._reader: DatabaseReader | None = None
        self._next = 0.0
        server.show(Report(title, status="preparing"))

    def start(self, task_scheduler: TuningRun) -> None:
        self._reader = DatabaseReader(task_scheduler.database, self._title)
        self._show("running")

    def trial(self, task_scheduler: TuningRun, task: TaskState, result: MeasureResult) -> None:
        begin = time.monotonic()
        if begin >= self._next:
            self._show("running")
            now = time.monotonic()
            self._next = now + max(_BETWEEN_SECS, (now - begin) / _DRAWING_SHARE)

    def finish(self, task_scheduler: TuningRun) -> None:
        if self._reader is None:
            return
        if task_scheduler.interrupted:
            self._show("interrupted")
        else:
            self._show("ended", self._programs)

    def _show(self, word: str, programs: int = 0) -> None:
        assert self._reader is not None
        report = self._reader.read()
        report.status = f"{word}, {report.n_trials} of {self._max_trials} trials"
        report.programs = programs_of(report.kernels, programs)
        if word == "running":
            report.notes.append(_WATCHING)
        self._server.show(report)


def watch(
    database: Database,
    title: str,
    server: PageServer,
    programs: int = PROGRAMS,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Show a database on a server's page, and what other processes write into it as they do.

    Programs are made when nothing new has come since the last look.

    Args:
        database: only read.
        title: of the page.
        server: where it is shown.
        programs: kernels whose programs are shown.
        goes_on: asked once a second; the watch ends when it says no. By default Ctrl-C ends it.
    """
    reader, seen, report, has_programs = DatabaseReader(database, title), None, Report(title), True
    while goes_on():
        sessions = database.get_sessions()
        now = len(database), [(item.id, item.finished_at) for item in sessions]
        if now != seen:
            seen, has_programs = now, False
            report = replace(reader.read(), programs=report.programs)
            server.show(report)
        elif not has_programs:
            report.programs, has_programs = programs_of(report.kernels, programs), True
            server.show(report)
        time.sleep(_LOOKING_SECS)
