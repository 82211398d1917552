"""Populations in parts in which accesses of a buffer go alike, or do not, in all candidates.

Two reads of one tensor by one nest touch the same elements where the same loops move them, and count once; a loop that runs once moves
neither. So what a nest touches is known of a whole population at once only where the same accesses go alike in all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from schedules.population.skeleton import Nest, Skeleton

from .loops import Array


def by_patterns(skeleton: Skeleton, measure: Callable[[Skeleton], Array]) -> Array:
    """What ``measure`` says of each candidate, when it is asked of those of the same patterns together.

    Args:
        skeleton: of N candidates.
        measure: from the skeleton of n candidates to an array [n, ...].
    """
    compared = [alike for nest in skeleton.nests for alike in _comparisons(nest)]
    if all(alike.all() or not alike.any() for alike in compared):
        return measure(skeleton)
    _, kinds = np.unique(np.array(compared), axis=1, return_inverse=True)
    order = np.argsort(kinds.reshape(-1), kind="stable")
    ends = np.flatnonzero(np.diff(kinds.reshape(-1)[order])) + 1
    measured = np.concatenate([measure(skeleton.take(rows)) for rows in np.split(order, ends)])
    result = np.empty_like(measured)
    result[order] = measured
    return result


def _comparisons(nest: Nest) -> Iterator[Array]:
    """For each two accesses of one buffer, where the same loops move both: bool [N]."""
    for one, other in combinations(nest.accesses, 2):
        if one.buffer == other.buffer:
            yield ((one.reach != 0) == (other.reach != 0)).all(axis=(0, 1))
