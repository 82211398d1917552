"""blockize and tensorize."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.script import tir as T
from ir.tir import TensorIntrin
from schedules import Schedule, ScheduleError
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning


@T.prim_func
def matmul(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


elementwise = kernels.elementwise()


chain = kernels.chain_by_rows()


@T.prim_func
def dot_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    C = T.match_buffer(c, (1,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:1], A[0:4], B[0:4])
        T.writes(C[0:1])
        for k in range(4):
            with T.block("dot"):
                vk = T.axis.reduce(4, k)
                C[0] = C[0] + A[vk] * B[vk]


@T.prim_func
def dot_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    C = T.match_buffer(c, (1,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:1], A[0:4], B[0:4])
        T.writes(C[0:1])
        C[0] = C[0] + (A[0] * B[0] + A[1] * B[1] + (A[2] * B[2] + A[3] * B[3]))


@pytest.fixture(autouse=True)
def intrinsics() -> None:
    TensorIntrin.register("test.dot4", dot_desc, dot_impl, override=True)


def test_blockize_inner_loop() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        for i in range(8):
            with T.block("B_o"):
                vi = T.axis.spatial(8, i)
                vj_o = T.axis.spatial(1, 0)
                T.reads(A[vi, 0:8])
                T.writes(B[vi, 0:8])
                for j in range(8):
                    with T.block("B"):
                        vj_i = T.axis.spatial(8, j)
                        T.reads(A[vi, vj_i])
                        T.writes(B[vi, vj_i])
                        B[vi, vj_i] = A[vi, vj_i] * T.float32(2)

    sch = Schedule(elementwise)
    outer = sch.blockize(sch.get_loops("B")[1])
    assert sch.get(outer).name_hint == "B_o"
    assert_program(sch, expected)
    assert_same_meaning(elementwise, sch)
    assert_replays(sch, elementwise)


def test_blockize_reduction_moves_the_init() -> None:
    @T.prim_func
    def expected(
        A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")
    ):
        for i_0, j_0, k_0 in T.grid(2, 2, 2):
            with T.block("C_o"):
                vi_o, vj_o, vk_o = T.axis.remap("SSR", [i_0, j_0, k_0])
                T.reads(
                    A[vi_o * 4 : vi_o * 4 + 4, vk_o * 4 : vk_o * 4 + 4],
                    B[vj_o * 4 : vj_o * 4 + 4, vk_o * 4 : vk_o * 4 + 4],
                )
                T.writes(C[vi_o * 4 : vi_o * 4 + 4, vj_o * 4 : vj_o * 4 + 4])
                with T.init():
                    for i_1, j_1 in T.grid(4, 4):
                        with T.block("C_init"):
                            vi, vj = T.axis.remap("SS", [i_1, j_1])
                            C[vi_o * 4 + vi, vj_o * 4 + vj] = T.float32(0)
                for i_1, j_1, k_1 in T.grid(4, 4, 4):
                    with T.block("C"):
                        vi, vj, vk = T.axis.remap("SSR", [i_1, j_1, k_1])
                        T.reads(
                            C[vi_o * 4 + vi, vj_o * 4 + vj],
                            A[vi_o * 4 + vi, vk_o * 4 + vk],
                            B[vj_o * 4 + vj, vk_o * 4 + vk],
                        )
                        T.writes(C[vi_o * 4 + vi, vj_o * 4 + vj])
                        C[vi_o * 4 + vi, vj_o * 4 + vj] = (
                            C[vi_o * 4 + vi, vj_o * 4 + vj]
                            + A[vi_o * 4 + vi, vk_o * 4 + vk] * B[vj_o * 4 + vj, vk_o * 4 + vk]
                        )

    sch = Schedule(matmul)
    tiles = [sch.split(loop, [None, 4]) for loop in sch.get_loops("C")]
    sch.reorder(*[tile[0] for tile in tiles], *[tile[1] for tile in tiles])
    block = sch.blockize(tiles[0][1])
    assert_program(sch, expected)
    assert_same_meaning(matmul, sch)
    assert_replays(sch, matmul)
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    assert_same_meaning(matmul, sch)


def test_blockize_blocks() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        B = T.alloc_buffer((8, 8))
        for i in range(8):
            with T.block("outer_B_C_"):
                vi = T.axis.spatial(8, i)
                vj_o = T.axis.spatial(1, 0)
                T.reads(A[vi, 0:8], B[vi, 0:8])
                T.writes(B[vi, 0:8], C[vi, 0:8])
                for j in range(8):
                    with T.block("B"):
                        vj = T.axis.spatial(8, j)
                        T.reads(A[vi, vj])
                        T.writes(B[vi, vj])
                        B[vi, vj] = A[vi, vj] * T.float32(2)
                for j in range(8):
                    with T.block("C"):
                        vj = T.axis.spatial(8, j)
                        T.reads(B[vi, vj])
                        T.writes(C[vi, vj])
                        C[vi, vj] = B[vi, vj] + T.float32(1)

    sch = Schedule(chain)
    joined = sch.blockize([sch.get_block("B"), sch.get_block("C")])
    assert sch.get(joined).name_hint == "outer_B_C_"
    assert_program(sch, expected)
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)


def test_blockize_without_unit_variables() -> None:
    sch = Schedule(elementwise)
    unit = sch.add_unit_loop(sch.get_block("B"))
    outer = sch.blockize(unit, preserve_unit_iters=False)
    assert [item.var.name for item in sch.get(outer).iter_vars] == ["vi_o", "vj_o"]
    assert sch.get(sch.get_block("B")).iter_vars == ()
    assert_same_meaning(elementwise, sch)


def test_blockize_refusals() -> None:
    sch = Schedule(chain)
    assert_refused(sch, lambda: sch.blockize(sch.get_loops("B")[0]), "blockize", "'i'", "2 blocks")
    crooked = Schedule(elementwise)
    fused = crooked.fuse(*crooked.get_loops("B"))
    _, inner = crooked.split(fused, [None, 3])
    assert_refused(crooked, lambda: crooked.blockize(inner), "'B'")
    reduce = Schedule(matmul)
    assert_refused(reduce, lambda: reduce.blockize([]), "at least one block")


def test_tensorize_a_loop() -> None:
    sch = Schedule(matmul)
    i, j, k = sch.get_loops("C")
    _, k1 = sch.split(k, [None, 4])
    sch.decompose_reduction("C", sch.get_loops("C")[2])
    sch.tensorize(k1, "test.dot4")
    text = sch.mod["main"].script()
    assert "match_buffer(A[" in text and "C_update_o" in text
    assert_same_meaning(matmul, sch)
    assert_replays(sch, matmul)


def test_tensorize_a_block() -> None:
    sch = Schedule(matmul)
    _, k1 = sch.split(sch.get_loops("C")[2], [None, 4])
    block = sch.blockize(k1)
    sch.tensorize(block, "test.dot4")
    assert_same_meaning(matmul, sch)
    assert_replays(sch, matmul)


def test_tensorize_refusals_say_what_differs() -> None:
    sch = Schedule(matmul)
    i, j, k = sch.get_loops("C")
    k0, k1 = sch.split(k, [None, 2])
    assert_refused(
        sch, lambda: sch.tensorize(k1, "test.dot5"), "no tensor intrinsic", "did you mean", "test.dot4"
    )
    assert_refused(sch, lambda: sch.tensorize(k1, "nothing"), "TensorIntrin.names() lists")
    assert_refused(sch, lambda: sch.tensorize(k1, "test.dot4"), "extent 2", "has 4")
    other = Schedule(elementwise)
    _, inner = other.split(other.get_loops("B")[1], [None, 4])
    assert_refused(other, lambda: other.tensorize(inner, "test.dot4"), "does not match")


@settings(max_examples=20)
@given(st.data())
def test_random_blockizing_keeps_the_meaning(data: st.DataObject) -> None:
    program, name = data.draw(st.sampled_from([(matmul, "C"), (elementwise, "B")]))
    sch = Schedule(program)
    for _ in range(data.draw(st.integers(0, 2))):
        loops = sch.get_loops(name)
        sch.split(loops[data.draw(st.integers(0, len(loops) - 1))], [None, data.draw(st.integers(1, 5))])
    if data.draw(st.booleans()):
        sch.reorder(*data.draw(st.permutations(sch.get_loops(name))))
    loops = sch.get_loops(name)
    before = sch.mod.script()
    try:
        sch.blockize(
            loops[data.draw(st.integers(0, len(loops) - 1))], preserve_unit_iters=data.draw(st.booleans())
        )
    except ScheduleError:
        assert sch.mod.script() == before
    assert_same_meaning(program, sch)
    assert_replays(sch, program)


@pytest.mark.parametrize("guards", [("vi < 6", ""), ("", "vi < 6")])
def test_blocks_with_predicates_of_their_own_are_not_joined(guards: tuple[str, str]) -> None:
    """One block of both runs where one predicate holds."""
    first, second = (
        f"T.where({guard.replace('vi', 'i')})" if guard else "T.reads(A[vi])" for guard in guards
    )
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            {first}
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            {second}
            C[vi] = A[vi]
""")
    sch = Schedule(func)
    blocks = [sch.get_block(name) for name in "BC"]
    assert_refused(sch, lambda: sch.blockize(blocks), "blockize", "i < 6")


