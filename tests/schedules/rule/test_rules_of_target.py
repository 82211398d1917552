"""Rules that depend on the target, in lists that have a name."""

from __future__ import annotations

from typing import Any

import pytest

from ir import IRModule, te
from ir.kinds import Kinds
from ir.target import Target
from ir.tir import PrimFunc
from schedules.mutator import Mutator
from schedules.postproc import Postproc
from schedules.rule.base import ScheduleRule
from schedules.space import PostOrderApply

T4, A100 = "nvidia/nvidia-t4", "nvidia/nvidia-a100"


def product() -> PrimFunc:
    """A product of float16, summed in float32, and what is made of it."""
    x, y = te.placeholder((64, 64), "float16", "x"), te.placeholder((64, 64), "float16", "y")
    k = te.reduce_axis((0, 64), "k")
    z = te.compute(
        (64, 64), lambda i, j: te.sum(x[i, k].astype("float32") * y[k, j].astype("float32"), axis=k), name="z"
    )
    return te.create_prim_func([x, y, te.compute((64, 64), lambda i, j: z[i, j] * 2.0, name="twice")])


def names_of(kinds: Kinds[Any]) -> set[str]:
    """Those of this package: tests register others."""
    return {name for name in kinds.names() if kinds[name].__module__.startswith("schedules.")}


def traces(target: str, **options: Any) -> list[str]:
    sketches = PostOrderApply(**options).generate_sketches(IRModule({"main": product()}), Target(target))
    return sorted(str(item.trace) for item in sketches)


def test_rules_postprocessors_and_mutators_have_the_same_names() -> None:
    assert "cuda-tensorcore" in names_of(ScheduleRule.defaults)
    assert names_of(ScheduleRule.defaults) == names_of(Postproc.defaults) == names_of(Mutator.defaults)


@pytest.mark.parametrize("target", [T4, A100])
def test_the_space_of_a_target_is_that_of_its_name(target: str) -> None:
    by_name = traces(target, sch_rules="cuda-tensorcore")
    assert by_name == traces(target)
    plain = traces(target, sch_rules="cuda")
    assert set(plain) < set(by_name)
    assert not any("auto_tensorize" in trace for trace in plain)
