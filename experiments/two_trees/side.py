"""What runs in each tree: with that tree's modules, which may be older than this file, so that it asks for little of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.harness.child import Ready
from experiments.operators import data, loopsmith, suite


def best_traces(name: str, shape: Sequence[int], database: str, threads: int, best: int) -> list[Any]:
    """The traces of a row's best records, as plain data."""
    records = [record for record in loopsmith._trials(name, shape, database, threads) if record.is_valid()]
    chosen = sorted(records, key=lambda record: record.mean_secs)[:best]
    return [record.trace.as_json() for record in chosen]


def call(name: str, shape: Sequence[int], arrays: str, threads: int, trace: Any) -> Ready:
    """A candidate, built and ready to be called, weights packed beforehand."""
    from ir import IRModule, save_json
    from runners.kernel import pack_arguments
    from runners.native import build_native
    from runners.ndarray import aligned_empty
    from tuner.program import ScheduledProgram

    scheduled = ScheduledProgram(save_json(IRModule({"main": suite.workload(name, shape)})), trace)()
    inputs, expected = data.read(arrays)
    arguments = []
    for packed in pack_arguments(scheduled, list(inputs)):
        copy = aligned_empty(packed.shape, packed.dtype)
        copy[...] = packed
        arguments.append(copy)
    out = aligned_empty(expected.shape, expected.dtype)
    run = build_native(scheduled, loopsmith.target(threads)).bind(*arguments, out)
    run()
    return Ready(run, {"error": data.error_of(np.asarray(out), expected)})
