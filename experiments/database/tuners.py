"""Several tuners on one database, some of them killed: ``python -m experiments.database.tuners URL --kill 2``.

Each is a process that searches the same kernels with the same seed, so that all want the same candidates, and only pretends to measure.
It notes what the database has taken, line by line. Afterwards the notes are held against the database: what was noted must be there,
no candidate may be there twice, and few should have been measured by two (those of a tuner that was killed are measured again).
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from database import Database, SQLDatabase, TuningRecord, open_for_writing
from ir.target import Target
from runners import ReplayBuilder, ReplayRunner
from tuner import TuneContext, tune_tasks

from ..harness.results import DEFAULT, Results
from .page import write_page
from .synthetic import product

_TARGET = Target("llvm -mcpu=znver4 -num-cores=2")
_SHAPES = [(64, 64, 64), (96, 64, 32), (48, 80, 64)]


def tune(url: str, notes: Path, trials: int) -> None:
    """One tuner; it notes the kind and the candidate of each record that is kept."""
    database = open_for_writing(url)
    with notes.open("a") as paper:
        _note(database, paper)
        tune_tasks(
            tasks=[TuneContext(product(*shape), _TARGET) for shape in _SHAPES],
            database=database,
            max_trials_global=trials,
            num_trials_per_iter=8,
            builder=ReplayBuilder(),
            runner=ReplayRunner(lambda _: _pretended()),
            cost_model="random",
            measure_callbacks=[],
            calibrate="never",
        )


def _pretended() -> float:
    time.sleep(0.002)
    return 1e-3


def _note(database: Database, paper: Any) -> None:
    commit = database.commit_tuning_record

    def committed(record: TuningRecord) -> None:
        commit(record)
        print("again" if record.remeasured else "first", _name(record), file=paper, flush=True)

    database.commit_tuning_record = committed  # type: ignore[method-assign]


def _name(record: TuningRecord) -> str:
    return f"{record.workload.shash}.{record.trace_hash}"


def run(url: str, tuners: int, trials: int, kills: int, seed: int = 0) -> dict[str, Any]:
    """Run tuners at once, kill some at moments of chance and start another for each; what was noted and what is there."""
    begin, generator = time.monotonic(), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder)
        processes = [_started(url, notes / str(number), trials) for number in range(tuners)]
        killed = 0
        while any(process.poll() is None for process in processes):
            time.sleep(generator.uniform(0.5, 2.0))
            running = [process for process in processes if process.poll() is None]
            if killed < kills and running and any(notes.iterdir()):
                victim = generator.choice(running)
                victim.send_signal(signal.SIGKILL)
                victim.wait()
                killed += 1
                processes.append(_started(url, notes / f"after {killed}", trials))
        failed = [
            process.returncode for process in processes if process.returncode not in (0, -signal.SIGKILL)
        ]
        noted = list(_noted(notes))
    first = Counter(name for kind, name in noted if kind == "first")
    with SQLDatabase(url, must_exist=True) as database:
        stored = list(database.stream_records())
        database.close()
    there = Counter(_name(item) for item in stored if not item.remeasured)
    return {
        "tuners": tuners,
        "killed": killed,
        "failed": len(failed),
        "committed": len(noted),
        "stored": len(stored),
        "lost": sum(name not in there for name in first),
        "twice": sum(count - 1 for count in there.values()),
        "measured_twice": sum(count - 1 for count in first.values()),
        "seconds": time.monotonic() - begin,
    }


def _started(url: str, notes: Path, trials: int) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "experiments.database.tuners",
        url,
        "--child",
        str(notes),
        "--trials",
        str(trials),
    ]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def _noted(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            kind, _, name = line.partition(" ")
            yield kind, name


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="of a database that is not there yet")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tuners", type=int, default=4)
    parser.add_argument("--trials", type=int, default=600)
    parser.add_argument("--kill", type=int, default=0)
    parser.add_argument("--out", type=Path, default=DEFAULT)
    options = parser.parse_args()
    if options.child is not None:
        tune(options.url, options.child, options.trials)
        return
    row = run(options.url, options.tuners, options.trials, options.kill)
    print(row)
    results = Results(options.out, "database")
    kind = make_url(options.url).get_backend_name()
    results.add(f"tuners {kind}{', some killed' if options.kill else ''}", row)
    write_page(options.out, results.rows)


if __name__ == "__main__":
    _main()
