"""Random candidates of a kernel's design space: right kernels, as searches propose them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ir import IRModule
from schedules import ScheduleError
from schedules.layout_rewrite import split_module
from tuner.context import TuneContext
from tuner.search.base import MeasureCandidate


def random_candidates(mod: IRModule, number: int, seed: int, target: str = "cpu") -> Iterator[IRModule]:
    """Scheduled modules, different as far as the space has so many; fewer where it has not."""
    context = TuneContext(mod, target, seed=seed)
    sketches = context.sketches()
    rng = np.random.default_rng(seed)
    seen: set[tuple[int, bytes]] = set()
    for _ in range(20 * number):
        if len(seen) >= number:
            return
        index = int(rng.integers(len(sketches)))
        for row in sketches[index].sample(1, rng):
            key = (index, row.tobytes())
            if key in seen:
                continue
            seen.add(key)
            try:
                schedule = MeasureCandidate(sketches[index], row).schedule(context)
            except ScheduleError:  # a defect of the arrays, which searches count as an illegal candidate
                continue
            if schedule is not None:
                yield split_module(schedule.mod)
