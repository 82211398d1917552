"""A run of pytest in a forked process that has the heavy libraries loaded, and imports the project from the tree it is given."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .probes import Marks

_PROJECT = {
    "ir",
    "schedules",
    "cost_models",
    "database",
    "runners",
    "tuner",
    "tests",
    "experiments",
    "mutation_probe",
}
_HEAVY = (
    "numpy",
    "hypothesis",
    "hypothesis.extra.numpy",
    "xgboost",
    "sqlalchemy",
    "onnx",
    "onnxruntime",
    "torch",
    "xdist",
)
_MEMORY = 8 << 30


@dataclass
class Session:
    """What came of a run."""

    status: str
    """passed, failed, timeout, broken"""
    by: str = ""
    """The test that failed, or the last words of the run."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Of each test that passed."""
    marked: dict[str, list[int]] = field(default_factory=dict)
    """Probes by test; under "" those that importing the test file passes."""


class _Reporter:
    """Chooses the tests, in the order asked for, and writes down what they do."""

    def __init__(self, tests: list[str] | None, marks: Marks | None) -> None:
        self.order = None if tests is None else {test: number for number, test in enumerate(tests)}
        self.marks = marks
        self.failed: list[str] = []
        self.seconds: dict[str, float] = {}
        self.marked: dict[str, list[int]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = self.order
        if order is not None:
            items[:] = sorted(
                (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
            )
        if self.marks is not None:
            self.marked[""] = self.marks.take()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        if item.nodeid not in self.failed:
            self.seconds[item.nodeid] = round(time.perf_counter() - begin, 4)
        if self.marks is not None:
            self.marked[item.nodeid] = self.marks.take()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def preload() -> None:
    """Load what no mutant changes, once."""
    for name in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{name}_NUM_THREADS"] = "1"
    for name in _HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def run(
    tree: Path,
    files: list[str],
    tests: list[str] | None = None,
    *,
    cpu_seconds: float,
    marks: tuple[Path, Marks] | None = None,
    write_bytecode: bool = False,
) -> Session:
    """The tests of the files (all, or those named, in their order) until one fails; all of them where marks are taken.

    A process gets so many seconds of processor time, and as a whole the run four times as many, and a minute, on the clock.
    """
    with tempfile.TemporaryDirectory(prefix="mutation-session-") as folder:
        child = os.fork()
        if child == 0:
            _child(tree, files, tests, cpu_seconds, marks, write_bytecode, Path(folder))
        ended = _wait(child, 60 + 4 * cpu_seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        result = Path(folder, "result.json")
        if result.exists():
            return Session(**json.loads(result.read_text()))
        words = Path(folder, "output").read_text(errors="replace").strip().splitlines()[-1:]
        timeout = ended is None or (
            os.WIFSIGNALED(ended) and os.WTERMSIG(ended) in (signal.SIGXCPU, signal.SIGKILL)
        )
        return Session("timeout" if timeout else "broken", " ".join(words)[:200])


def _wait(child: int, seconds: float) -> int | None:
    end, pause = time.monotonic() + seconds, 0.005
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(pause)
        pause = min(0.1, pause * 1.5)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _child(
    tree: Path,
    files: list[str],
    tests: list[str] | None,
    cpu_seconds: float,
    marks: tuple[Path, Marks] | None,
    write_bytecode: bool,
    folder: Path,
) -> None:
    """In the child: become a process that started in the tree, run the tests, write the result, and never return."""
    try:
        os.setsid()
        output = os.open(folder / "output", os.O_CREAT | os.O_RDWR)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + 1, int(cpu_seconds) + 5))
        os.chdir(tree)
        os.environ.update(PYTHONPATH=str(tree), PYTHONDONTWRITEBYTECODE="" if write_bytecode else "1")
        os.environ.pop("MUTATION_MARKS", None)
        if marks is not None:
            os.environ["MUTATION_MARKS"] = str(marks[0])
        sys.dont_write_bytecode = not write_bytecode
        root = str(Path(__file__).resolve().parents[2])
        sys.path[:] = [
            str(tree),
            *(path for path in sys.path if path not in ("", root, str(Path(__file__).parent))),
        ]
        for name in [name for name in sys.modules if name.split(".")[0] in _PROJECT]:
            del sys.modules[name]
        importlib.invalidate_caches()
        reporter = _Reporter(tests, marks[1] if marks else None)
        arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:xdist", *files]
        code = pytest.main([*([] if marks else ["-x"]), *arguments], plugins=[reporter])
        sys.stdout.flush()
        result: dict[str, Any] = {"seconds": reporter.seconds, "marked": reporter.marked}
        if code in (0, 5):
            result |= {"status": "passed"}
        else:
            by = reporter.failed[0] if reporter.failed else f"pytest ended with {code}"
            result |= {"status": "failed", "by": by}
        (folder / "result.partial").write_text(json.dumps(result))
        (folder / "result.partial").rename(folder / "result.json")
    except (
        BaseException
    ):  # without a result the parent counts the run as broken; the child must never run on as the parent
        traceback.print_exc()
    finally:
        os._exit(0)
