"""What a tuning run cost, kept beside its records: a later run finds the trials in the database and has nothing to measure."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def tuned(tune: Callable[[Sequence[Any]], Any], trials: int, database: str, task: str) -> dict[str, Any]:
    """Call ``tune`` with measure callbacks; the costs of the run that measured, as plain data.

    Args:
        tune: runs a tuning session with the callbacks that it gets.
        trials: how many are asked for.
        database: the path of the database, beside which the costs are kept.
        task: what is tuned.
    """
    from tuner.callback import MeasureCallback
    from tuner.progress import PlainProgress

    costs: dict[str, Any] = {}

    class Note(MeasureCallback):
        def finish(self, task_scheduler: Any) -> None:
            times = task_scheduler.times
            costs.update(
                tasks=len(task_scheduler.tasks),
                trials=sum(item.trials for item in task_scheduler.tasks),
                seconds=times.total,
                overhead=times.overhead,
                search_seconds=times.search,
                failed=sum(sum(item.failures.values()) for item in task_scheduler.tasks),
            )

    notes = Path(f"{database}.costs.json")
    known: dict[str, Any] = json.loads(notes.read_text()) if notes.is_file() else {}
    begin = time.perf_counter()
    tune([PlainProgress(trials, None), Note()])
    if costs.get("trials") or task not in known:
        costs["wall_s"] = time.perf_counter() - begin
        costs["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        known[task] = costs
        notes.write_text(json.dumps(known))
    result: dict[str, Any] = known[task]
    return result
