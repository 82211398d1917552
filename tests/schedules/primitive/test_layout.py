"""transform_layout, transform_block_layout, set_scope, storage_align, set_axis_separator, unsafe_set_dtype."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.script import tir as T
from ir.tir import IndexMap
from schedules import Schedule, ScheduleError
from schedules.tree import LeafNode, all_blocks
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning, main_of

chain = kernels.chain(8, 8)


def test_transform_layout_that_moves_the_only_row() -> None:
    """The index of an axis of one element is a number; the block that stores it runs over the new layout all the same."""
    program = kernels.chain(1, 3)
    sch = Schedule(program)
    sch.transform_layout("B", ("write", 0), lambda i, j: (i + 4, j), pad_value=0.0)
    assert_same_meaning(program, sch)
    assert_replays(sch, program)


def test_transform_layout_of_an_intermediate() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        B = T.alloc_buffer((2, 2, 4, 4))
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi // 4, vj // 4, vi % 4, vj % 4] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi // 4, vj // 4, vi % 4, vj % 4] + T.float32(1)

    for buffer in ("B", ("write", 0)):
        sch = Schedule(chain)
        sch.transform_layout("B", buffer, lambda i, j: (i // 4, j // 4, i % 4, j % 4))
        assert_program(sch, expected)
        assert_same_meaning(chain, sch)
        assert_replays(sch, chain)


def test_transform_layout_of_a_parameter_changes_the_signature() -> None:
    sch = Schedule(chain)
    sch.transform_layout("C", ("write", 0), lambda i, j: (j, i))
    func = main_of(sch)
    assert [func.buffer_map[param].name for param in func.params] == ["A", "C"]
    assert "C[vj, vi] = " in func.script()
    assert_replays(sch, chain)


def test_transform_layout_refusals() -> None:
    sch = Schedule(chain)
    assert_refused(
        sch, lambda: sch.transform_layout("B", ("write", 1), lambda i, j: (j, i)), "transform_layout", "'B'"
    )
    assert_refused(
        sch, lambda: sch.transform_layout("B", ("write", 0), lambda i: i), "1 indices", "2 dimensions"
    )
    assert_refused(
        sch, lambda: sch.transform_layout("B", ("write", 0), lambda i, j: (i // 3, i % 3, j)), "pad_value"
    )
    assert_refused(sch, lambda: sch.transform_layout("B", "X", lambda i, j: (j, i)), "'X'")
    assert_refused(
        sch, lambda: sch.transform_layout("B", ("write", 0), lambda i, j: (i, i)), "transform_layout"
    )


def test_transform_layout_of_what_is_computed_by_element_runs_over_the_padding_too() -> None:
    @T.prim_func
    def before(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
        B = T.alloc_buffer((7,))
        for i in range(7):
            with T.block("B"):
                vi = T.axis.spatial(7, i)
                B[vi] = A[vi]
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi] = B[vi]

    sch = Schedule(before)
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=0.0)

    @T.prim_func
    def expected(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
        B = T.alloc_buffer((2, 4))
        for a, b in T.grid(2, 4):
            with T.block("B"):
                va, vb = T.axis.remap("SS", [a, b])
                T.reads(A[va * 4 + vb])
                T.writes(B[va, vb])
                B[va, vb] = T.if_then_else(va == 1 and vb == 3, T.float32(0), A[va * 4 + vb])
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi] = B[vi // 4, vi % 4]

    assert_program(sch, expected)
    assert [loop.loop_var.name for loop in map(sch.get, sch.get_loops("B"))] == ["axis0", "axis1"]
    assert_same_meaning(before, sch)
    assert_replays(sch, before)


def test_transform_layout_fills_the_padding_behind_other_writers() -> None:
    @T.prim_func
    def before(A: T.Buffer((7,), "int32"), C: T.Buffer((7,), "int32")):
        B = T.alloc_buffer((7,), "int32")
        for i in range(7):
            with T.block("B"):
                vi = T.axis.spatial(7, i)
                B[6 - vi] = A[vi]
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi] = B[vi]

    @T.prim_func
    def expected(A: T.Buffer((7,), "int32"), C: T.Buffer((7,), "int32")):
        B = T.alloc_buffer((2, 4), "int32")
        for i in range(7):
            with T.block("B"):
                vi = T.axis.spatial(7, i)
                B[(6 - vi) // 4, (2 - vi) % 4] = A[vi]
        for a, b in T.grid(2, 4):
            with T.block("buffer_B_padding"):
                va, vb = T.axis.remap("SS", [a, b])
                T.where(a == 1 and b == 3)
                B[va, vb] = va + vb
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi] = B[vi // 4, vi % 4]

    sch = Schedule(before)
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=lambda a, b: a + b)
    assert_program(sch, expected)
    assert_same_meaning(before, sch)
    assert_replays(sch, before)


def test_transform_layout_assumes_the_padding_of_an_input() -> None:
    before = kernels.copy(7, "int32")

    @T.prim_func
    def expected(A: T.Buffer((2, 4), "int32"), B: T.Buffer((7,), "int32")):
        for a, b in T.grid(2, 4):
            with T.block("buffer_A_assumptions"):
                va, vb = T.axis.remap("SS", [a, b])
                T.reads(A[va, vb])
                T.writes()
                T.evaluate(T.assume(not (va == 1 and vb == 3) or A[va, vb] == 9))
        for i in range(7):
            with T.block("B"):
                vi = T.axis.spatial(7, i)
                B[vi] = A[vi // 4, vi % 4]

    sch = Schedule(before)
    sch.transform_layout("B", "A", lambda i: (i // 4, i % 4), pad_value=9)
    assert_program(sch, expected)
    assert_replays(sch, before)


def test_transform_layout_refuses_padding_of_another_dtype_or_from_another_buffer() -> None:
    before = kernels.copy(7)

    sch = Schedule(before)
    panels = lambda i: (i // 4, i % 4)
    source = sch.get(sch.get_block("B")).reads[0].buffer
    assert_refused(sch, lambda: sch.transform_layout("B", "B", panels), "pass pad_value")
    assert_refused(sch, lambda: sch.transform_layout("B", "B", panels, pad_value=0), "int32", "float32")
    assert_refused(
        sch,
        lambda: sch.transform_layout("B", "B", panels, pad_value=lambda a, b: source[a]),
        "pad_value reads buffer A",
    )


def test_transform_block_layout() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        B = T.alloc_buffer((8, 8))
        for ax0 in range(64):
            with T.block("B"):
                v0 = T.axis.spatial(64, ax0)
                B[v0 // 8, v0 % 8] = A[v0 // 8, v0 % 8] * T.float32(2)
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    sch = Schedule(chain)
    sch.transform_block_layout("B", lambda i, j: (i * 8 + j,))
    assert_program(sch, expected)
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)
    fresh = Schedule(chain)
    assert_refused(
        fresh,
        lambda: fresh.transform_block_layout("B", lambda i, j: (i + j,)),
        "transform_block_layout",
        "'B'",
    )
    fresh.split(fresh.get_loops("B")[0], [None, 3])
    assert_refused(fresh, lambda: fresh.transform_block_layout("B", lambda i, j: (j, i)), "'vi'")


def test_set_scope() -> None:
    sch = Schedule(chain)
    sch.set_scope("B", 0, "shared")
    assert sch.get(sch.get_block("C")).reads[0].buffer.scope() == "shared"
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)
    assert_refused(sch, lambda: sch.set_scope("C", 0, "shared"), "set_scope", "parameter")


def test_storage_align() -> None:
    sch = Schedule(chain)
    sch.storage_align("B", 0, axis=-2, factor=32, offset=8)
    assert sch.get(sch.get_block("B")).annotations["buffer_dim_align"] == ((0, 0, 32, 8),)
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)
    assert_refused(sch, lambda: sch.storage_align("B", 0, 2, 32, 8), "axis 2")
    assert_refused(sch, lambda: sch.storage_align("B", 0, 0, 0, 8), "factor")
    assert_refused(sch, lambda: sch.storage_align("C", 0, 0, 32, 8), "parameter")


def test_set_axis_separator() -> None:
    sch = Schedule(chain)
    sch.set_axis_separator("B", ("write", 0), [1])
    assert [int(item.value) for item in sch.get(sch.get_block("C")).reads[0].buffer.axis_separators] == [1]
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)
    assert_refused(sch, lambda: sch.set_axis_separator("B", ("write", 0), [3]), "separators")


def test_unsafe_set_dtype() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        B = T.alloc_buffer((8, 8), "float16")
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.Cast("float16", A[vi, vj] * T.float32(2))
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.Cast("float32", B[vi, vj]) + T.float32(1)

    sch = Schedule(chain)
    sch.unsafe_set_dtype("B", 0, "float16")
    assert_program(sch, expected)
    assert_replays(sch, chain)
    assert_refused(sch, lambda: sch.unsafe_set_dtype("C", 0, "float16"), "parameter")


def test_hide_buffer_access_and_reorder_block_iter_var() -> None:
    sch = Schedule(chain)
    block = sch.get_block("B")
    sch.reorder_block_iter_var(block, [1, 0])
    assert [item.var.name for item in sch.get(block).iter_vars] == ["vj", "vi"]
    assert_same_meaning(chain, sch)
    sch.unsafe_hide_buffer_access(block, "read", [0])
    assert sch.get(block).reads == ()
    assert_replays(sch, chain)
    assert_refused(sch, lambda: sch.reorder_block_iter_var(block, [0, 0]), "permutation", "'B'")
    assert_refused(sch, lambda: sch.unsafe_hide_buffer_access(block, "write", [1]), "no region 1")
    assert_refused(sch, lambda: sch.unsafe_hide_buffer_access(block, "both", [0]), "buf_type")


@settings(max_examples=20)
@given(st.data())
def test_random_layouts_keep_the_meaning(data: st.DataObject) -> None:
    maps = {
        "swap": lambda i, j: (j, i),
        "tile": lambda i, j: (i // 2, j // 4, i % 2, j % 4),
        "fuse": lambda i, j: (i * 8 + j,),
        "shuffle": lambda i, j: (j % 4, i, j // 4),
    }
    sch = Schedule(chain)
    for name in data.draw(st.permutations(["B", "C"])):
        chosen = maps[data.draw(st.sampled_from(sorted(maps)))]
        if data.draw(st.booleans()):
            sch.transform_block_layout(name, chosen)
    if data.draw(st.booleans()):
        sch.transform_layout("B", ("write", 0), maps[data.draw(st.sampled_from(sorted(maps)))])
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)


def test_index_map_given_with_its_inverse() -> None:
    index_map = IndexMap.from_func(lambda i, j: (j, i), 2, lambda a, b: (b, a), index_dtype="int32")
    sch = Schedule(chain)
    sch.transform_block_layout("B", index_map)
    assert_same_meaning(chain, sch)


@pytest.mark.parametrize("method", ["set_scope", "storage_align", "transform_layout"])
def test_unknown_blocks_are_named(method: str) -> None:
    sch = Schedule(chain)
    arguments = {
        "set_scope": (0, "local"),
        "storage_align": (0, 0, 1, 0),
        "transform_layout": (("read", 0), lambda i, j: (j, i)),
    }
    assert_refused(
        sch, lambda: getattr(sch, method)("nowhere", *arguments[method]), "'nowhere'", "'B'", "'C'"
    )


def test_transform_block_layout_into_a_larger_space_runs_nothing_in_the_gaps() -> None:
    before = kernels.elementwise(4, 13)

    sch = Schedule(before)
    sch.transform_block_layout("B", lambda i, j: (j // 4, i, j % 4))
    assert [sch.get(loop).extent.value for loop in sch.get_loops("B")] == [4, 4, 4]
    assert_same_meaning(before, sch)
    assert_replays(sch, before)


def test_transform_block_layout_of_a_block_with_a_condition() -> None:
    program = kernels.prefix_sums()
    sch = Schedule(program)
    sch.transform_block_layout("B", lambda i, j, k: (k, j, i))
    assert_same_meaning(program, sch)


def test_transform_block_layout_of_a_part_is_refused() -> None:
    sch = Schedule(kernels.copy(8))
    sch.loop_partition(sch.get_loops("B")[0], [3, None])
    name = [item.name for item in all_blocks(sch._root("main")) if isinstance(item.body, LeafNode)][-1]
    assert_refused(sch, lambda: sch.transform_block_layout(name, lambda i: (i,)), "count from zero")


def test_transform_block_layout_needs_variables() -> None:
    """A block without any may use the loops around it, which would be gone."""
    sch = Schedule(kernels.elementwise(1, 8))
    sch.loop_partition(sch.get_loops("B")[1], [3, None])
    assert_refused(
        sch, lambda: sch.transform_block_layout("B_j_common", lambda: ()), "no iteration variables"
    )


# -- maps that shift, leave gaps, or go below zero ----------------------------------
SHIFTED = """@T.prim_func
def main(A: T.Buffer((8, 6)), B: T.Buffer((8,))):
    T.func_attr({"tir.noalias": True})
    for i, k in T.grid(8, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""


@pytest.mark.parametrize(
    "index_map",
    [
        lambda i, k: (i + 2, k),
        lambda i, k: (9 - i, k),
        lambda i, k: ((i + 3) // 4, (i + 3) % 4, k),
        lambda i, k: (k // 4, k % 4, i),
    ],
)
def test_blocks_are_iterated_where_the_map_reaches(index_map: Any) -> None:
    """Each element is added once: points that the map does not reach are none of the block."""
    func = from_source(SHIFTED)
    sch = Schedule(func)
    sch.transform_block_layout("B", index_map)
    assert_same_meaning(func, sch)


def test_a_reduction_begins_at_zero() -> None:
    """There it is initialised."""
    sch = Schedule(from_source(SHIFTED))
    with pytest.raises(ScheduleError, match="first iteration of the reduction"):
        sch.transform_block_layout("B", lambda i, k: (i, k + 1))


def test_maps_below_zero_are_refused() -> None:
    sch = Schedule(from_source(SHIFTED))
    with pytest.raises(ScheduleError, match="may be negative"):
        sch.transform_block_layout("B", lambda i, k: (i - 1, k))
    with pytest.raises(ScheduleError, match="may be negative"):
        sch.transform_layout("B", ("write", 0), lambda i: (3 - i,))


def test_a_shifted_layout_has_padding_in_front() -> None:
    sch = Schedule(from_source(SHIFTED))
    with pytest.raises(ScheduleError, match="leaves gaps"):
        sch.transform_layout("B", ("write", 0), lambda i: (i + 2,))


def test_views_have_no_separators_of_their_own() -> None:
    @T.prim_func
    def program(A: T.Buffer((3, 8), "float32"), C: T.Buffer((3, 8), "float32")):
        for i in range(3):
            with T.block("C"):
                vi = T.axis.spatial(3, i)
                T.reads(A[vi, 0:8])
                T.writes(C[vi, 0:8])
                row = T.match_buffer(C[vi, 0:8], (8,), "float32", offset_factor=0)
                for j in range(8):
                    with T.block("D"):
                        vj = T.axis.spatial(8, j)
                        row[vj] = A[vi, vj]

    sch = Schedule(program)
    assert_refused(
        sch, lambda: sch.set_axis_separator("D", ("write", 0), [1]), "buffer row is neither allocated"
    )


def test_vectors_views_and_pointers_have_no_other_layout() -> None:
    """A map of indices says what becomes of an access to one element, and of nothing else."""
    text = """@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    B = T.alloc_buffer((4, 8), "int32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            BODY
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"""
    bodies = {
        "B[vi, T.Ramp(0, 1, 8)] = A[vi, T.Ramp(0, 1, 8)]": "by vectors",
        "row = T.match_buffer(B[vi, 0:8], (8,), 'int32')\n            row[0] = 1": "by a view",
        "T.evaluate(T.call_extern('int32', 'fill', B.data))": "by its pointer",
    }
    for body, reason in bodies.items():
        sch = Schedule(from_source(text.replace("BODY", body)), error_render_level="none")
        assert_refused(
            sch,
            lambda sch=sch: sch.transform_layout("B", ("write", 0), lambda i, j: (j, i)),
            f"buffer B is accessed {reason}",
        )
    sch = Schedule(from_source(text.replace("BODY", list(bodies)[1])), error_render_level="none")
    assert_refused(sch, lambda: sch.unsafe_set_dtype("B", 0, "int64"), "buffer B is accessed by a view")


def test_conditions_around_inner_blocks_change_with_the_variables_of_the_block() -> None:
    program = from_source(
        """@T.prim_func
def main(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8, 4), "int32")):
    for i, j in T.grid(8, 1):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, 0:4])
            T.writes(C[vi, 0:4])
            if vi < 3:
                for k in range(4):
                    with T.block("D"):
                        vk = T.axis.spatial(4, k)
                        C[vi, vk] = A[vi, vk]
"""
    )
    sch = Schedule(program)
    sch.transform_block_layout("C", lambda i, j: (7 - i,))
    assert_same_meaning(program, sch)


def test_padding_is_not_stored_by_a_store_under_a_predicate() -> None:
    """Such a store leaves elements as they are, and the padding is stored behind it."""
    program = from_source(
        """@T.prim_func
def main(A: T.Buffer((6,), "int32"), C: T.Buffer((6,), "int32")):
    B = T.alloc_buffer((6,), "int32")
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            T.reads(A[vi])
            T.writes(B[vi])
            B.vstore([vi], A[vi], predicate=vi < 4)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]
"""
    )
    sch = Schedule(program)
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=0)
    assert_same_meaning(program, sch)
    assert "predicate=" in sch.mod["main"].script()


@pytest.mark.parametrize("index_map", [lambda i: 9 - i, lambda i: [i % 3, i // 3]])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_scan_runs_in_its_own_order(index_map: Any, rows: int) -> None:
    """Its elements depend on those before: no loops over the new layout run it, and the padding is stored behind it."""
    program = from_source(f"""@T.prim_func
def main(A: T.Buffer(({rows}, 4), "int32"), D: T.Buffer((4,), "int32")):
    C = T.alloc_buffer((4,), "int32")
    for i, j in T.grid({rows}, 4):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj] = A[vi, vj] + T.if_then_else(vj > 0, C[vj - 1], 1)
    for j in range(4):
        with T.block("D"):
            vj = T.axis.spatial(4, j)
            D[vj] = C[vj]
""")
    sch = Schedule(program)
    sch.transform_layout("S", ("write", 0), index_map, 0)
    assert_same_meaning(program, sch)


OWN_ROW = """
for j in range(3):
    with T.block("G"):
        vi, vj = T.axis.remap("SS", [i, j])
        G[vj] = A[vi + vj]
for j in range(3):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = G[vj] * 2
"""
OWN_ROWS = """@T.prim_func
def main(A: T.Buffer((6,), "int32"), D: T.Buffer((3, 3), "int32")):
    T.func_attr({{"tir.noalias": True}})
    G = T.alloc_buffer((3,), "int32", scope="{scope}")
"""


@pytest.mark.parametrize(
    ("loop", "scope"),
    [
        ("T.parallel(3)", "global"),
        ("T.vectorized(3)", "global"),
        ('T.thread_binding(3, "blockIdx.x")', "shared"),
        ('T.thread_binding(3, "threadIdx.x")', "local"),
    ],
)
@pytest.mark.parametrize("index_map", [lambda i: 9 - i, lambda i: (i // 2, i % 2)])
def test_memory_of_an_iteration_is_padded_there(loop: str, scope: str, index_map: Any) -> None:
    """A block outside of the loop that touches it would make the iterations share it."""
    program = from_source(OWN_ROWS.format(scope=scope) + f"    for i in {loop}:\n" + indent(OWN_ROW, " " * 8))
    sch = Schedule(program)
    sch.transform_layout("G", ("write", 0), index_map, 7)
    assert_same_meaning(program, sch)
    around, *_ = sch.get_loops("buffer_G_padding")
    assert sch.get(around).loop_var.name == "i"


def test_memory_of_an_iteration_inside_of_another_block_is_not_padded() -> None:
    outer = """    for t in range(1):
        with T.block("O"):
            T.reads(A[0:6], G[0:3])
            T.writes(G[0:3], D[0:3, 0:3])
            vt = T.axis.spatial(1, t)
            for i in T.parallel(3):
"""
    program = from_source(OWN_ROWS.format(scope="global") + outer + indent(OWN_ROW, " " * 16))
    sch = Schedule(program, error_render_level="none")
    assert_refused(
        sch,
        lambda: sch.transform_layout("G", ("write", 0), lambda i: 9 - i, 7),
        "each iteration of a loop inside of a block has buffer G for itself",
    )


def test_a_loop_that_a_predicate_ends_early_is_not_taken_for_one_over_all_values() -> None:
    """It begins at 2: the new loops would begin at 0."""
    sch = Schedule(
        from_source("""@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(2, 6):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            T.where(i < 4)
            C[v] = A[v] + 1
""")
    )
    step = lambda: sch.transform_block_layout("C", lambda i: (i // 2, i % 2))
    assert_refused(sch, step, "bound to i, not to a loop of its own over all its values")


def test_the_init_of_a_block_of_tiles_follows_the_layout() -> None:
    """It is a nest with a block of its own, whose indices and regions are those of the tile, too."""
    program = kernels.matmul_relu(8, 8, 4)
    sch = Schedule(program)
    i, j, k = sch.get_loops("C")
    (i0, i1), (j0, j1) = sch.split(i, [None, 4]), sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, j1, k)
    tiles = sch.blockize(i1)
    sch.transform_layout("C", ("write", 0), lambda i, j: (i // 4, j // 4, i % 4, j % 4))
    (write,) = sch.get(tiles).writes
    assert [str(item.extent) for item in write.region] == ["1", "1", "4", "4"]
    assert "data=C.data" not in sch.mod.script()  # nothing states the old layout
    assert_same_meaning(program, sch)
    assert_replays(sch, program)


def test_a_product_in_tiles_with_an_init_outside_of_the_sum() -> None:
    program = kernels.matmul_relu(8, 8, 8)
    sch = Schedule(program)
    i, j, k = sch.get_loops("C")
    parts = [sch.split(loop, [None, 4]) for loop in (i, j, k)]
    sch.reorder(*[outer for outer, _ in parts], *[inner for _, inner in parts])
    tiles = sch.blockize(parts[0][1])
    sch.transform_layout("C", ("write", 0), lambda i, j: (i // 4, j // 4, i % 4, j % 4))
    (write,) = sch.get(tiles).writes
    assert [str(item.extent) for item in write.region] == ["1", "1", "4", "4"]
    assert_same_meaning(program, sch)
    assert_replays(sch, program)
