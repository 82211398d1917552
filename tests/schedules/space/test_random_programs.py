"""A new operator needs no rule: random tensor programs have spaces, whose candidates are valid, right and described by arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from ir.target import Target
from ir.tir import PrimFunc
from schedules.postproc import postprocess
from schedules.space import PostOrderApply
from tests.programs.random_expressions import programs

from ..checks import assert_same_meaning
from ..population.test_population import assert_arrays_equal_programs

TARGET = Target("llvm -mcpu=x86-64-v3 -num-cores 2")
HANDFUL = 5


@settings(max_examples=10, deadline=None)
@given(programs())
def test_every_program_has_a_space_of_valid_candidates(func: PrimFunc) -> None:
    sketches = PostOrderApply(max_sketches=6).generate_sketches(func, TARGET)
    assert sum(sketch.size() for sketch in sketches) > HANDFUL
    for sketch in sketches:
        rows = sketch.sample(2, np.random.default_rng(0))
        assert len(rows)
        assert_arrays_equal_programs(func, sketch, rows)
        for number, row in enumerate(rows):
            sch = sketch.materialize(func, row)
            assert postprocess(sch, TARGET)
            if number == 0:
                assert_same_meaning(func, sch)
