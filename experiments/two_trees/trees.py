"""Two states of this repository: the same function runs in both, and takes turns with itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.disturbance import QUIET_SHARE

from ..harness.contestant import Job, ratio, run_job, start, take_turns

HERE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Trees:
    """This tree and another one, and how they are compared."""

    base: Path
    """The other one's checkout."""
    scratch: Path
    """Where inputs and databases are kept."""
    trials: int
    rounds: int
    threads: int

    @property
    def both(self) -> dict[str, Path]:
        """The trees by what they are called in a line that is printed."""
        return {"here": HERE, "there": self.base}

    def database(self, tree: Path, of: str) -> str:
        """Where the records of a tree's own searches for a row or a model are kept."""
        digest = hashlib.sha256(str(tree).encode()).hexdigest()[:8]
        return str(self.scratch / f"{of}-{digest}-{self.trials}-trials-{self.threads}-threads.db")

    def job(self, name: str, tree: Path, function: str, options: dict[str, Any]) -> Job:
        """A function to call in a tree: of its own modules, or of ``side``."""
        folder = str(Path(__file__).parent)
        return Job(name, function, options, threads=self.threads, tree=tree, path=(folder,))

    def run(self, name: str, tree: Path, function: str, options: dict[str, Any]) -> Any:
        """What a function returns in a tree.

        Raises:
            RuntimeError: it failed there.
        """
        return run_job(self.job(name, tree, function, options))

    def tune(self, title: str, label: str, tree: Path, function: str, options: dict[str, Any]) -> None:
        """Let a tree tune something; trials that it refuses or that fail are told, for what it compiles then may be anything.

        Raises:
            RuntimeError: it failed there.
        """
        costs = self.run(f"tune {label}", tree, function, {**options, "trials": self.trials})
        if costs.get("failed"):
            print(f"{title} {label}: {costs['failed']} of {costs['trials']} trials failed", flush=True)

    def compared(self, title: str, function: str, options: Mapping[str, dict[str, Any]]) -> float | None:
        """The time of a call here over its time there; a line with it, or with what failed, is printed.

        Args:
            title: what the line begins with.
            function: makes the call ready, in either tree.
            options: what it is given ``here`` and ``there``.
        """
        jobs = [self.job(name, tree, function, options[name]) for name, tree in self.both.items()]
        with start(jobs) as (here, there):
            disturbed = take_turns([here, there], self.rounds)
            for side in (here, there):
                if side.failed:
                    print(f"{title}: {side.name}: {side.failed}", flush=True)
                    return None
            fastest = [min(turn.min_secs for turn in side.rounds) for side in (here, there)]
            found = ratio(here, there)
        mark = "*" if disturbed > QUIET_SHARE else ""
        print(f"{title}: {found:.3f}{mark} ({fastest[0] / fastest[1]:.3f})", flush=True)
        return found
