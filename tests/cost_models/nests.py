"""Nests made by hand, for the tests of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cost_models.loops import NestLoops, nest_loops
from cost_models.memory import Slot, slots_of
from schedules.population.skeleton import Access, LoopAxis, Nest, Skeleton


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def nest(
    loops: Sequence[tuple[str, int | tuple[int, ...]]],
    accesses: list[tuple[str, list[int], list[list[int]], bool]],
    marks: Mapping[str, str] = {"p": "parallel"},
) -> Skeleton:
    """One candidate, or as many as extents are given of a loop.

    Accesses are (name, shape, distance per loop for each dimension, is written); loops are marked by the letter that they begin with.
    """
    size = max(len(extent) if isinstance(extent, tuple) else 1 for _, extent in loops)
    extents = [np.broadcast_to(np.array(extent, dtype=np.int64), size) for _, extent in loops]
    axes = [
        LoopAxis(name, extent, marks.get(name[0], ""), False, number)
        for number, ((name, _), extent) in enumerate(zip(loops, extents, strict=True))
    ]
    names = sorted({name for name, *_ in accesses})
    found = []
    for name, shape, reach, is_write in accesses:
        # a loop that runs once moves nothing
        distances = np.array(reach, dtype=np.int64)[:, :, None] * (np.array(extents) > 1)
        steps = np.append(np.cumprod(shape[:0:-1])[::-1], 1)
        strides = (distances * steps[:, None, None]).sum(axis=0)
        found.append(
            Access(
                names.index(name),
                name,
                "global",
                is_write,
                4,
                [np.full(size, item) for item in shape],
                strides,
                distances,
            )
        )
    return Skeleton(size, [Nest("block", axes, found, {}, False, [])])


def facts(skeleton: Skeleton) -> tuple[NestLoops, list[Slot]]:
    loops = nest_loops(skeleton)
    return loops[0], slots_of(skeleton, loops, 64)[0]
