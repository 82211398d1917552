"""Uses of primitives that would change what a program computes: each is refused, with the reason."""

from __future__ import annotations

import pytest

from ir import te, topi
from ir.script import from_source
from ir.target import Target
from schedules import Schedule, ScheduleError
from schedules.postproc import postprocess
from schedules.space import PostOrderApply
from tests.schedules.checks import assert_replays, assert_same_meaning

MIXED = """@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    T.func_attr({"tir.noalias": True})
    P = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi] + T.float32(1)
    A[0] = T.float32(7)
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi] * A[vi]
"""


@pytest.mark.parametrize(
    "primitive", ["compute_at", "compute_inline", "reverse_compute_inline", "cache_read"]
)
def test_nothing_moves_over_a_statement_that_is_in_no_block(primitive: str) -> None:
    sch = Schedule(from_source(MIXED), error_render_level="none")
    steps = {
        "compute_at": lambda: sch.compute_at("P", sch.get_loops("B")[0]),
        "compute_inline": lambda: sch.compute_inline("P"),
        "reverse_compute_inline": lambda: sch.reverse_compute_inline("B"),
        "cache_read": lambda: sch.cache_read("B", 1, "global"),
    }
    with pytest.raises(ScheduleError, match="a statement that is in no block touches A"):
        steps[primitive]()


def test_iterations_past_the_end_are_for_blocks_only() -> None:
    """A predicate keeps a block from running there; a statement beside it would run."""
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((9,)), B: T.Buffer((9,)), C: T.Buffer((9,))):
    for i in range(9):
        C[i] = A[i]
        with T.block("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = A[vi]
"""
    )
    sch = Schedule(func, error_render_level="none")
    with pytest.raises(ScheduleError, match="not everything under it is in a block"):
        sch.split(sch.get_loops("B")[0], [None, 4])
    sch.split(sch.get_loops("B")[0], [None, 3])
    assert_same_meaning(func, sch)


WINDOW = """@T.prim_func
def main(A: T.Buffer((4, 2)), C: T.Buffer((4, 5))):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((4, 5))
    for i, j in T.grid(4, 2):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj + 2] = A[vi, vj]
    for i, j in T.grid(4, 2):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(5, j + 2)
            C[vi, vj] = B[vi, vj] * T.float32(2)
"""


def test_a_blockized_window_begins_where_it_did() -> None:
    func = from_source(WINDOW)
    sch = Schedule(func)
    sch.blockize([sch.get_block("B"), sch.get_block("C")])
    sch.reverse_compute_at("C", sch.get_loops("B")[0], preserve_unit_loops=True)
    assert_same_meaning(func, sch)


def test_views_follow_the_variables_of_a_blockized_block() -> None:
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    T.func_attr({"tir.noalias": True})
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:8])
            T.writes(C[vi, 0:8])
            row = T.match_buffer(C[vi, 0:8], (8,), "float32", offset_factor=1)
            for j in range(8):
                row[j] = A[vi, 7 - j]
"""
    )
    sch = Schedule(func)
    sch.blockize(sch.get_loops("C")[0])
    assert_same_meaning(func, sch)


def test_copies_of_buffers_with_one_name_are_blocks_of_two() -> None:
    """Two products in one kernel: each has an accumulator, and every candidate finds both blocks by their names."""
    a, b, c = (te.placeholder((16, 16), name=name) for name in "abc")
    func = te.create_prim_func([a, b, c, topi.matmul(topi.matmul(a, b), c)])
    target = Target("llvm -mcpu=x86-64-v3 -num-cores 2")
    for sch in PostOrderApply().generate_design_space(func, target):
        assert postprocess(sch, target)
    sch = Schedule(func)
    first, second = (sch.cache_write(name, 0, "local") for name in ("T_matmul", "T_matmul_1"))
    assert sch.get(first).name_hint != sch.get(second).name_hint


EINSUM = """@T.prim_func
def main(A: T.Buffer((7, 5), "DTYPE"), B: T.Buffer((5, 6), "DTYPE"), W: T.Buffer((6,), "DTYPE"), C: T.Buffer((7, 6), "DTYPE")):
    for i, j, k in T.grid(7, 6, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.const(0, "DTYPE")
            C[vi, vj] = C[vi, vj] + TERM
"""


