"""Inputs that are tried in child processes, which have little memory, are told when it takes too long, and report whatever would run code.

An audit hook hears programs, libraries, connections and pickles. Whatever a reader refuses must be an error of the compiler's.
"""

from __future__ import annotations

import json
import logging
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ir.arith.pattern import parse_rules
from ir.error import IRError

SECONDS = 20.0
"""What one input may take; then it counts as one that hangs."""
_BATCH = 100
"""Inputs of one child process."""
_MEMORY = 3 << 30
"""Bytes of addresses beyond what a child begins with."""
_RUNS_CODE = (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn", "socket.connect", "ctypes.dlopen",
    "pickle.find_class", "marshal.loads", "exec", "compile", "os.remove", "shutil.rmtree",
)  # fmt: skip
"""Events of Python's that no reading of records may cause."""
_MAKES_CODE = ("importlib._bootstrap", "sqlalchemy/util/langhelpers.py", "/ast.py")
"""Files whose functions run what belongs to a program, not to its input, or parse a text without running it, as numpy does with headers."""


@dataclass
class Report:
    """What came of the inputs of some seeds."""

    kind: str
    count: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    """How many were read, refused, or failed in one way or another."""
    failures: dict[str, str] = field(default_factory=dict)
    """An example of each kind of failure."""
    slowest: float = 0.0
    grown: int = 0
    """Bytes by which the largest child has grown."""

    def fail(self, kind: str, example: str) -> None:
        """Note a failure."""
        self.outcomes[f"failed: {kind}"] += 1
        self.failures.setdefault(kind, example)

    def __str__(self) -> str:
        lines = [
            f"{self.kind}: {self.count} inputs, the slowest in {self.slowest:.2f} s, children grew by {self.grown >> 20} MiB"
        ]
        lines += [f"  {number} {outcome}" for outcome, number in self.outcomes.most_common()]
        lines += [f"{kind}: {example}" for kind, example in self.failures.items()]
        return "\n".join([*lines, f"{len(self.failures)} kinds of failures"])


@dataclass(frozen=True)
class Attempt:
    """How inputs of a kind are tried.

    Attributes:
        make: makes an input from random numbers, in a folder of its own, and reads it.
        warm_up: does once what makes Python import and libraries compile, before a child is watched.
    """

    make: Callable[[random.Random, Path], None]
    warm_up: Callable[[Path], None]


class _TooLong(BaseException):
    """An input took longer than it may."""


def tried(kind: str, attempt: Attempt, seeds: range) -> Report:
    """What comes of the inputs of some seeds."""
    report = Report(kind)
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # what is left out is named, thousands of times
    try:
        with tempfile.TemporaryDirectory() as folder:
            attempt.warm_up(Path(folder))
        for begin in range(seeds.start, seeds.stop, _BATCH):
            _try_batch(report, attempt, range(begin, min(begin + _BATCH, seeds.stop)))
    finally:
        logging.disable(before)
    return report


def _try_batch(report: Report, attempt: Attempt, seeds: range) -> None:
    """In a child process; the seeds behind one that ends it are tried in another."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        status = 1
        try:
            with os.fdopen(writer, "w") as out:
                _child(attempt, seeds, out)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    last = seeds.start
    with os.fdopen(reader) as answers:
        for line in answers:
            found = json.loads(line)
            if "begin" in found:
                last = found["begin"]
                continue
            report.count += 1
            report.slowest = max(report.slowest, found["secs"])
            report.grown = max(report.grown, found["grown"])
            if found["failure"]:
                report.fail(found["failure"], f"seed {last}: {found['message']}")
            else:
                report.outcomes[found["outcome"]] += 1
            last += 1
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != 0:
        report.count += 1
        report.fail("a process that ended", f"seed {last}: status {code}")
        if last + 1 < seeds.stop:
            _try_batch(report, attempt, range(last + 1, seeds.stop))


def _child(attempt: Attempt, seeds: range, out: Any) -> None:
    """Try inputs, and write a line before and behind each."""
    heard: list[str] = []
    listening = False

    folder = tempfile.TemporaryDirectory()
    name = folder.name

    def hear(event: str, arguments: Any) -> None:
        is_own = event == "os.remove" and str(arguments[0]).startswith(name)
        if listening and event.startswith(_RUNS_CODE) and not is_own and not _imports():
            heard.append(f"{event} {str(arguments)[:200]}")

    def too_long(*_: Any) -> None:
        raise _TooLong

    sys.addaudithook(hear)
    signal.signal(signal.SIGALRM, too_long)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY, size + _MEMORY))
    before = _resident()
    with folder:
        for seed in seeds:
            out.write(json.dumps({"begin": seed}) + "\n")
            out.flush()
            outcome, failure, message = "read", "", ""
            begin = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            try:
                listening = True
                attempt.make(random.Random(seed), Path(name))
            except IRError:
                outcome = "refused"
            except _TooLong:
                failure = "hang"
                message = "".join(traceback.format_stack(limit=4))
            except BaseException as error:  # what is looked for
                frames = traceback.extract_tb(error.__traceback__)
                failure = (
                    f"{type(error).__name__} at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}"
                )
                path = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[1:8]]
                message = f"{str(error)[:200]} by way of {', '.join(path)}"
            finally:
                listening = False
                signal.setitimer(signal.ITIMER_REAL, 0)
            if heard and not failure:
                failure, message = f"code may have run: {heard[0].split()[0]}", heard[0]
            heard.clear()
            told = {"secs": time.monotonic() - begin, "grown": _resident() - before}
            out.write(json.dumps({**told, "outcome": outcome, "failure": failure, "message": message}) + "\n")
        out.flush()


def _imports() -> bool:
    """Whether a module is being imported, which Python does by running it, or a library makes functions of its own text: SQLAlchemy
    those that look at statements, ours the rules of simplification."""
    frame: Any = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code is parse_rules.__code__ or any(item in code.co_filename for item in _MAKES_CODE):
            return True
        frame = frame.f_back
    return False


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
