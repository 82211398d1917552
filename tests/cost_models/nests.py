"""Nests made by hand, for the tests of this package."""

from __future__ import annotations

import numpy as np

from cost_models.loops import NestLoops, nest_loops
from cost_models.memory import Slot, slots_of
from schedules.population.skeleton import Access, LoopAxis, Nest, Skeleton


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def nest(
    loops: list[tuple[str, int]], accesses: list[tuple[str, list[int], list[list[int]], bool]]
) -> Skeleton:
    """One candidate; accesses are (name, shape, distance per loop for each dimension, is written); a loop ``p...`` is parallel."""
    axes = [
        LoopAxis(name, array(extent), "parallel" if name.startswith("p") else "", False, number)
        for number, (name, extent) in enumerate(loops)
    ]
    names = sorted({name for name, *_ in accesses})
    found = []
    for name, shape, reach, is_write in accesses:
        distances = np.array(reach, dtype=np.int64)[:, :, None]
        steps = np.append(np.cumprod(shape[:0:-1])[::-1], 1)
        strides = (distances[:, :, 0] * steps[:, None]).sum(axis=0)[:, None]
        found.append(
            Access(
                names.index(name),
                name,
                "global",
                is_write,
                4,
                [array(item) for item in shape],
                strides,
                distances,
            )
        )
    return Skeleton(1, [Nest("block", axes, found, {}, False, [])])


def facts(skeleton: Skeleton) -> tuple[NestLoops, list[Slot]]:
    loops = nest_loops(skeleton)
    return loops[0], slots_of(skeleton, loops, 64)[0]
