"""The side of the harness that runs in a process of its own: calls one function, then times it whenever it is told to.

Started by :mod:`experiments.harness.contestant`, by any Python that the contestant needs: this module and the functions that it
calls for peers must work with the standard library, numpy and that peer alone.

A function returns either plain data, which is printed (a finished job), or a :class:`Ready`: then one line is printed, and
each line on standard input is answered with one round of calls.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

ROUND_SECONDS = 0.2
PAUSE_SECONDS = 0.05


@dataclass
class Ready:
    """Something to be timed: a call, and what is known of it (its error against the reference, its version)."""

    call: Callable[[], Any]
    facts: dict[str, Any] = field(default_factory=dict)
    calls: int = 1
    """How many calls of what is measured it makes; a round tells the seconds of one of them."""


def measure_round(ready: Ready, count: int) -> dict[str, float]:
    """The mean and the fastest of some calls, and the share of the machine that others took meanwhile."""
    call = ready.call
    # Loaded when it is needed: as a script this module does not know yet where the packages are.
    from runners.disturbance import Watch

    # The threads of whoever ran before spin for a while; they must not take this one's cores.
    time.sleep(PAUSE_SECONDS)
    call()
    watch = Watch()
    seconds, last = [], time.perf_counter()
    for _ in range(count):
        call()
        now = time.perf_counter()
        seconds.append(now - last)
        last = now
    return {
        "secs": statistics.fmean(seconds) / ready.calls,
        "min_secs": min(seconds) / ready.calls,
        "others": watch.lap().lost,
    }


def seconds_of(call: Callable[[], Any]) -> float:
    """Roughly, how long a call takes."""
    call()
    begin = time.perf_counter()
    call()
    return max(time.perf_counter() - begin, 1e-7)


def _serve(job: dict[str, Any], answers: TextIO) -> None:
    module, function = job["function"].split(":")
    result = getattr(importlib.import_module(module), function)(**job["options"])
    if not isinstance(result, Ready):
        print(json.dumps({"result": result}), file=answers, flush=True)
        return
    secs = seconds_of(result.call)
    count = max(1, int(ROUND_SECONDS / secs))
    print(json.dumps({"ready": result.facts, "secs": secs}), file=answers, flush=True)
    for _ in sys.stdin:
        print(json.dumps(measure_round(result, count)), file=answers, flush=True)


def main() -> None:
    """Serve the job that the first argument describes."""
    # Libraries print what they like; answers go to the standard output that the parent gave, everything else to the log.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    job = json.loads(sys.argv[1])
    own = [Path(__file__).parent, Path(__file__).resolve().parents[2]]
    others = [item for item in sys.path if Path(item or ".").resolve() not in own]
    sys.path[:] = [job["tree"], *others, *job["path"]]
    # under its package name, so that contestants see the same Ready
    serve = importlib.import_module("experiments.harness.child")._serve
    try:
        serve(job, answers)
    except KeyboardInterrupt:
        pass
    except BaseException as error:  # whatever a peer raises is its result; the parent shows it and goes on
        traceback.print_exc()
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:500]}), file=answers, flush=True)


if __name__ == "__main__":
    main()