def test_overlapping_windows_are_no_tiles() -> None:
    """A variable of windows that overlap is no outer number times the window's extent."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((22,)), C: T.Buffer((9,))):
    B = T.alloc_buffer((22,))
    for i in range(22):
        with T.block("B"):
            vi = T.axis.spatial(22, i)
            B[vi] = A[vi] * T.float32(2)
    for i, k in T.grid(9, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi * 2 + vk + 2]
""")
    sch = Schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0])
    window = sch.get_loops("B")[-1]
    assert_refused(sch, lambda: sch.blockize(window), "blockize", "cannot be divided")


def test_blockize_below_zero() -> None:
    """The domain of a variable that a block takes over begins where its values do."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi = T.axis.spatial((-4, 4), i - 4)
            vj = T.axis.spatial((-4, 4), j - 4)
            B[vi + 4, vj + 4] = A[3 - vi, vj + 4]
""")
    sch = Schedule(func)
    sch.blockize(sch.get_loops("B")[1])
    assert_same_meaning(func, sch)


def test_an_intrinsic_touches_the_lanes_that_it_describes() -> None:
    """An access under a predicate is not one of all lanes."""
    text = """@T.prim_func
def main(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (4,), "float32", offset_factor=1)
    B = T.match_buffer(b, (4,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        B[T.ramp(0, 1, 4)] = A[T.ramp(0, 1, 4)]
"""
    masked = text.replace(
        "B[T.ramp(0, 1, 4)] = A[T.ramp(0, 1, 4)]",
        "B.vstore([T.ramp(0, 1, 4)], A[T.ramp(0, 1, 4)], predicate=T.get_active_lane_mask('uint1x4', 0, 2))",
    )
    copy = from_source(text)
    TensorIntrin.register("test.copy4", copy, copy, override=True)
    sch = Schedule(from_source(masked.replace('"root"', '"B"')))
    assert_refused(sch, lambda: sch.tensorize("B", "test.copy4"), "tensorize", "under a predicate")


