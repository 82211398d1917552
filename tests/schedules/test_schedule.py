"""Schedule itself: finding blocks, random variables, copies, sampling, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import IRModule, structural_equal
from ir.script import from_source
from ir.script import tir as T
from schedules import Schedule, ScheduleError, declaration
from schedules.population.sketch import SketchSchedule
from tests.programs import kernels

from .checks import assert_refused, assert_replays


@T.prim_func
def chain(A: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((16, 16))
    C = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(16, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + C[vi, vj]


def names(sch: Schedule, blocks: list[object]) -> list[str]:
    return [sch.get(block).name_hint for block in blocks]


def test_finding_blocks() -> None:
    sch = Schedule(chain)
    root = sch.get_block("root")
    assert names(sch, sch.get_child_blocks(root)) == ["B", "C", "D"]
    assert names(sch, sch.get_producers("D")) == ["B", "C"]
    assert names(sch, sch.get_consumers(sch.get_block("B"))) == ["D"]
    assert names(sch, sch.get_output_blocks(root)) == ["D"]
    assert names(sch, sch.get_child_blocks(sch.get_loops("C")[0])) == ["C"]
    assert [sch.get(loop).extent.value for loop in sch.get_loops("D")] == [16, 16]
    assert sch.get_producers("B") == []
    assert_replays(sch, chain)


def test_a_look_changes_nothing() -> None:
    """Also where a function has no root block, and gets one as soon as a step puts something there."""

    @T.prim_func
    def bare(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = A[i] + T.float32(1)

    sch = Schedule(bare)
    sch.get_child_blocks(sch.get_block("root"))
    assert sch.mod["main"] is bare
    sch.annotate(sch.get_block("root"), "note", 1)
    assert sch.get(sch.get_block("root")).annotations == {"note": 1}
    assert sch.mod["main"] is not bare


def test_several_functions() -> None:
    mod = IRModule({"first": chain, "second": chain})
    sch = Schedule(mod)
    assert_refused(sch, lambda: sch.get_block("B"), "work_on", "first", "second")
    loop = sch.get_loops(sch.get_block("B", func_name="second"))[0]
    sch.split(loop, [None, 4])
    assert sch.mod["first"] is mod["first"]
    assert sch.mod["second"] is not mod["second"]
    sch.work_on("first")
    assert [sch.get(loop).extent.value for loop in sch.get_loops(sch.get_block("B"))] == [16, 16]
    assert_refused(sch, lambda: sch.get_block("X"), "no block named 'X'", "'first'", "'B'")


def test_copies_are_independent_and_share_random_variables() -> None:
    sch = Schedule(chain, seed=1)
    loop = sch.get_loops("B")[0]
    copy = sch.copy()
    copy.split(loop, [None, 4])
    assert [sch.get(item).extent.value for item in sch.get_loops("B")] == [16, 16]
    sch.parallel(loop)
    assert "parallel" not in copy.mod.script()
    assert_replays(copy, chain)


def test_same_seed_same_decisions() -> None:
    def decisions(seed: int) -> list[object]:
        sch = Schedule(chain, seed=seed)
        loop = sch.get_loops("B")[0]
        tile = [sch.get(item) for item in sch.sample_perfect_tile(loop, 3, 8)]
        part = [sch.get(item) for item in sch.sample_partitioned_tile(loop, 3, 1, 4)]
        return [tile, part, sch.get(sch.sample_categorical([1, 2, 3], [0.2, 0.3, 0.5]))]

    assert decisions(3) == decisions(3)
    assert len({str(decisions(seed)) for seed in range(8)}) > 1


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 16), st.integers(0, 1000))
def test_sampled_tiles_are_factorizations(n: int, limit: int, seed: int) -> None:
    sch = Schedule(chain, seed=seed)
    loop = sch.get_loops("B")[0]
    tile = [sch.get(item) for item in sch.sample_perfect_tile(loop, n, limit)]
    assert np.prod(tile) == 16
    assert n == 1 or tile[-1] <= limit
    assert_replays(sch, chain)


@settings(max_examples=30)
@given(st.integers(2, 4), st.sampled_from([1, 2, 4, 8]), st.data())
def test_partitioned_tiles_respect_their_factor(n: int, factor: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, n - 1))
    sch = Schedule(chain, seed=data.draw(st.integers(0, 99)))
    tile = [sch.get(item) for item in sch.sample_partitioned_tile(sch.get_loops("B")[0], n, position, factor)]
    assert np.prod(tile) == 16 and np.prod(tile[position:]) % factor == 0
    assert_replays(sch, chain)


@pytest.mark.parametrize("kind", [Schedule, SketchSchedule])
@pytest.mark.parametrize(
    ("candidates", "probs", "says"),
    [
        ([1, 2], [1.0], "got 2 candidates and 1 probabilities"),
        ([], [], "got 0 candidates"),
        (["a", "b"], [0.5, 0.5], "candidates are integers, got ['a']; sample the positions"),
        ([1, 1.5], [0.5, 0.5], "candidates are integers, got [1.5]"),
        ([1, 2], [1.5, -0.5], "probabilities are numbers of at least 0, one of them larger, got [1.5, -0.5]"),
        ([1, 2], [0.0, 0.0], "got [0.0, 0.0]"),
        ([1, 2], [float("nan"), 1.0], "got [nan, 1.0]"),
        ([1], ["often"], "got ['often']"),
    ],
)
def test_refused_choices(kind: type[Schedule], candidates: list[Any], probs: list[Any], says: str) -> None:
    sch = kind(chain)
    assert_refused(sch, lambda: sch.sample_categorical(candidates, probs), "sample_categorical: ", says)


def test_refused_samples() -> None:
    sch = Schedule(chain)
    loop = sch.get_loops("B")[0]
    assert_refused(sch, lambda: sch.sample_categorical([1, 2], [0.5, 0.5], decision=2), "decision 2")
    assert_refused(sch, lambda: sch.sample_perfect_tile(loop, 0), "at least 1")
    assert_refused(
        sch, lambda: sch.sample_perfect_tile(loop, 2, decision=[1, 2, 8]), "3 factors", "expected 2"
    )
    assert_refused(sch, lambda: sch.sample_partitioned_tile(loop, 2, 0, 3), "no multiple of 3")


def test_decisions_for_another_extent_are_fitted() -> None:
    sch = Schedule(chain)
    tile = [sch.get(item) for item in sch.sample_perfect_tile(sch.get_loops("B")[0], 3, decision=[1, 5, 3])]
    assert tile == [2, 4, 2]  # the nearest that multiply to 16


def test_sampled_numbers_in_expressions() -> None:
    sch = Schedule(chain)
    loop = sch.get_loops("B")[0]
    _, inner = sch.sample_perfect_tile(loop, 2, decision=[4, 4])
    sch.split(loop, [None, inner * 2])
    assert [sch.get(item).extent.value for item in sch.get_loops("B")] == [2, 8, 16]
    assert_replays(sch, chain)


def test_removed_random_variables_and_error_levels() -> None:
    sch = Schedule(chain, error_render_level="none")
    loop = sch.get_loops("B")[0]
    sch.remove_rv(loop)
    with pytest.raises(ScheduleError, match="get it anew"):
        sch.parallel(loop)
    with pytest.raises(ScheduleError, match="error_render_level"):
        Schedule(chain, error_render_level="loud")
    detailed = Schedule(chain)
    detailed.get_block("B")
    with pytest.raises(ScheduleError) as caught:
        detailed.get_block("X")
    assert "B" in str(caught.value)


def test_debug_mode_verifies_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    sch = Schedule(chain, debug_mask="all")
    sch.split(sch.get_loops("B")[0], [None, 3])
    sch.compute_inline("C")
    monkeypatch.setattr(
        declaration, "verify_well_formed", lambda func, assert_mode: "vectorized" not in func.script()
    )
    sch.unroll(sch.get_loops("B")[0])
    with pytest.raises(ScheduleError, match="Vectorize left function 'main' malformed"):
        sch.vectorize(sch.get_loops("D")[-1])
    careless = Schedule(chain)
    careless.vectorize(careless.get_loops("D")[-1])


@pytest.mark.parametrize("program", [None, 42, "main", [], {}])
def test_what_is_no_program_is_refused(program: Any) -> None:
    with pytest.raises(TypeError, match="of an IRModule or a PrimFunc, got "):
        Schedule(program)


def test_what_a_schedule_prints_parses_whatever_its_function_is_called() -> None:
    sch = Schedule(from_source(kernels.chain().script().replace("def main", "def other")))
    found = from_source(sch.mod.script())
    assert found["main"].attrs["global_symbol"] == "other"
    assert structural_equal(found, sch.mod)
