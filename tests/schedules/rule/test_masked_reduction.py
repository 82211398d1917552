"""MaskedReduction: which reductions it finds, what it expects to be left, and that candidates are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import IRModule, te
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from runners.native import build_native
from schedules import Schedule
from schedules.annotation import SKIP_MASKED
from schedules.postproc import postprocess
from schedules.rule import MaskedReduction, ScheduleRule
from schedules.space import PostOrderApply

from ..checks import assert_replays
from ..rule_contract import RuleContract

ONE_CORE = Target("llvm -mcpu=x86-64-v3 -num-cores 1")


class TestMaskedReduction(RuleContract):
    def rule(self) -> ScheduleRule:
        return MaskedReduction()


def triangle(hidden: float = 0.0, guarded: bool = True, rows: int = 32) -> PrimFunc:
    """Block ``C``: a lower triangle times a matrix; where only the triangle is ``guarded``, hidden elements are 0 times the matrix."""
    a, b = te.placeholder((rows, 32), "float32", name="A"), te.placeholder((32, 16), "float32", name="B")
    k = te.reduce_axis((0, 32), "k")

    def term(i: Any, j: Any) -> Any:
        product = a[i, k] * b[k, j]
        return te.if_then_else(k <= i, product if guarded else a[i, k], hidden) * (
            1.0 if guarded else b[k, j]
        )

    c = te.compute((rows, 16), lambda i, j: te.sum(term(i, j), axis=k), name="C")
    return te.create_prim_func([a, b, c])


def offers(func: PrimFunc, size: int | None = 8) -> list[Schedule]:
    """What the rule offers for the block with its reduction in tiles of a size."""
    sch = Schedule(func, seed=0)
    if size is not None:
        sch.split(sch.get_loops("C")[-1], [None, size])
    return MaskedReduction().offers(sch, sch.get_block("C"))


def marks(sch: Any) -> bool:
    """Whether hidden tiles are to be left out."""
    return any(inst.kind.name == "Annotate" and SKIP_MASKED in inst.attrs for inst in sch.trace.insts)


def test_a_product_with_a_triangle_is_offered_without_its_hidden_half() -> None:
    marked, plain = offers(triangle())
    assert marks(marked) and not marks(plain)
    assert marked._loop(marked.get_loops("C")[2]).annotations == {SKIP_MASKED: 52}  # 33 of 64


@pytest.mark.parametrize(
    ("func", "size"),
    [
        (triangle(), None),  # there are no tiles
        (triangle(1.0), 8),  # hidden elements count
        (triangle(guarded=False), 8),  # 0 times infinity does
        (
            te.create_prim_func(
                [te.placeholder((4, 4), name="A"), te.compute((4, 4), lambda i, j: i + j, name="C")]
            ),
            None,
        ),
    ],
)
def test_others_stay_as_they_are(func: PrimFunc, size: int | None) -> None:
    (only,) = offers(func, size)
    assert not marks(only)


PARAMETER = """@T.prim_func
def main(A: T.Buffer((32, 32), "float32"), n: T.int32, C: T.Buffer((32,), "float32")):
    for i, k in T.grid(32, 32):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + T.if_then_else(vk <= vi + n, A[vi, vk], T.float32(0))
"""


def test_of_a_mask_that_a_parameter_moves_nobody_knows_how_much_it_hides() -> None:
    (only,) = offers(from_source(PARAMETER))
    assert not marks(only)
    assert PostOrderApply().generate_sketches(from_source(PARAMETER), ONE_CORE)


def test_candidates_take_no_notice_of_what_is_hidden() -> None:
    """By numpy, with all other rules before and behind it; the last rows of the matrix are for the last rows of the triangle alone."""
    func = triangle(rows=32)
    mod = IRModule({"main": func})
    generator = np.random.default_rng(0)
    a, b = (
        generator.standard_normal((32, 32)).astype("float32"),
        generator.standard_normal((32, 16)).astype("float32"),
    )
    clean = np.tril(a) @ b
    a[np.triu_indices(32, 1)] = np.nan
    b[28:] = np.inf
    sketches = [item for item in PostOrderApply().generate_sketches(mod, ONE_CORE) if marks(item)]
    assert sketches
    skipping = 0
    for sketch in sketches:
        for row in sketch.sample(3, generator):
            sch = sketch.materialize(mod, row)
            assert_replays(sch, func)
            assert postprocess(sch, ONE_CORE)
            skipping += any(inst.kind.name == "SkipMasked" for inst in sch.trace.insts)  # type: ignore[union-attr]
            found = np.full((32, 16), 7, "float32")
            build_native(sch.mod, "llvm")(a, b, found)
            np.testing.assert_allclose(found[:28], clean[:28], rtol=1e-5, atol=1e-5)
            assert not np.isfinite(found[28:]).any()
    assert skipping > 0
