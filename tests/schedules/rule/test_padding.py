"""Padded extents: which are chosen, that populations stay exact, and that kernels with cut tiles compute the same."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.operators import suite
from ir import IRModule
from ir.node import post_order_visit
from ir.target import Target
from ir.tir import IfThenElse, PrimFunc
from ir.tir.lower import lower
from runners.kernel import pack_arguments
from runners.native import build_native
from schedules import Schedule, Trace
from schedules.block_facts import node_of
from schedules.layout_rewrite import split_module
from schedules.population import Extraction, Sketch
from schedules.postproc import postprocess
from schedules.rule import RegisterTiling
from schedules.rule.padding import RegisterFile, choose_padding
from schedules.space import PostOrderApply
from schedules.tree import child_blocks

from ..population.test_population import assert_same_nest

TARGET = Target("llvm -mcpu=skylake-avx512 -num-cores 2")


def chosen(name: str, shape: tuple[int, ...], max_padding: float = 0.1) -> dict[str, int]:
    """Padded extents of the block with reuse, where they are worth it."""
    sch = Schedule(suite.workload(name, shape))
    func = sch.func_working_on
    assert func is not None
    block = next(item.name for item in child_blocks(sch._root(func)) if item.init is not None)
    node = node_of(sch, sch.get_block(block))
    vector = RegisterTiling()._vector_axis(node)
    padding, gain = choose_padding(node, vector, RegisterFile(16, 32), max_padding)
    return {var.name.removeprefix("v_"): extent for var, extent in padding.items()} if gain > 1.04 else {}


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("GMM", (1, 197, 768, 768), {"i": 198}),
        ("GMM", (1, 1000, 1000, 64), {"j": 1008}),
        ("GMM", (1, 197, 197, 64), {"i": 198, "j": 208}),
        ("GMM", (1, 1024, 1024, 1024), {}),
        ("GMM", (1, 13, 768, 768), {}),
        ("C2D", (1, 14, 14, 64, 64, 3, 1, 1), {}),
        ("C2D", (1, 7, 7, 64, 7, 3, 1, 1), {"ff": 16}),
        # a group is no box of tiles that run past the last channel
        ("GRP", (1, 8, 8, 8, 18, 3, 1, 1, 1, 2), {}),
    ],
)
def test_the_extent_with_a_good_register_tile(
    name: str, shape: tuple[int, ...], expected: dict[str, int]
) -> None:
    assert chosen(name, shape) == expected


def test_padding_can_be_switched_off() -> None:
    assert chosen("GMM", (1, 197, 768, 768), max_padding=0) == {}
    func = suite.workload("GMM", (1, 197, 197, 64))
    plain = PostOrderApply(sch_rules=[RegisterTiling(max_padding=0)]).generate_sketches(func, TARGET)
    assert all(getattr(item, "extent", 0) in (197, 64) for sketch in plain for item in sketch.decisions)
    padded = PostOrderApply(sch_rules=[RegisterTiling()]).generate_sketches(func, TARGET)
    assert {getattr(item, "extent", 0) for sketch in padded for item in sketch.decisions} == {198, 208, 64}


def guards(func: PrimFunc) -> int:
    """How many branches there are in a function."""
    found: list[object] = []
    post_order_visit(func.body, lambda node: found.append(node) if isinstance(node, IfThenElse) else None)
    return len(found)


def test_only_the_choice_between_tiles_is_left_of_the_predicates() -> None:
    func = suite.workload("GMM", (1, 197, 200, 64))
    sketch = PostOrderApply(sch_rules=[RegisterTiling(pack_operands=False)]).generate_sketches(func, TARGET)[
        0
    ]
    generator = np.random.default_rng(0)
    for row in sketch.sample(4, generator):
        sch = sketch.materialize(func, row)
        assert postprocess(sch, TARGET)
        lowered = lower(sch.mod)["main"]
        assert isinstance(lowered, PrimFunc)
        assert guards(lowered) <= 2


def run(func: PrimFunc, sketch: Sketch, row: np.ndarray, arrays: list[np.ndarray]) -> np.ndarray:
    """The output of one candidate, built for this machine, weights packed where it asks for that."""
    made = sketch.materialize(func, row)
    assert postprocess(made, TARGET)
    assert made.trace is not None
    sch = Schedule(func)
    Trace.apply_json_to_schedule(json.loads(json.dumps(made.trace.as_json())), sch)  # as from a database
    mod = split_module(sch.mod)
    kernel = mod["main"]
    assert isinstance(kernel, PrimFunc)
    packed = pack_arguments(mod, arrays)
    buffer = kernel.buffer_map[kernel.params[len(arrays)]]
    out = np.full([int(item.value) for item in buffer.shape], np.nan, "float32")
    build_native(IRModule({"main": kernel}), Target("cpu")).bind(*packed, out)()
    return out


odd = st.integers(3, 37)
small = st.integers(3, 9)
SHAPES = st.one_of(
    st.tuples(st.just("GMM"), st.tuples(st.integers(1, 3), odd, odd, small)),
    st.tuples(st.just("C1D"), st.tuples(st.just(1), odd, small, odd, *map(st.sampled_from, ((1, 3), (1, 2), (0, 1))))),
    st.tuples(
        st.sampled_from(("C2D", "CBR")),
        st.tuples(
            st.just(1), st.integers(5, 19), st.integers(5, 19), small, odd, st.just(3), st.integers(1, 2), st.integers(0, 1)
        ),
    ),
    st.tuples(st.just("DIL"), st.tuples(st.just(1), *[st.integers(8, 19)] * 2, small, odd, *map(st.just, (3, 1, 1, 2)))),
    st.tuples(st.just("C3D"), st.tuples(st.just(1), *[st.integers(3, 7)] * 3, st.just(3), odd, *map(st.just, (3, 1, 1)))),
    st.tuples(st.just("DEP"), st.tuples(st.just(1), *[st.integers(5, 19)] * 2, odd, st.just(3), st.integers(1, 2), st.just(1))),
    st.tuples(st.just("T2D"), st.tuples(st.just(1), small, small, small, odd, *map(st.just, (4, 2, 1)))),
)  # fmt: skip


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(case=SHAPES, constant_weight=st.booleans(), seed=st.integers(0, 1000))
def test_odd_extents(case: tuple[str, tuple[int, ...]], constant_weight: bool, seed: int) -> None:
    name, shape = case
    func = suite.workload(name, shape)
    if constant_weight:
        func = func.with_attr("layout_free_buffers", [1])
    generator = np.random.default_rng(seed)
    sketches = PostOrderApply().generate_sketches(func, TARGET)
    sketch = sketches[seed % len(sketches)]
    rows = sketch.sample(4, generator)
    assert len(rows)
    skeleton = sketch.skeleton(rows)
    for position, row in enumerate(rows):
        sch = sketch.materialize(func, row)
        working_on = sch.func_working_on
        assert working_on is not None
        expected = Extraction(sch._root(working_on)).evaluate({}, 1)
        for nest, other in zip(skeleton.nests, expected.nests, strict=True):
            assert_same_nest(nest, position, other)
    arrays = suite.inputs(name, shape, integers=True)
    found, wanted = run(func, sketch, rows[0], arrays), suite.reference(name, arrays, shape)
    if name == "CBR" or any(inst.kind.name == "Winograd" for inst in sketch.trace.insts):  # they divide
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    else:
        np.testing.assert_array_equal(found, wanted)
