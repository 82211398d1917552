"""Skeletons: what is taken of them, how accesses that move alike are counted, and which nests are but the last step of others."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.population.extraction import Extraction
from schedules.population.skeleton import Nest, Skeleton
from schedules.space import PostOrderApply
from schedules.tree import tree_of
from tests.programs.expressions import matmul

GPU = Target("nvidia/nvidia-a100")


def skeleton_of(func: PrimFunc) -> Skeleton:
    return Extraction(tree_of(func.body)).evaluate({}, 1)


def assert_same_nest(found: Nest, expected: Nest) -> None:
    for loop, other in zip(found.loops, expected.loops, strict=True):
        assert (loop.mark, loop.is_reduction) == (other.mark, other.is_reduction)
        np.testing.assert_array_equal(loop.extent, other.extent)
    assert (found.shared_out is None) == (expected.shared_out is None)
    if found.shared_out is not None:
        np.testing.assert_array_equal(found.shared_out, expected.shared_out)
    for access, same in zip(found.accesses, expected.accesses, strict=True):
        assert (access.buffer, access.is_write, access.count) == (same.buffer, same.is_write, same.count)
        for item in ("strides", "reach", "warp", "held"):
            np.testing.assert_array_equal(getattr(access, item), getattr(same, item), err_msg=item)
        np.testing.assert_array_equal(access.shape, same.shape)


def test_taking_candidates_is_extracting_them_alone() -> None:
    """Of a GPU's, too, with what the threads of a warp access and how copies are shared out."""
    (sketch,) = PostOrderApply().generate_sketches(matmul(64), GPU)
    rows = sketch.sample(12, np.random.default_rng(0))
    whole, chosen = sketch.skeleton(rows), np.array([7, 0, 7, 3])
    taken, alone = whole.take(chosen), sketch.skeleton(rows[chosen])
    assert taken.size == 4
    warps = [access.warp for nest in taken.nests for access in nest.accesses]
    assert any(warp is not None and warp.any() for warp in warps)
    assert any(nest.shared_out is not None for nest in taken.nests)
    for found, expected in zip(taken.nests, alone.nests, strict=True):
        assert_same_nest(found, expected)


def test_accesses_that_move_alike_are_one_with_the_count_of_all() -> None:
    """Also where their indices do not look alike."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((96,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] + A[v + 3] + A[v * 2 - v + 7] + A[95 - v]
""")
    (nest,) = skeleton_of(func).nests
    reads = {int(access.strides[0, 0]): access.count for access in nest.accesses if not access.is_write}
    assert reads == {1: 3, -1: 1}


@pytest.mark.parametrize(("beside", "names"), [(True, ["B"]), (False, ["B", "C"])])
def test_what_runs_where_numbers_of_the_data_are_equal_is_rare_beside_others(
    beside: bool, names: list[str]
) -> None:
    """Alone in its loops it is what these are for."""
    apart = "" if beside else "for j in range(8):"
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.float32(1)
        {apart or "if True:"}
            if A[i] == 8:
                with T.block("C"):
                    v = T.axis.spatial(8, i)
                    C[v] = T.float32(2)
""")
    assert [nest.name for nest in skeleton_of(func).nests] == names


@pytest.mark.parametrize(
    ("scope", "mark", "is_last"),
    [("local", "unroll", True), ("local", "serial", False), ("global", "unroll", False)],
)
def test_a_last_step_adds_up_registers_in_straight_line_code(scope: str, mark: str, is_last: bool) -> None:
    data = te.placeholder((16, 8), name="A")
    parts = te.compute((16, 8), lambda i, lane: data[i, lane] * 2.0, name="parts")
    lane = te.reduce_axis((0, 8), name="lane")
    sums = te.compute((16,), lambda i: te.sum(parts[i, lane], axis=lane), name="sums")
    sch = Schedule(te.create_prim_func([data, sums]))
    row, lanes = sch.get_loops("sums")
    if mark == "unroll":
        sch.unroll(lanes)
    sch.compute_at("parts", row)
    if scope != "global":
        sch.set_scope("parts", 0, scope)
    assert [nest.is_last_step for nest in skeleton_of(sch.mod["main"]).nests] == [False, is_last]
