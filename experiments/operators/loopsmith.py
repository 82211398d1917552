"""The suites' operators tuned and built by this project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness.child import Ready
from ..harness.notes import tuned
from . import data, suite


def tune(
    name: str, shape: Sequence[int], trials: int, database: str, threads: int, seed: int = 0
) -> dict[str, Any]:
    """Tune a row up to ``trials`` trials, those of earlier runs included; what it cost, as plain data."""
    return tune_for(target(threads), name, shape, trials, database, seed)


def tune_for(
    chosen: Any, name: str, shape: Sequence[int], trials: int, database: str, seed: int
) -> dict[str, Any]:
    """The same for a target."""
    import tuner

    task = f"{name}{tuple(shape)}"

    def run(callbacks: Sequence[Any]) -> None:
        tuner.tune_tir(
            suite.workload(name, shape),
            chosen,
            max_trials_global=trials,
            database=database,
            task_name=task,
            measure_callbacks=callbacks,
            seed=seed,
        )

    return tuned(run, trials, database, task)


def target(threads: int) -> Any:
    """The host with a number of cores."""
    from ir.target import Target

    host = Target("cpu")
    return host if host.num_cores == threads else Target(f"llvm -mcpu={host.mcpu} -num-cores {threads}")


def history(name: str, shape: Sequence[int], database: str, threads: int) -> list[float | None]:
    """Seconds of every trial in the order of measuring; None where it failed."""
    records = _trials(name, shape, database, threads)
    return [float(record.secs) if record.is_valid() else None for record in records]


def _trials(name: str, shape: Sequence[int], database: str, threads: int) -> list[Any]:
    from database import Workload, open_database
    from ir import IRModule

    store = open_database(database, must_exist=True)
    wanted = Workload(IRModule({"main": suite.workload(name, shape)})).shash, str(target(threads))
    return [
        record
        for record in store.get_all_tuning_records()
        if (record.workload.shash, str(record.target)) == wanted and not record.remeasured
    ]


def call(
    name: str, shape: Sequence[int], arrays: str, threads: int, database: str | None, first: int | None = None
) -> Ready:
    """The best record, or the default schedule without a database; weights packed beforehand.

    Args:
        name: the row's operator.
        shape: of the row.
        arrays: the file of inputs and output.
        threads: cores to use.
        database: where the row was tuned; None asks for the default schedule.
        first: count the first so many trials only.

    Raises:
        LookupError: the database has no record of the row.
    """
    from runners.kernel import pack_arguments
    from runners.native import build_native
    from runners.ndarray import aligned_empty
    from schedules.layout_rewrite import split_module

    chosen = target(threads)
    schedule, facts = _schedule(name, shape, threads, database, first)
    scheduled = split_module(schedule.mod)
    inputs, expected = data.read(arrays)
    aligned = []
    for item in pack_arguments(scheduled, list(inputs)):
        copy = aligned_empty(item.shape, item.dtype)
        copy[...] = item
        aligned.append(copy)
    out = aligned_empty(expected.shape, expected.dtype)
    run = build_native(scheduled, chosen).bind(*aligned, out)
    run()
    return Ready(run, {"error": data.error_of(np.asarray(out), expected), **facts})


def _schedule(
    name: str, shape: Sequence[int], threads: int, database: str | None, first: int | None
) -> tuple[Any, dict[str, float]]:
    """What is built, and what is known of it."""
    from database import open_database
    from ir import IRModule
    from tuner.compile import default_of_builds

    chosen = target(threads)
    if database is None:
        return default_of_builds(suite.workload(name, shape), chosen), {}
    if first is None:
        module = IRModule({"main": suite.workload(name, shape)})
        record = open_database(database, must_exist=True).query_tuning_record(module, chosen, "main")
    else:
        valid = [item for item in _trials(name, shape, database, threads)[:first] if item.is_valid()]
        record = min(valid, key=lambda item: item.secs, default=None)
    if record is None:
        raise LookupError(f"the database has no record of {name} {tuple(shape)}; tune it first")
    return record.schedule(), {"tuned_ms": record.secs * 1e3}
