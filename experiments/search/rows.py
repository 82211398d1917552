"""The search itself: its speed, how its results grow with the trials, what it costs, and the virtual machine's calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..harness.contestant import Job, median_ms, run_job, start, summary, take_turns
from ..harness.settings import Settings
from ..operators import rows as operators
from ..operators import suite
from ..operators.loopsmith import history

PACKAGE = "experiments.search"
CHECKPOINTS = (16, 32, 64, 128, 256)


def speed(name: str, shape: Sequence[int]) -> dict[str, Any]:
    """Candidates per second and core of a row."""
    options = {"name": name, "shape": list(shape)}
    found: dict[str, Any] = run_job(Job("speed", f"{PACKAGE}.speed:candidates", options, threads=1))
    return {"row": operators.key(name, shape), **found}


def growth(name: str, shape: Sequence[int], settings: Settings) -> dict[str, Any]:
    """One tuning run: the best kernel after 16, 32, ... trials, all timed in turns with the peak kernel; and its costs.

    The tuner does not look ahead, so the best of the first 64 trials is what a run of 64 would have found.
    """
    tuning = operators.tune(name, shape, settings)
    jobs = {job.name: job for job in operators.contestants(name, shape, settings)}
    wanted = [jobs["peak"]]
    for tuner in [peer for peer in ("loopsmith", "tvm") if peer in jobs]:
        for count in (count for count in CHECKPOINTS if count <= settings.trials):
            job = jobs[tuner]
            options = {**job.options, "first": count}
            wanted.append(Job(f"{tuner}@{count}", job.function, options, job.python, job.threads))
    with start(wanted) as everyone:
        disturbed = take_turns(everyone, settings.rounds)
        peak, *kernels = everyone
        limit = peak.facts["flops"] / median_ms(peak) / 1e6 if peak.rounds else None
        best = min((item for item in kernels if item.rounds), key=median_ms, default=None)
        contestants = {} if best is None else summary(kernels, best)
    database = settings.database(suite.theme(name))
    times = history(name, shape, database, settings.threads) if database is not None else []
    costs: dict[str, Any] = {}
    for who, cost in tuning.items():
        past = times if who == "loopsmith" else cost.pop("history", [])
        costs[who] = {
            **cost,
            "best_ms_after": best_after(past),
            "trials_to_95_percent": trials_to(past, 0.95),
        }
        if cost.get("trials") and cost.get("seconds"):
            costs[who]["trials_per_second"] = cost["trials"] / cost["seconds"]
    return {
        "row": operators.key(name, shape),
        "trials": settings.trials,
        "threads": settings.threads,
        "disturbed": disturbed,
        "flops": suite.flops(name, shape),
        "peak_gflops": limit,
        "tuning": costs,
        "contestants": contestants,
    }


def best_after(history: Sequence[float | None]) -> list[float | None]:
    """Milliseconds of the best of the first trials, after each trial; None before one has succeeded."""
    found: list[float | None] = []
    best: float | None = None
    for secs in history:
        if secs is not None and (best is None or secs * 1e3 < best):
            best = secs * 1e3
        found.append(best)
    return found


def trials_to(history: Sequence[float | None], share: float) -> int | None:
    """How many trials it takes to reach a share of the speed of the best; None when all failed."""
    times = [secs for secs in history if secs is not None]
    if not times:
        return None
    return next(n for n, secs in enumerate(history, 1) if secs is not None and secs <= min(times) / share)


def machine_calls(settings: Settings) -> dict[str, Any]:
    """Microseconds that one more kernel call takes in the virtual machines, and that a call of a whole model takes."""
    from .machine_calls import LONG, SHORT

    jobs = []
    for language in ["loopsmith", *(["tvm"] if "tvm" in settings.peers else [])]:
        python = settings.python_of(language)
        for kind, symbolic in (("static", False), ("symbolic", True)):
            for length in (SHORT, LONG):
                options = {"length": length, "symbolic": symbolic}
                function = f"{PACKAGE}.machine_calls:{language}"
                jobs.append(Job(f"{language} {kind} {length}", function, options, python))
    with start(jobs) as everyone:
        disturbed = take_turns(everyone, settings.rounds)
        by_name = {item.name: item for item in everyone}
        found: dict[str, Any] = {"row": "virtual machine", "disturbed": disturbed}
        for language in ("loopsmith", "tvm"):
            for kind in ("static", "symbolic"):
                short, long = (by_name.get(f"{language} {kind} {length}") for length in (SHORT, LONG))
                if short is None or long is None:
                    continue
                if not short.rounds or not long.rounds:
                    found[f"{language} {kind}"] = {"failed": short.failed or long.failed}
                    continue
                slope = (median_ms(long) - median_ms(short)) / (LONG - SHORT)
                found[f"{language} {kind}"] = {"call_us": median_ms(short) * 1e3, "kernel_us": slope * 1e3}
        return found
