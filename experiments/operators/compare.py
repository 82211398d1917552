"""Kernel quality on the operator suite: tune, then let loopsmith and its peers take turns, and print ratios.

    python -m experiments.operators C2D GMM:1,1024,1024,1024 --trials 256
    python -m experiments.operators all --trials 64 --json experiments/out/operators.json

Every contestant lives in a process of its own (idle thread pools of one library must not spin against another); rounds
alternate between them, and the medians of the rounds give the ratios. ``peak`` is the machine's FMA throughput measured in the same
run. Tuning results stay in the database, so that a second run only measures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import suite

_ROUND_SECONDS = 0.2


def measure_here(contestant: str, name: str, shape: tuple[int, ...], threads: int, database: str) -> None:
    """The child's side: make the call, then answer every line of standard input with seconds per call."""
    call, flops = _call_of(contestant, name, shape, threads, database)
    call()
    begin = time.perf_counter()
    call()
    count = max(1, int(_ROUND_SECONDS / max(time.perf_counter() - begin, 1e-7)))
    print(json.dumps({"ready": True, "flops": flops}), flush=True)
    for _ in sys.stdin:
        call()
        begin = time.perf_counter()
        for _call in range(count):
            call()
        print(json.dumps({"secs": (time.perf_counter() - begin) / count}), flush=True)


def _call_of(
    contestant: str, name: str, shape: tuple[int, ...], threads: int, database: str
) -> tuple[Any, float]:
    from . import peers

    if contestant == "peak":
        return peers.peak_call(threads)
    flops = float(suite.flops(name, shape))
    arrays = suite.inputs(name, shape)
    if contestant == "torch":
        return peers.torch_call(name, shape, arrays, threads), flops
    if contestant == "onnxruntime":
        return peers.onnxruntime_call(name, shape, arrays, threads), flops
    return loopsmith_call(name, shape, arrays, database), flops


def loopsmith_call(name: str, shape: tuple[int, ...], arrays: list[Any], database: str) -> Any:
    """The best record of the database, weights packed beforehand."""
    import numpy as np

    from database import open_database
    from ir import IRModule
    from ir.target import Target
    from runners.native import build_native
    from runners.ndarray import aligned_empty
    from schedules.layout_rewrite import MAPS_ATTRIBUTE, split_module

    target = Target("cpu")
    module = IRModule({"main": suite.workload(name, shape)})
    record = open_database(database, must_exist=True).query_tuning_record(module, target, "main")
    if record is None:
        raise SystemExit(f"the database has no record of {name} {shape}; tune it first")
    scheduled = split_module(record.schedule().mod)
    maps = scheduled["main"].attrs.get(MAPS_ATTRIBUTE, {})
    packed = [maps[i].map_ndarray(item) if i in maps else item for i, item in enumerate(arrays)]
    aligned = []
    for item in packed:
        copy = aligned_empty(item.shape, item.dtype)
        copy[...] = item
        aligned.append(copy)
    out = aligned_empty(suite.output_shape(name, shape), "float32")
    call = build_native(scheduled, target).bind(*aligned, out)
    call()
    wanted = suite.reference(name, arrays, shape)
    error = float(np.abs(out - wanted).max() / np.abs(wanted).max())
    if error > 1e-3:
        raise SystemExit(f"{name} {shape}: the tuned kernel is wrong, relative error {error:.1e}")
    return call


def tune(rows: list[tuple[str, tuple[int, ...]]], trials: int, database: str) -> None:
    """Tune every row up to ``trials`` trials, those of earlier runs included."""
    import tuner
    from tuner.progress import PlainProgress

    for name, shape in rows:
        tuner.tune_tir(
            suite.workload(name, shape),
            "cpu",
            max_trials_global=trials,
            database=database,
            task_name=f"{name}{shape}",
            measure_callbacks=[PlainProgress(trials, None)],
        )


class Child:
    """A contestant in its own process."""

    def __init__(
        self, contestant: str, name: str, shape: tuple[int, ...], threads: int, database: str
    ) -> None:
        self.name = contestant
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        row = f"{name}:{','.join(map(str, shape))}"
        command = [sys.executable, "-m", "experiments.operators", row, "--child", contestant]
        command += ["--threads", str(threads), "--database", database]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        first = self._read()
        self.alive = first is not None
        self.flops = first["flops"] if first else 0.0
        self.times: list[float] = []

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line.startswith("{") else None

    def round(self) -> None:
        """One round of calls."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        answer = self._read()
        if answer is not None:
            self.times.append(answer["secs"])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def compare(name: str, shape: tuple[int, ...], rounds: int, threads: int, database: str) -> dict[str, Any]:
    """One row: medians of every contestant, and loopsmith's speed relative to each."""
    children = [
        Child(item, name, shape, threads, database) for item in ("loopsmith", "torch", "onnxruntime", "peak")
    ]
    alive = [child for child in children if child.alive]
    for _ in range(rounds):
        for child in alive:
            child.round()
    medians = {child.name: statistics.median(child.times) for child in alive if child.times}
    flops = {child.name: child.flops for child in alive}
    for child in children:
        child.close()
    row: dict[str, Any] = {
        "row": name,
        "shape": list(shape),
        "ms": {key: value * 1e3 for key, value in medians.items() if key != "peak"},
    }
    if "loopsmith" in medians:
        ours = medians["loopsmith"]
        row["gflops"] = flops["loopsmith"] / ours / 1e9
        row["speedup_over"] = {
            key: value / ours for key, value in medians.items() if key not in ("loopsmith", "peak")
        }
        if "peak" in medians:
            row["peak_gflops"] = flops["peak"] / medians["peak"] / 1e9
            row["share_of_peak"] = row["gflops"] / row["peak_gflops"]
    return row


def parse_rows(items: list[str]) -> list[tuple[str, tuple[int, ...]]]:
    """``all``, ``C2D`` (all its shapes), or ``C2D:1,56,56,64,64,1,1,0``."""
    rows: list[tuple[str, tuple[int, ...]]] = []
    for item in items:
        name, _, dims = item.partition(":")
        if item == "all":
            rows += [(key, shape) for key, work in suite.WORKLOADS.items() for shape in work.shapes]
        elif dims:
            rows.append((name.upper(), tuple(int(dim) for dim in dims.split(","))))
        else:
            rows += [(name.upper(), shape) for shape in suite.WORKLOADS[name.upper()].shapes]
    return rows


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="+", help="all, a name, or name:shape")
    parser.add_argument("--trials", type=int, default=64, help="measured trials per row; 0 only compares")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--database", default="experiments/out/operators.db")
    parser.add_argument("--json", type=Path, help="write all rows to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows = parse_rows(options.rows)
    if options.child:
        measure_here(options.child, *rows[0], options.threads, options.database)
        return
    Path("experiments/out").mkdir(parents=True, exist_ok=True)
    if options.trials:
        tune(rows, options.trials, options.database)
    results = []
    for name, shape in rows:
        row = compare(name, shape, options.rounds, options.threads, options.database)
        results.append(row)
        ratios = "  ".join(f"{key} {value:.2f}x" for key, value in row.get("speedup_over", {}).items())
        print(
            f"{name:4} {'x'.join(map(str, shape)):28} {row['ms'].get('loopsmith', float('nan')):9.4f} ms"
            f" {row.get('gflops', 0):7.1f} GFLOP/s {row.get('share_of_peak', 0):6.1%} of peak   faster than: {ratios}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
