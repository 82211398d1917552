"""Kernel quality: one row of a suite tuned, then timed in turns with its peers and with the machine's limits."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from ..harness.contestant import Contestant, Job, run_job, start, summary, take_turns
from ..harness.settings import Settings
from . import data, suite

PACKAGE = "experiments.operators"
_TORCH_MODES = {"torch": "eager", "torch_compile": "compile", "torch_max": "max"}


def key(name: str, shape: Sequence[int]) -> str:
    """How a row is called in results and file names: ``C2D 1x14x14x256x256x3x1x1``."""
    return f"{name} {'x'.join(map(str, shape))}"


def folder_of_tvm(name: str, shape: Sequence[int], settings: Settings) -> str:
    """Where TVM keeps the records of a row."""
    row = key(name, shape).replace(" ", "-")
    return str(settings.scratch / "tvm" / f"{row}-{settings.trials}-trials-{settings.threads}-threads")


def tune(name: str, shape: Sequence[int], settings: Settings) -> dict[str, Any]:
    """Tune the row here and, where it is a peer, in TVM; each in its own process, one after the other."""
    row: dict[str, Any] = {
        "name": name,
        "shape": list(shape),
        "trials": settings.trials,
        "threads": settings.threads,
    }
    row["seed"] = settings.seed
    database = settings.database(suite.theme(name))
    if database is None:
        return {}
    jobs = [
        Job("loopsmith", f"{PACKAGE}.loopsmith:tune", {**row, "database": database}, threads=settings.threads)
    ]
    if "tvm" in settings.peers:
        options = {**row, "folder": folder_of_tvm(name, shape, settings)}
        jobs.append(
            Job("tvm", f"{PACKAGE}.tvm_peer:tune", options, settings.python_of("tvm"), settings.threads)
        )
    found: dict[str, Any] = {}
    for job in jobs:
        try:
            found[job.name] = run_job(job)
        except RuntimeError as error:
            if job.name == "loopsmith":
                raise
            found[job.name] = {"failed": str(error)[-500:]}
    return found


def contestants(name: str, shape: Sequence[int], settings: Settings) -> list[Job]:
    """Ourselves, the peers, and the machine's limits, on the same inputs."""
    arrays = settings.scratch / "rows" / f"{key(name, shape).replace(' ', '-')}.npz"
    data.write(arrays, name, shape)
    threads = settings.threads
    row: dict[str, Any] = {"name": name, "shape": list(shape), "arrays": str(arrays), "threads": threads}
    jobs = [Job("peak", "experiments.harness.machine:peak", {"threads": threads}, threads=threads)]
    ours = {**row, "database": settings.database(suite.theme(name))}
    jobs.append(Job("loopsmith", f"{PACKAGE}.loopsmith:call", ours, threads=threads))
    for peer in settings.peers:
        if peer == "tvm":
            options = {**row, "folder": folder_of_tvm(name, shape, settings)}
            jobs.append(Job(peer, f"{PACKAGE}.tvm_peer:call", options, settings.python_of(peer), threads))
        elif peer == "default":
            jobs.append(Job(peer, f"{PACKAGE}.loopsmith:call", {**row, "database": None}, threads=threads))
        elif peer in _TORCH_MODES:
            options = {**row, "mode": _TORCH_MODES[peer]}
            jobs.append(Job(peer, f"{PACKAGE}.peers:torch", options, threads=threads))
        else:
            jobs.append(Job(peer, f"{PACKAGE}.peers:{peer}", row, threads=threads))
    footprint = max(suite.bytes_moved(name, shape), 3 * 64 * threads)
    traffic = {"threads": threads, "footprint": footprint}
    jobs.append(Job("triad", "experiments.harness.machine:triad", traffic, threads=threads))
    return jobs


def measure(name: str, shape: Sequence[int], settings: Settings) -> dict[str, Any]:
    """One row as plain data: times and ratios of all contestants, shares of the machine's limits, what tuning cost."""
    tuning = tune(name, shape, settings)
    with start(contestants(name, shape, settings)) as everyone:
        disturbed = take_turns(everyone, settings.rounds)
        by_name = {item.name: item for item in everyone}
        ours = by_name["loopsmith"]
        if ours.failed is not None:
            raise RuntimeError(f"{key(name, shape)}: {ours.failed}")
        row: dict[str, Any] = {
            "row": name,
            "shape": list(shape),
            "trials": settings.trials,
            "threads": settings.threads,
            "disturbed": disturbed,
            "tuning": {
                peer: {k: v for k, v in cost.items() if k != "history"} for peer, cost in tuning.items()
            },
        }
        row.update(_limits(name, shape, ours, by_name["peak"], by_name["triad"]))
        peers = [item for item in everyone if item.name not in ("peak", "triad")]
        row["contestants"] = summary(peers, ours)
    return row


def _limits(
    name: str, shape: Sequence[int], ours: Contestant, peak: Contestant, triad: Contestant
) -> dict[str, Any]:
    """The kernel against the machine, both measured in the same rounds."""
    flops, moved = float(suite.flops(name, shape)), float(suite.bytes_moved(name, shape))
    found: dict[str, Any] = {"flops": flops, "bytes": moved}
    if peak.rounds and triad.rounds:
        at_peak = [flops * turn.secs / peak.facts["flops"] for turn in peak.rounds]
        at_triad = [moved * turn.secs / triad.facts["bytes"] for turn in triad.rounds]
        bounds = [max(pair) for pair in zip(at_peak, at_triad, strict=True)]
        found["peak_gflops"] = peak.facts["flops"] / statistics.median(t.secs for t in peak.rounds) / 1e9
        found["triad_gbps"] = triad.facts["bytes"] / statistics.median(t.secs for t in triad.rounds) / 1e9
        if flops:
            found["share_of_peak"] = statistics.median(
                a / t.secs for a, t in zip(at_peak, ours.rounds, strict=True)
            )
        found["share_of_bound"] = statistics.median(
            b / t.secs for b, t in zip(bounds, ours.rounds, strict=True)
        )
        found["bound_ms"] = statistics.median(bounds) * 1e3
    else:
        found["limits_failed"] = peak.failed or triad.failed or "no rounds"
    if flops:
        found["gflops"] = flops / statistics.median(turn.secs for turn in ours.rounds) / 1e9
    return found
