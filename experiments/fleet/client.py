"""A client of the chaos: tunes small models on a fleet, and writes down what it has kept, as soon as it has::

    python -m experiments.fleet.client --tracker HOST:PORT --key KEY --database URL --journal FILE --trials 40

Ends with 0 when all trials are there; whoever kills it starts the same command again.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import tuner
from database import Database, TuningRecord, open_for_writing
from runners import EvaluatorConfig, RPCConfig, RPCRunner
from runners.rpc import Address
from tuner.zoo import load, small_config

MODELS = ("resnet18", "mobilenet_v2")
BEGUN, KEPT = "begun", "kept"
"""Events of a journal: a record is about to be committed, and is committed."""


class Journal:
    """Events, one a line, which are on the disk before anything else happens."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, event: str, record: TuningRecord) -> None:
        """One more."""
        line = json.dumps([event, record_key(record), record.remeasured]) + "\n"
        os.write(self._file, line.encode())
        os.fsync(self._file)


def record_key(record: TuningRecord) -> str:
    """What a trial is known by: workload, target and trace."""
    return json.dumps([*record.place, record.trace_key])


def journaled(store: Database, journal: Journal) -> Database:
    """A database that tells a journal of each record before and after it is committed."""
    commit = store.commit_tuning_record

    def told(record: TuningRecord) -> None:
        journal.write(BEGUN, record)
        commit(record)
        journal.write(KEPT, record)

    store.commit_tuning_record = told  # type: ignore[method-assign]
    return store


def tasks_of(models: tuple[str, ...], target: str) -> list[Any]:
    """The tasks of small models."""
    found = []
    for name in models:
        mod, params, _ = load(name, **small_config(name))
        found += tuner.contexts_of(tuner.extract_tasks(mod, target, params), seed=0)
    return found


def main() -> None:
    """Tune."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tracker", required=True, type=Address.of)
    parser.add_argument("--key", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--journal", required=True, type=Path)
    parser.add_argument("--trials", required=True, type=int)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    args = parser.parse_args()
    runner = RPCRunner(
        RPCConfig(args.tracker.host, args.tracker.port, args.key),
        EvaluatorConfig(number=1, repeat=2, min_repeat_ms=20),
    )
    tuner.tune_tasks(
        tasks=tasks_of(tuple(args.models), "cpu"),
        database=journaled(open_for_writing(args.database), Journal(args.journal)),
        max_trials_global=args.trials,
        num_trials_per_iter=4,
        runner=runner,
        measure_callbacks=[],
    )
    runner.close()


if __name__ == "__main__":
    main()
