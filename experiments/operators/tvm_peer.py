"""The suites' operators tuned by Apache TVM's MetaSchedule, driven as a black box.

Runs in a virtual environment of its own (README.md beside the harness says what it holds), so nothing here imports this
compiler: the definitions are written for any language of tensor expressions.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tvm
from tvm import te, topi
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..harness.child import Ready
from . import data, suite

LANGUAGE: Any = SimpleNamespace(te=te, topi=topi)
RECORDS = "database_tuning_record.json"


def target(threads: int) -> Any:
    """The host with a number of cores."""
    cpu = tvm.get_global_func("target.llvm_get_system_cpu")()
    return Target({"kind": "llvm", "mcpu": str(cpu), "num-cores": threads})


def light_build(mod: Any, target: Any, params: Any) -> Any:
    """What the builder's workers call. TVM's own default imports every tensor intrinsic first: 15 s in each new worker."""
    mod = tvm.s_tir.transform.RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    return tvm.compile(mod, target=target).mod


def fastest_call(rt_mod: Any, device: Any, evaluator_config: Any, repeated_args: Any) -> list[float]:
    """What the runner's workers call: the fastest of 0.15 s of single calls, so that other load does not mislead it."""
    args = repeated_args[0]
    once = rt_mod.time_evaluator(rt_mod.entry_name, device, number=1, repeat=1)(*args).results[0]
    if once > 0.1:  # hopeless anyway, and slow candidates are what the runner's time goes on
        return [once]
    count = int(min(300, max(4, 0.15 / once)))
    return [min(rt_mod.time_evaluator(rt_mod.entry_name, device, number=1, repeat=count)(*args).results)]


def options(threads: int) -> dict[str, Any]:
    """Builder and runner of a tuning session."""
    return {
        "builder": ms.builder.LocalBuilder(max_workers=threads, timeout_sec=30, f_build=light_build),
        "runner": ms.runner.LocalRunner(f_run_evaluator=fastest_call),
    }


@derived_object
class Rounds(ms.measure_callback.PyMeasureCallback):  # type: ignore[misc]
    """Counts trials and failures."""

    def __init__(self) -> None:
        self.trials, self.failed = 0, 0

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Any,
        builder_results: Any,
        runner_results: Any,
    ) -> None:
        self.trials += len(measure_candidates)
        self.failed += sum(result is None or result.error_msg is not None for result in runner_results)


def session(tune: Any, folder: str, trials: int, threads: int) -> dict[str, Any]:
    """Run a tuning function once; the facts of that run stay beside its records, and later calls return them.

    A folder that holds fewer trials than asked for (an interrupted run) is tuned anew.
    """
    notes = Path(folder) / "run.json"
    if notes.is_file():
        facts: dict[str, Any] = json.loads(notes.read_text())
        if facts["trials_wanted"] >= trials:
            return facts
    logging.disable(logging.WARNING)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for old in Path(folder).glob("database_*.json"):
        old.unlink()
    begin, rounds = time.perf_counter(), Rounds()
    with ms.Profiler() as profiler:
        tune([*ms.MeasureCallback.create("default"), rounds], options(threads))
    wall = time.perf_counter() - begin
    profile = {key: round(float(value), 3) for key, value in profiler.get().items()}
    facts = {
        "trials": rounds.trials,
        "trials_wanted": trials,
        "failed": rounds.failed,
        "seconds": wall,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "profile_s": profile,
        "overhead": _overhead(profile, wall),
        "version": tvm.__version__,
    }
    notes.write_text(json.dumps(facts))
    return facts


def _overhead(profile: dict[str, float], wall: float) -> float:
    """Share of the time that went neither to building nor to running: search, cost model, bookkeeping."""
    own = [key for key in profile if key.startswith(("EvoSearch/", "MeasureCallback/", "InitializeTask"))]
    # "a/b/c" is a part of "a/b"
    outer = [key for key in own if not any(key.startswith(f"{other}/") for other in own)]
    return sum(profile[key] for key in outer) / wall


def tune(
    name: str, shape: Sequence[int], trials: int, folder: str, threads: int, seed: int = 0
) -> dict[str, Any]:
    """Tune a row; see :func:`session`."""
    mod = _module(name, shape)

    def run(callbacks: Any, parts: dict[str, Any]) -> None:
        ms.tune_tir(
            mod, target=target(threads), work_dir=folder, max_trials_global=trials, seed=seed,
            num_trials_per_iter=min(64, trials), num_tuning_cores=threads, measure_callbacks=callbacks, **parts,
        )  # fmt: skip

    facts = session(run, folder, trials, threads)
    history = [secs for secs, _ in _records(folder, mod)]
    return {**facts, "history": history}


def _module(name: str, shape: Sequence[int]) -> Any:
    func = suite.workload(name, shape, LANGUAGE).with_attr("global_symbol", "main")
    return tvm.IRModule({"main": func})


def _records(folder: str, mod: Any) -> list[tuple[float | None, Any]]:
    """(seconds or None, record) in the order of measuring."""
    workload, found = ms.database.Workload(mod), []
    with open(os.path.join(folder, RECORDS)) as lines:
        for line in lines:
            record = ms.database.TuningRecord.from_json(json.loads(line)[1], workload)
            secs = sum(map(float, record.run_secs)) / len(record.run_secs)
            found.append((secs if secs < 1e9 else None, record))
    return found


def call(
    name: str, shape: Sequence[int], arrays: str, threads: int, folder: str, first: int | None = None
) -> Ready:
    """The best record, or the best of the first so many trials; its layout rewriting of weights is not timed.

    Raises:
        LookupError: no trial succeeded.
    """
    mod = _module(name, shape)
    valid = [(secs, record) for secs, record in _records(folder, mod)[:first] if secs is not None]
    if not valid:
        raise LookupError(f"none of TVM's trials of {name} {tuple(shape)} succeeded")
    secs, record = min(valid, key=lambda item: item[0])
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    record.trace.apply_to_schedule(schedule, remove_postproc=False)
    inputs, expected = data.read(arrays)
    device = tvm.cpu()
    values = [tvm.runtime.tensor(item, device) for item in [*inputs, expected * 0]]
    whole = tvm.compile(schedule.mod, target=target(threads))
    whole["main"](*values)
    error = data.error_of(values[-1].numpy(), expected)
    # Weights are constants of a deployed model: what rewrites their layout runs once, and is not part of a call.
    packed = tvm.s_tir.transform.RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(schedule.mod)
    shapes = [[int(extent) for extent in param.ty.shape] for param in packed["main"].params]
    values = [
        tvm.runtime.tensor(item.reshape(dims), device)
        for item, dims in zip([*inputs, expected * 0], shapes, strict=True)
    ]
    main = tvm.compile(packed, target=target(threads))["main"]
    return Ready(lambda: main(*values), {"error": error, "version": tvm.__version__, "tuned_ms": secs * 1e3})
