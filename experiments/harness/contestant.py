"""Contestants: each in processes of its own, taking turns; medians of the rounds are what every figure is made of.

A contestant's process is started by :func:`start` with the function that prepares it, see :mod:`experiments.harness.child`.
Between its turns it sleeps in a read, so that idle thread pools of one library do not spin against another. Short calls are
timed in several processes: which physical pages a process is given decides how its arrays share a cache, and stays as it is
while it lives.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.disturbance import QUIET_SHARE, Repeats

CHILD = Path(__file__).with_name("child.py")
SHORT_SECONDS = 1e-4
"""Calls below this run from caches."""
PROCESSES = 5
"""Of a contestant whose calls are short."""


@dataclass(frozen=True)
class Job:
    """A function to call in a process of its own."""

    name: str
    function: str
    """``package.module:function``."""
    options: dict[str, Any] = field(default_factory=dict)
    python: str = sys.executable
    threads: int = 1
    timeout: float = 3600.0
    """Seconds until the function must have returned."""
    tree: Path | None = None
    """The checkout whose modules are imported; this one unless given."""
    path: tuple[str, ...] = ()
    """Folders of further modules, behind all others."""


@dataclass(frozen=True)
class Round:
    """One turn of one contestant."""

    secs: float
    min_secs: float
    others: float
    """Share of the machine that was lost to others."""


def _described(job: Job) -> dict[str, Any]:
    root = job.tree or CHILD.parents[2]
    return {"function": job.function, "options": job.options, "tree": str(root), "path": job.path}


class _Process:
    """A running process that prepares a job and answers with rounds; ``failed`` says why it does not."""

    def __init__(self, job: Job) -> None:
        self.failed: str | None = None
        variables = ("OMP", "OPENBLAS", "MKL", "TVM")
        environment = {**os.environ, **{f"{name}_NUM_THREADS": str(job.threads) for name in variables}}
        if job.tree is not None:
            environment["PYTHONPATH"] = str(job.tree)  # for the processes that it starts
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [job.python, str(CHILD), json.dumps(_described(job))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
            cwd=job.tree,  # workers of older trees take what lies there first
        )
        self.answer = self._read(job.timeout)
        """What it said when it was ready."""

    def _read(self, timeout: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            self.failed = f"no answer in {timeout:.0f} s"
            return {}
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            self.failed = (
                f"its process ended with status {self._process.wait()}: {self._log.read()[-300:].strip()}"
            )
            return {}
        answer: dict[str, Any] = json.loads(line)
        self.failed = answer.get("failed")
        return answer

    def log(self) -> str:
        """What it printed."""
        self._log.seek(0)
        return self._log.read()

    def turn(self) -> Round | None:
        """One round of calls; None when the process is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.failed = "its process ended between two rounds"
            return None
        answer = self._read(300.0)
        return Round(**answer) if self.failed is None else None

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
        self._log.close()


class Contestant:
    """Processes that answer with rounds, one after the other; ``failed`` says why there is none."""

    def __init__(self, job: Job) -> None:
        self.name, self.job = job.name, job
        self.rounds: list[Round] = []
        first = _Process(job)
        self.facts: dict[str, Any] = first.answer.get("ready", {})
        self.result: Any = first.answer.get("result")
        self.failed = first.failed
        self._processes = [first]
        self._turns = 0
        if first.answer.get("secs", SHORT_SECONDS) < SHORT_SECONDS:
            self._multiply()

    def _multiply(self) -> None:
        for _ in range(PROCESSES - 1):
            self._processes.append(_Process(self.job))
            self.failed = self.failed or self._processes[-1].failed

    def log(self) -> str:
        """What the first process printed."""
        return self._processes[0].log()

    def turn(self) -> Round | None:
        """One round of calls, in the next of the processes; None when it is gone."""
        process = self._processes[self._turns % len(self._processes)]
        self._turns += 1
        turn = process.turn()
        self.failed = process.failed
        return turn

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()


@contextmanager
def start(jobs: Sequence[Job]) -> Iterator[list[Contestant]]:
    """Contestants of some jobs, prepared one after the other; their processes end with the block."""
    contestants: list[Contestant] = []
    try:
        for job in jobs:
            contestants.append(Contestant(job))
        yield contestants
    finally:
        for contestant in contestants:
            contestant.close()


def run_job(job: Job) -> Any:
    """The plain result of a job.

    Raises:
        RuntimeError: it failed; the message has the end of what it printed.
    """
    with start([job]) as (contestant,):
        if contestant.failed is not None:
            raise RuntimeError(f"{job.name}: {contestant.failed}\n{contestant.log()[-2000:]}")
        return contestant.result


def take_turns(contestants: Sequence[Contestant], rounds: int) -> float:
    """Let all contestants that live take turns, and keep each one's rounds.

    A round in which the machine was disturbed is run again, up to as many more as were asked for; the quietest count. The
    order turns around every time, so that nobody always follows the same neighbour.

    Returns:
        The largest share of the machine that was lost to others in the rounds that count.
    """
    alive = [item for item in contestants if item.failed is None]
    found: Repeats[dict[str, Round]] = Repeats(rounds)
    while not found.complete:
        turns: dict[str, Round] = {}
        for contestant in alive if len(found) % 2 == 0 else alive[::-1]:
            turn = contestant.turn()
            if turn is not None:
                turns[contestant.name] = turn
        alive = [item for item in alive if item.failed is None]
        found.add(turns, _disturbance(turns) / QUIET_SHARE)
        if not alive:
            break
    kept = found.kept()
    for contestant in contestants:
        contestant.rounds = [turns[contestant.name] for turns in kept if contestant.name in turns]
    return max((_disturbance(turns) for turns in kept), default=0.0)


def _disturbance(turns: dict[str, Round]) -> float:
    return max((turn.others for turn in turns.values()), default=0.0)


def median_ms(contestant: Contestant) -> float:
    """Milliseconds per call."""
    return statistics.median(turn.secs for turn in contestant.rounds) * 1e3


def ratio(of: Contestant, to: Contestant) -> float:
    """How many times the time of ``to`` one call of ``of`` takes: the median over the rounds of both."""
    pairs = zip(of.rounds, to.rounds, strict=True)
    return statistics.median(a.secs / b.secs for a, b in pairs)


def _ratios(item: Contestant, base: Contestant) -> dict[str, float]:
    """To the base: of the rounds, and of the fastest calls, which a busy machine disturbs less."""
    if not base.rounds or len(base.rounds) != len(item.rounds):
        return {}
    fastest = [min(turn.min_secs for turn in of.rounds) for of in (item, base)]
    return {"ratio": ratio(item, base), "fastest_ratio": fastest[0] / fastest[1]}


def summary(contestants: Sequence[Contestant], base: Contestant) -> dict[str, Any]:
    """Plain data of all contestants: times, the ratio to the base in the same rounds, facts, or why there is nothing."""
    found: dict[str, Any] = {}
    for item in contestants:
        if item.failed is not None or not item.rounds:
            found[item.name] = {"failed": item.failed or "no rounds"}
            continue
        found[item.name] = {
            "ms": median_ms(item),
            "min_ms": min(turn.min_secs for turn in item.rounds) * 1e3,
            "rounds_ms": [turn.secs * 1e3 for turn in item.rounds],
            **_ratios(item, base),
            **item.facts,
        }
    return found
