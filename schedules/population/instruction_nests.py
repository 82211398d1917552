"""Nests whose innermost loops are one instruction's work, in terms of what it takes: groups, or the registers of a matrix unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ir.tir.intrinsic.matrix_registers import MATRIX_COLUMNS, MATRIX_ROW_BYTES, MATRIX_ROWS

from .skeleton import Nest, OperationGroup

_MATRIX_CYCLES = 2 * MATRIX_ROWS
"""What the product of two registers takes, in multiply-adds of a core that does two in a cycle: a row a cycle."""


def by_groups(nest: Nest) -> Nest:
    """A nest whose innermost loop is one instruction's work: groups are its elements, and that instruction its operation."""
    *loops, group = nest.loops
    accesses = []
    for access in nest.accesses:
        in_groups: np.ndarray = np.any(access.reach[:, -1] != 0, axis=1)
        factor = group.extent if in_groups.any() else np.ones_like(group.extent)
        factors = np.where(in_groups[:, None], factor, 1)
        accesses.append(
            replace(
                access,
                element_bytes=access.element_bytes * int(factor.max(initial=1)),
                shape=[-(-extent // by) for extent, by in zip(access.shape, factors, strict=True)],
                strides=access.strides[:-1] // factor,
                reach=access.reach[:, :-1] // factors[:, None],
            )
        )
    operations = {"float_mad": 1}
    moved = (True,) * len(loops)
    return replace(
        nest,
        loops=loops,
        accesses=accesses,
        operations=operations,
        groups=[OperationGroup(operations, moved)],
    )


def by_matrix_tiles(nest: Nest) -> Nest:
    """A nest of groups in the registers of a matrix unit: what a register holds is an element, and a product of two the operation."""
    start = next(place for place, loop in enumerate(nest.loops) if loop.mark == "matrix")
    sizes = np.ones((len(nest.loops), len(nest.loops[0].extent)), dtype=np.int64)
    sizes[start] = MATRIX_ROWS
    rows: np.ndarray = np.zeros(sizes.shape[1], dtype=bool)
    for place in reversed(range(start + 1, len(nest.loops))):
        extent = nest.loops[place].extent
        if nest.loops[place].mark == "vectorize":
            sizes[place] = MATRIX_COLUMNS
        else:  # the innermost loop of rows that has several
            sizes[place] = np.where(rows, 1, np.minimum(extent, MATRIX_ROWS))
            rows |= extent > 1
    loops = [
        replace(loop, extent=-(-loop.extent // size), mark="unroll" if place > start else "")
        for place, (loop, size) in enumerate(zip(nest.loops, sizes, strict=True))
    ]
    accesses = []
    for access in nest.accesses:
        factors = np.max(np.where(access.reach != 0, sizes, 1), axis=1, initial=1)
        shape = [-(-extent // by) for extent, by in zip(access.shape, factors, strict=True)]
        reach = access.reach // factors[:, None]
        steps = np.cumprod([np.ones_like(nest.loops[0].extent), *shape[:0:-1]], axis=0)[::-1]
        accesses.append(
            replace(
                access,
                element_bytes=MATRIX_ROWS * MATRIX_ROW_BYTES,
                shape=shape,
                strides=np.sum(reach * steps[: len(shape), None], axis=0),
                reach=reach,
            )
        )
    operations = {"float_mad": _MATRIX_CYCLES}
    return replace(
        nest,
        loops=loops,
        accesses=accesses,
        operations=operations,
        groups=[OperationGroup(operations, (True,) * len(loops))],
    )