@pytest.mark.parametrize(("loop", "variable"), [("range(2, 6)", "(2, 6)"), ("range(4)", "4")])
def test_an_intrinsic_touches_the_elements_that_its_loops_run_over(loop: str, variable: str) -> None:
    """A loop that begins elsewhere touches others: the intrinsic took the first four of each row for those in the middle."""
    text = """@T.prim_func
def main(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (4,), "int32", offset_factor=1)
    B = T.match_buffer(b, (4,), "int32", offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in range(4):
            with T.block("e"):
                v = T.axis.spatial(4, i)
                B[v] = A[v]
"""
    described = from_source(text)
    TensorIntrin.register("test.copy_row", described, described, override=True)
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((2, 8), "int32"), B: T.Buffer((2, 8), "int32")):
    for r in range(2):
        with T.block("B"):
            vr = T.axis.spatial(2, r)
            for i in {loop}:
                with T.block("e"):
                    v = T.axis.spatial({variable}, i)
                    B[vr, v] = A[vr, v]
""")
    sch = Schedule(func)
    if loop == "range(4)":
        sch.tensorize("B", "test.copy_row")
        assert_same_meaning(func, sch)
    else:
        assert_refused(sch, lambda: sch.tensorize("B", "test.copy_row"), "loop i starts at 2")
