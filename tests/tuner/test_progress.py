"""The table of a running search on a terminal: it fits, and what was drawn is not left behind."""

from __future__ import annotations

import io
import re
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from runners import MeasureResult
from schedules.space import PostOrderApply
from tests.programs.expressions import matmul
from tuner.context import TuneContext
from tuner.progress import (
    LiveProgress,
    NotebookProgress,
    PlainProgress,
    Progress,
    _Screenful,
    progress_display,
)
from tuner.search.base import SearchStrategy
from tuner.state import TaskState, TuningRun

_NAME = "fused_conv2d{}_add_relu_of_the_residual_branch"


def running(tasks: int, failures: dict[str, int] | None = None) -> TuningRun:
    func = matmul(4)
    run = TuningRun()
    for number in range(tasks):
        context = TuneContext(func, "cpu", PostOrderApply(), task_name=_NAME.format(number), weight=3)
        state = TaskState(context, SearchStrategy.create("replay-trace"), None)  # type: ignore[arg-type]
        state.best_secs, state.trials = 1e-3 * (1 + number), 16
        state.failures = Counter(failures or {})
        run.tasks.append(state)
    return run


class Screen:
    """What a terminal shows, and what has scrolled off its top, where nothing can be changed any more."""

    def __init__(self, height: int) -> None:
        self.height, self.lines, self.top, self.row, self.column = height, [""], 0, 0, 0

    def feed(self, text: str) -> None:
        for part in re.findall(r"\x1b\[\??[0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
            if part == "\n":
                self.row, self.column = self.row + 1, 0
                if self.row == len(self.lines):
                    self.lines.append("")
                self.top = max(self.top, self.row - self.height + 1)
            elif part == "\r":
                self.column = 0
            elif not part.startswith("\x1b"):
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + part + line[self.column + len(part) :]
                self.column += len(part)
            elif part.endswith("A"):
                self.row = max(self.top, self.row - int(part[2:-1] or 1))
            elif part.endswith("K"):
                self.lines[self.row] = ""


def console_of(width: int, height: int) -> tuple[Console, io.StringIO]:
    written = io.StringIO()
    return Console(file=written, force_terminal=True, width=width, height=height, _environ={}), written


def drawn(run: TuningRun, width: int, stop: bool) -> list[str]:
    """The lines of a terminal of 24 after some frames of the live table, and after its end if it was stopped."""
    console, written = console_of(width, 24)
    display, screen = LiveProgress(1000, None, console), Screen(24)
    display.start(run)
    display.notice("calibrated")
    for _ in range(3):
        display.trial(run, run.tasks[0], MeasureResult([1.0], None, None))
        display._live.refresh()
    shown = written.getvalue()
    display._live.stop()
    screen.feed(written.getvalue() if stop else shown)
    return [line.rstrip() for line in screen.lines if line.strip()]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("tasks", [1, 5, 30, 60])
@pytest.mark.parametrize(
    "failures", [None, {"illegal_schedule": 3, "build_timeout": 12, "wrong_result": 1}], ids=["", "failures"]
)
def test_frames_of_the_live_table_fit_and_leave_nothing_behind(
    width: int, tasks: int, failures: dict[str, int] | None
) -> None:
    run = running(tasks, failures)
    lines = drawn(run, width, stop=False)
    assert max(map(len, lines)) <= width and len(lines) <= 24
    assert sum("trials," in line for line in lines) == 1 and any("best ms" in line for line in lines)
    assert any("fused_conv2d"[: width // 6] in line for line in lines)
    assert tasks < 5 or failures or len(lines) >= 10
    assert drawn(run, width, stop=True) == ["calibrated"]


def test_a_wide_terminal_shows_all_columns_and_whole_names() -> None:
    console, written = console_of(140, 50)
    console.print(_screenful(LiveProgress(1000, None, console), running(3)))
    text = written.getvalue()
    assert all(name in text for name in ("weight", "GFLOP/s", "share", "errors", "best ms"))
    assert "…" in text and _NAME.format(1)[:40] in text  # names are cut at 44 characters everywhere


def test_a_narrow_terminal_goes_without_what_is_needed_less() -> None:
    console, written = console_of(60, 24)
    console.print(_screenful(LiveProgress(1000, None, console), running(40)))
    text = written.getvalue()
    assert "and " in text and "more" in text and "weight" not in text
    assert all(name in text for name in ("kernel", "trials", "best ms"))


def _screenful(display: Progress, run: TuningRun) -> Any:
    return _Screenful(display, run)


@pytest.mark.parametrize(
    ("failures", "says"),
    [
        (None, "; 100.0% of the candidates were valid\n"),
        ({"wrong_result": 4}, "; 100.0% of the candidates were valid\n"),
        ({"illegal_schedule": 4}, "; 75.0% of the candidates were valid\n"),
    ],
)
def test_a_run_says_how_many_of_its_candidates_were_valid(failures: dict[str, int] | None, says: str) -> None:
    shown = io.StringIO()
    Progress(32, None, Console(file=shown, width=400)).finish(running(2, failures))
    assert says in shown.getvalue()


def test_a_notebook_shows_one_table_that_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    def show(html: str) -> Any:
        shown.append(html)
        return shown.append

    run = running(2)
    run.tasks[0].context.task_name = "<b>conv</b>"
    display = NotebookProgress(1000, None, show)
    display.start(run)
    display.trial(run, run.tasks[0], MeasureResult([1.0], None, None))
    display.trial(run, run.tasks[0], MeasureResult([1.0], None, None))
    display.finish(run)
    assert len(shown) == 3, "a second trial right behind the first waits"
    assert all("&lt;b&gt;conv" in html and html.count("<table>") == 1 for html in shown)
    told = capsys.readouterr()
    assert "32 trials in" in told.out and "conv" not in told.out


def test_what_shows_a_search_fits_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(progress_display(1, None)) is PlainProgress
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(HTML=str, display=None))
    assert type(progress_display(1, None)) is NotebookProgress
    del shell.kernel
    assert type(progress_display(1, None)) is PlainProgress


def test_a_run_without_trials_says_nothing_of_candidates() -> None:
    run, shown = running(1), io.StringIO()
    run.tasks[0].trials = 0
    Progress(32, None, Console(file=shown, width=400)).finish(run)
    assert "0 trials in" in shown.getvalue() and "valid" not in shown.getvalue()
