"""Random candidates of operators, timed on one core for judging cost models: what a search measures is near the best already.

Candidates are drawn from all structures of an operator's design space and run on one core; their time is the shortest processor
time of many calls, which other work on the machine disturbs little. Records go to a tuning database, unchecked and not for building.

    python -m experiments.search.random_candidates random.db --each 40 GMM C2D softmax transpose
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from database import Database, TuningRecord, open_database
from ir import IRModule
from ir.error import IRError
from ir.target import Target
from runners.native import build_native
from runners.ndarray import aligned_empty
from schedules.space import PostOrderApply
from tuner import TuneContext
from tuner.search import MeasureCandidate

from ..operators import loopsmith, suite

_LEAST_CALLS = 5
_SECONDS = 0.03


def candidates(context: TuneContext, count: int, seed: int) -> Iterator[MeasureCandidate]:
    """Random candidates, the structures in turn, none of them twice."""
    generator = np.random.default_rng(seed)
    seen: set[tuple[int, bytes]] = set()
    for number in range(20 * count):
        position = number % len(context.sketches())
        for row in context.sketches()[position].sample(1, generator):
            if (position, row.tobytes()) not in seen:
                seen.add((position, row.tobytes()))
                yield MeasureCandidate(context.sketches()[position], row)


def processor_seconds(call: Any) -> float:
    """The shortest processor time of a call."""
    times: list[float] = []
    while len(times) < _LEAST_CALLS or sum(times) < _SECONDS:
        begin = time.thread_time()
        call()
        times.append(time.thread_time() - begin)
    return min(times)


def measure(name: str, store: Database, count: int, seed: int, machine: Target) -> int:
    """Measure random candidates of a workload; how many ran."""
    workload = store.commit_workload(IRModule({"main": suite.workload(name)}))
    context = TuneContext(workload.mod, machine, space_generator=PostOrderApply(), task_name=name)
    arrays = _arguments(name, context, seed)
    done = 0
    for candidate in candidates(context, count, seed):
        if done == count:
            break
        try:
            schedule = candidate.schedule(context)
            if schedule is None:
                continue
            call = build_native(schedule.mod, machine).bind(*arrays)
        except IRError as error:
            print(f"{name}: {str(error).splitlines()[0]}")
            continue
        record = TuningRecord(schedule.trace, workload, [processor_seconds(call)], machine)
        store.commit_tuning_record(record)
        done += 1
    return done


def _arguments(name: str, context: TuneContext, seed: int) -> list[np.ndarray]:
    """Random inputs and room for the outputs, in the order of the parameters."""
    given = suite.inputs(name, seed=seed)
    arrays = []
    for number, param in enumerate(context.func.params):
        buffer = context.func.buffer_map[param]
        array = aligned_empty(tuple(int(extent) for extent in buffer.shape), buffer.dtype)
        array[...] = given[number] if number < len(given) else 0
        arrays.append(array)
    return arrays


def main() -> None:
    """Measure operators of the suites."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("database")
    parser.add_argument("operators", nargs="+", help=f"of {', '.join(suite.WORKLOADS)}")
    parser.add_argument("--each", type=int, default=40, help="candidates of an operator")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    store, machine = open_database(options.database), loopsmith.target(1)
    for name in options.operators:
        begin = time.monotonic()
        done = measure(suite.find(name).name, store, options.each, options.seed, machine)
        print(f"{name}: {done} candidates in {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
