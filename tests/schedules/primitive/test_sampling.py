"""What narrows decisions: it does while they are open, and what has been drawn stays."""

from __future__ import annotations

import numpy as np
import pytest

from schedules import Schedule
from schedules.population import Sketch, SketchSchedule
from tests.programs.expressions import matmul


def narrowed(sch: Schedule) -> list[int]:
    """Rows of 64 in tiles of 8 at least, of which the outer factor is no more than 2; the largest that both may be."""
    loop = sch.get_loops("C")[0]
    factors = sch.sample_perfect_tile(loop, 2, 64)
    sch.restrict_tile(factors, lambda table: table[:, 1] >= 8)
    outer, inner = sch.split(loop, factors)
    sch.constrain([factors[0]], lambda outer: outer <= 2)
    sch.constrain_numbers([sch.get(inner).extent], lambda extent: extent <= 32)
    return [sch.largest_of(factor) for factor in factors]


def test_open_decisions_are_narrowed() -> None:
    sch = SketchSchedule(matmul(64), seed=0)
    assert (
        narrowed(sch) == [8, 64] and sch.has_candidates()
    )  # constraints join several decisions, and are no part of one's range
    rows = Sketch(sch).all_rows(100)
    assert rows is not None and len(rows) == 1  # 2 * 32
    sch.constrain([], lambda: np.zeros(1, dtype=bool))
    assert not sch.has_candidates()


@pytest.mark.parametrize("seed", range(4))
def test_what_was_drawn_stays(seed: int) -> None:
    sch, alike = Schedule(matmul(64), seed=seed), Schedule(matmul(64), seed=seed)
    drawn = [int(alike.get(factor)) for factor in alike.sample_perfect_tile(alike.get_loops("C")[0], 2, 64)]
    assert narrowed(sch) == drawn and sch.has_candidates()
    assert [sch.get(loop).extent.value for loop in sch.get_loops("C")[:2]] == drawn