@pytest.mark.parametrize(
    ("dtype", "term", "legal"),
    [
        ("float32", "A[vi, vk] * B[vk, vj]", True),
        ("float32", "A[vi, vk] * T.float32(3)", True),
        ("float32", "A[vi, vk] * W[vj]", False),  # of which one may be infinite
        ("float32", "A[vi, vk] * B[vk, vj] * W[vj]", False),
        ("float32", "A[vi, vk] * (B[vk, vj] + T.float32(1))", False),
        ("int32", "A[vi, vk] * W[vj]", True),
        ("int32", "A[vi, vk] * (B[vk, vj] // W[vj])", False),
    ],
)
def test_zeros_in_the_padding_of_an_einsum_are_neutral(dtype: str, term: str, legal: bool) -> None:
    func = from_source(EINSUM.replace("DTYPE", dtype).replace("TERM", term))
    sch = Schedule(func, error_render_level="none")
    if not legal:
        with pytest.raises(ScheduleError, match="every padded reduction variable|divides by"):
            sch.pad_einsum("C", [1, 4, 4])
        return
    sch.pad_einsum("C", [1, 4, 4])
    assert_same_meaning(func, sch)


def test_the_padding_is_not_divided_by() -> None:
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((7,), "int32"), B: T.Buffer((7,), "int32"), C: T.Buffer((7,), "int32")):
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = A[vi] // B[vi]
"""
    )
    with pytest.raises(ScheduleError, match="divides by .*zero in the padding"):
        Schedule(func).pad_einsum("C", [4])


@pytest.mark.parametrize("primitive", ["decompose_reduction", "blockize"])
@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(
    ("order", "extents"),
    [("i, j, k", "7, 6, 0"), ("k, i, j", "0, 7, 6"), ("i, k, j", "7, 0, 6"), ("i, j, k", "7, 0, 5")],
)
def test_a_reduction_over_nothing_is_still_initialised(
    primitive: str, position: int, order: str, extents: str
) -> None:
    func = from_source(
        EINSUM.replace("DTYPE", "float32")
        .replace("TERM", "A[vi, vk] * B[vk, vj]")
        .replace("i, j, k in T.grid(7, 6, 5)", f"{order} in T.grid({extents})")
    )
    sch = Schedule(func, error_render_level="none")
    loop = sch.get_loops("C")[position]
    reduced = order.split(", ").index("k")
    if primitive == "decompose_reduction" and position > reduced:
        with pytest.raises(ScheduleError, match="choose an outer loop"):
            sch.decompose_reduction("C", loop)
        return
    sch.blockize(loop) if primitive == "blockize" else sch.decompose_reduction("C", loop)
    assert_same_meaning(func, sch)


@pytest.mark.parametrize("primitive", ["decompose_reduction", "blockize"])
def test_a_loop_that_does_not_run_over_what_is_there_initialises_nothing(primitive: str) -> None:
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((4, 5)), C: T.Buffer((4,))):
    for i, k in T.grid(4, 0):
        with T.block("C"):
            vi, vk = T.axis.spatial(4, i), T.axis.reduce(5, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""
    )
    sch = Schedule(func, error_render_level="none")
    loop = sch.get_loops("C")[0]
    with pytest.raises(ScheduleError, match=f"{primitive}: .*'k' may have no iterations where the domain"):
        sch.blockize(loop) if primitive == "blockize" else sch.decompose_reduction("C", loop)


def test_a_copy_of_what_is_read_at_unknown_places() -> None:
    """The block that copies iterates from the least index on: it must have one."""
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((8, 4)), I: T.Buffer((8,), "int32"), B: T.Buffer((8, 4))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(I[vi], A[T.bitwise_xor(vi, 1), vj])
            B[vi, vj] = A[T.bitwise_xor(vi, 1), vj]
"""
    )
    sch = Schedule(func, error_render_level="none")
    with pytest.raises(ScheduleError, match="not known how far below zero A is accessed"):
        sch.read_at(sch.get_loops("B")[0], "B", "A", "global")


@pytest.mark.parametrize("primitive", ["reindex", "reindex_cache_write"])
def test_a_copy_of_what_loops_index(primitive: str) -> None:
    """A block without variables is not closed over what it accesses: the copy would be outside of its loops."""
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((8, 4)), B: T.Buffer((8, 4))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            T.reads(A[i, j])
            T.writes(B[i, j])
            B[i, j] = A[i, j]
"""
    )
    sch = Schedule(func, error_render_level="none")
    with pytest.raises(ScheduleError, match="by the loops around it"):
        if primitive == "reindex":
            sch.reindex("B", ("write", 0))
        else:
            sch.reindex_cache_write("B", 0, "global", lambda: ())


def test_the_init_of_a_blockized_reduction_keeps_its_guards() -> None:
    """Those of its own loops stay where the others go with the reduction's loops."""
    text = EINSUM.replace("DTYPE", "float32").replace("TERM", "A[vi, vk] * B[vk, vj]")
    func = from_source(text)
    sch = Schedule(func, error_render_level="none")
    i, j, k = sch.get_loops("C")
    sch.split(k, [None, 3])
    sch.split(j, [None, 4])
    sch.split(i, [None, 4])
    sch.blockize(sch.get_loops("C")[0])
    assert_same_meaning(func, sch)


def test_blockize_after_a_shift_knows_where_its_variables_begin() -> None:
    """The map shifts the variable's values; a predicate, and no loop, says that they begin at 2."""
    func = from_source(WINDOW)
    sch = Schedule(func)
    sch.transform_block_layout("B", lambda i, j: (i + 2, j))
    sch.blockize(sch.get_loops("B")[0])
    assert_same_meaning(func, sch)


def test_blockize_of_a_block_that_uses_its_loops_itself() -> None:
    """What the outer block states is said without the loops inside of it."""
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((3, 5)), B: T.Buffer((3, 5))):
    for i, j in T.grid(3, 5):
        with T.block("B"):
            T.reads(A[i, j])
            T.writes(B[i, 0])
            B[i, 0] = A[i, j]
"""
    )
    sch = Schedule(func)
    outer = sch.get(sch.blockize(sch.get_loops("B")[0]))
    assert [str(region) for region in (*outer.reads, *outer.writes)] == ["A[0:3, 0:5]", "B[0:3, 0]"]
    assert_same_meaning(func, sch)
    assert_replays(sch, func)


@pytest.mark.parametrize("extents", [(0, 5), (5, 0), (0, 0)])
def test_fused_loops_without_iterations(extents: tuple[int, int]) -> None:
    func = from_source(WINDOW.replace("T.grid(4, 2)", f"T.grid{extents}"))
    sch = Schedule(func)
    sch.fuse(*sch.get_loops("B"))
    sch.fuse(*sch.get_loops("C"))
    assert_same_meaning(func, sch)


def test_a_consumer_does_not_follow_iterations_that_leave_gaps() -> None:
    """One iteration of the outer loop computes every other row, of which the consumer would read all between as well."""
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * T.float32(2)
"""
    )
    sch = Schedule(func, error_render_level="none")
    outer, inner = sch.split(sch.get_loops("B")[0], [4, 2])
    sch.reorder(inner, outer)
    with pytest.raises(ScheduleError, match="reverse_compute_at: .*not known to fill a box"):
        sch.reverse_compute_at("C", inner)
    sch.reverse_compute_at("C", outer)
    assert_same_meaning(func, sch)


@pytest.mark.parametrize("extent", ["i + 1", "4 - i"])
def test_blockize_of_a_triangle(extent: str) -> None:
    """Neither domains of variables nor loops of a block mention what is outside of it."""
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((4, 4)), B: T.Buffer((4, 4))):
    for i in range(4):
        for j in range({extent}):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(4, j)
                B[vi, vj] = A[vj, vi]
"""
    )
    sch = Schedule(func, debug_mask="all", error_render_level="none")
    with pytest.raises(ScheduleError, match="blockize: .* which a loop outside of the new block says"):
        sch.blockize(sch.get_loops("B")[1])
    sch.blockize(sch.get_loops("B")[0])
    assert_same_meaning(func, sch)


OVERWRITTEN = """@T.prim_func
def main(A: T.Buffer((6, 8)), B: T.Buffer((6, 8))):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj // 2] = A[vi, vj]
"""


@pytest.mark.parametrize("primitive", ["reorder", "transform_block_layout"])
def test_the_last_value_of_an_element_stays_the_last(primitive: str) -> None:
    """The program calls vj data-parallel, though two values of it write one element."""
    func = from_source(OVERWRITTEN)
    sch = Schedule(func, error_render_level="none")
    i, j = sch.get_loops("B")
    outer, inner = sch.split(j, [4, 2])
    with pytest.raises(ScheduleError, match=f"{primitive}: .*may write to B"):
        if primitive == "reorder":
            sch.reorder(inner, outer)
        else:
            Schedule(func).transform_block_layout("B", lambda vi, vj: (vi, 7 - vj))
    sch.reorder(outer, i)
    assert_same_meaning(func, sch)


def test_a_consumer_does_not_follow_a_tile_that_is_cut() -> None:
    """A tile of two rows, split by three: the third iteration belongs to the next tile."""
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + T.float32(1)
"""
    )
    sch = Schedule(func, error_render_level="none")
    _, row = sch.split(sch.get_loops("B")[0], [4, 2])
    _, part = sch.split(row, [None, 3])
    with pytest.raises(ScheduleError, match="reverse_compute_at: .*no guard"):
        sch.reverse_compute_at("C", part)


def test_pad_einsum_of_a_reduction_over_nothing() -> None:
    """It writes nothing, so that there is nothing to copy back."""
    func = from_source(
        EINSUM.replace("T.grid(7, 6, 5)", "T.grid(7, 6, 0)")
        .replace("TERM", "A[vi, vk] * B[vk, vj]")
        .replace("DTYPE", "float32")
    )
    with pytest.raises(ScheduleError, match="has no iterations"):
        Schedule(func, error_render_level="none").pad_einsum("C", [4, 1, 1])
