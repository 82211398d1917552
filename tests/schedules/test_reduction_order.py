"""Orders of reductions: each element is begun once and first, before and after, or the step is refused."""

from __future__ import annotations

import pytest

from ir.arith import Analyzer
from ir.script import from_source
from ir.tir import PrimFunc
from schedules import Schedule, ScheduleError
from tests.programs import kernels

from .checks import assert_refused, assert_same_meaning


def reduction(
    binding: str, loops: str = "i, k in T.grid(4, 8)", row: str = "i", domain: str = "8", guard: str = ""
) -> PrimFunc:
    """Row sums of 8 columns, bound as given."""
    return from_source(f"""@T.prim_func
def main(A: T.Buffer((8, 16), "int32"), C: T.Buffer((8,), "int32")):
    for {loops}:
        with T.block("C"):
            vi = T.axis.spatial(8, {row})
            vk = T.axis.reduce({domain}, {binding})
            T.where({guard or "T.bool(True)"})
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
""")


STEPS = {
    "decompose_reduction": lambda sch: sch.decompose_reduction("C", sch.get_loops("C")[1]),
    "rfactor": lambda sch: sch.rfactor(sch.get_loops("C")[1], 0),
    "blockize": lambda sch: sch.blockize(sch.get_loops("C")[1]),
    "reorder": lambda sch: sch.reorder(*sch.get_loops("C")[::-1]),
}


@pytest.mark.parametrize("primitive", STEPS)
@pytest.mark.parametrize(
    ("func", "reason"),
    [
        (reduction("k // 2", "i, k in T.grid(4, 16)"), "more than once|not an affine map"),
        (reduction("k % 4", domain="4"), "more than once|not an affine map"),
        (reduction("7 - k"), "does not begin at 0|not an affine map"),
        (reduction("k + 2", "i, k in T.grid(4, 6)"), "does not begin at 0"),
        (reduction("k", guard="k > 0"), "the predicate|lies outside the predicate"),
        (reduction("k", guard="i < k"), "the predicate|lies outside the predicate"),
    ],
    ids=["twice", "again", "backwards", "from 2", "masked", "triangle"],
)
def test_an_init_that_is_not_once_and_first_stays_where_it_is(
    primitive: str, func: PrimFunc, reason: str
) -> None:
    sch = Schedule(func, error_render_level="none")
    with pytest.raises(ScheduleError, match=f"{primitive}: .*({reason})"):
        STEPS[primitive](sch)
    assert sch.mod["main"].script() == Schedule(func).mod["main"].script()


@pytest.mark.parametrize("factor", [3, 5, 6])
def test_elements_that_loops_count_up_keep_their_order(factor: int) -> None:
    """A fused loop over rows and columns, split where no row ends: in another order rows do not begin with their first column."""
    func = kernels.row_sum(4, 8)
    sch = Schedule(func)
    fused = sch.fuse(*sch.get_loops("B"))
    outer, inner = sch.split(fused, [None, factor])
    assert_refused(sch, lambda: sch.reorder(inner, outer), "reorder", "its init is not first")
    sch.decompose_reduction("B", outer)
    assert_same_meaning(func, sch)


@pytest.mark.parametrize("factor", [2, 4, 8, 16])
def test_digits_of_rows_and_columns_may_run_in_any_order(factor: int) -> None:
    func = kernels.row_sum(4, 8)
    sch = Schedule(func)
    outer, inner = sch.split(sch.fuse(*sch.get_loops("B")), [None, factor])
    sch.reorder(inner, outer)
    sch.decompose_reduction("B", inner)
    assert_same_meaning(func, sch)


def test_a_loop_that_repeats_a_reduction_stays_outside() -> None:
    func = reduction("k", "r, i, k in T.grid(2, 8, 8)")
    sch = Schedule(func)
    r, i, k = sch.get_loops("C")
    assert_refused(sch, lambda: sch.reorder(i, k, r), "reorder", "'r' repeats block 'C'")
    sch.reorder(i, r, k)
    assert_same_meaning(func, sch)


@pytest.mark.parametrize("row", ["7 - i", "(i + 3) % 8", "T.max(i, 0)"])
def test_rows_may_be_bound_in_any_order(row: str) -> None:
    """No affine map with steps of 1, but one that runs each instance once."""
    func = reduction("k", "i, k in T.grid(8, 8)", row=row)
    sch = Schedule(func)
    sch.reorder(*sch.get_loops("C")[::-1])
    assert_same_meaning(func, sch)


@pytest.mark.parametrize("stride", [2, 3])
def test_strided_rows_may_be_reordered(stride: int) -> None:
    func = reduction("k", "i, k in T.grid(3, 8)", row=f"i * {stride}")
    sch = Schedule(func)
    sch.reorder(*sch.get_loops("C")[::-1])
    assert_same_meaning(func, sch)


def test_overlapping_windows_are_summed_up_one_by_one() -> None:
    """What two iterations compute is begun in each of them, but not where their reduction runs outside."""
    func = reduction("k", "i, a, k in T.grid(3, 4, 8)", row="i * 2 + a")
    sch = Schedule(func)
    i, a, k = sch.get_loops("C")
    assert_refused(sch, lambda: sch.reorder(k, i, a), "reorder", "not an affine map")
    assert_refused(sch, lambda: sch.decompose_reduction("C", i), "decompose_reduction", "more than once")
    sch.decompose_reduction("C", a)
    assert_same_meaning(func, sch)


def test_symbolic_instances_run_once() -> None:
    """A quotient of a loop of unknown extent runs each instance again."""
    func = from_source("""@T.prim_func
def main(a: T.handle, C: T.Buffer((4,), "int32")):
    n = T.int32()
    A = T.match_buffer(a, (4, n), "int32")
    for i, k in T.grid(4, n * 2):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(n, k // 2)
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
""")
    sch = Schedule(func)
    assert_refused(
        sch,
        lambda: sch.decompose_reduction("C", sch.get_loops("C")[1]),
        "decompose_reduction",
        "more than once",
    )


@pytest.mark.parametrize("primitive", ["decompose_reduction", "blockize"])
def test_rows_without_columns_are_not_initialised(primitive: str) -> None:
    """Rule ``[reduce-empty]``: a loop that does not run over a domain that is not empty does nothing."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        for k in range(i):
            with T.block("C"):
                vi, vk = T.axis.spatial(8, i), T.axis.reduce(8, k)
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
""")
    sch = Schedule(func)
    assert_refused(sch, lambda: STEPS[primitive](sch), primitive, "'k' may have no iterations")


def test_a_block_of_a_reduction_has_no_emptier_domain() -> None:
    """Rule ``[reduce-empty]``: the new block's domain is as empty as the loops outside of it, the block's own one was not."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8, 2), "int32"), C: T.Buffer((8,), "int32")):
    for i, k0, k1 in T.grid(8, 0, 2):
        with T.block("C"):
            vi, vk = T.axis.spatial(8, i), T.axis.reduce(2, k0 * 2 + k1)
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
""")
    sch = Schedule(func)
    assert_refused(
        sch, lambda: sch.blockize(sch.get_loops("C")[2]), "blockize", "'k0' may have no iterations"
    )


def test_a_block_of_tiles_of_any_number() -> None:
    sch = Schedule(
        from_source("""@T.prim_func
def main(A: T.Buffer((8, 32), "int32"), C: T.Buffer((8,), "int32"), n: T.int32):
    for i, k0, k1 in T.grid(8, n, 4):
        with T.block("C"):
            vi, vk = T.axis.spatial(8, i), T.axis.reduce(n * 4, k0 * 4 + k1)
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
""")
    )
    sch.blockize(sch.get_loops("C")[2])
    assert "C_o" in sch.mod["main"].script()


@pytest.mark.parametrize("condition", ["k > 0", "k < 2", "A[i, k] > 0"])
@pytest.mark.parametrize("primitive", STEPS)
def test_an_init_below_a_condition_stays_there(primitive: str, condition: str) -> None:
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 4):
        if {condition}:
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
""")
    sch = Schedule(func)
    assert_refused(
        sch,
        lambda: STEPS[primitive](sch),
        primitive,
        "condition" if primitive == "blockize" else "IfThenElse",
    )


def test_sums_in_one_element_are_begun_one_by_one() -> None:
    """A scratch element that each row begins anew is no sum of all of them."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    S = T.alloc_buffer((1,), "int32")
    for i in range(4):
        for k in range(8):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[0] = 0
                S[0] = S[0] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = S[0]
""")
    sch = Schedule(func)
    i, k = sch.get_loops("S")
    assert_refused(
        sch, lambda: sch.decompose_reduction("S", i), "decompose_reduction", "sum into one element"
    )
    sch.decompose_reduction("S", k)
    assert_same_meaning(func, sch)


def test_the_init_keeps_what_its_predicate_says_at_the_begin() -> None:
    """A clause over both kinds of variables guards the init, too: as it is where the reduction begins."""
    func = reduction("k", "i, k in T.grid(8, 8)", guard="i + k < 6")
    for step in ("decompose_reduction", "reorder"):
        sch = Schedule(func)
        STEPS[step](sch)
        assert_same_meaning(func, sch)


NEIGHBOURS = """@T.prim_func
def main(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("before"):
            vi = T.axis.spatial(8, i)
            D[vi] = BEFORE
        for k in range(4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = INIT
                C[vi] = C[vi] + A[vi, vk]
        with T.block("after"):
            vi = T.axis.spatial(8, i)
            D[vi] = D[vi] + AFTER
"""


@pytest.mark.parametrize(
    ("before", "init", "after", "reason"),
    [
        ("A[vi, 0]", "0", "C[vi]", None),
        ("C[vi]", "0", "A[vi, 0]", "'before' reads what"),
        ("C[7 - vi]", "0", "A[vi, 0]", "'before' reads what"),
        ("A[vi, 0]", "0", "C[7 - vi]", "what block 'after' reads in another"),
        ("A[vi, 0]", "D[vi]", "A[vi, 0]", "the init of block 'C' reads what block 'before' writes"),
        ("A[vi, 0]", "C[7 - vi]", "A[vi, 0]", "the init of block 'C' reads what block 'C' writes"),
    ],
)
def test_no_neighbour_sees_the_init(before: str, init: str, after: str, reason: str | None) -> None:
    """Other blocks of the loop read older values before the reduction, and finished ones behind it."""
    text = NEIGHBOURS.replace("BEFORE", before).replace("INIT", init).replace("AFTER", after)
    func = from_source(text)
    sch = Schedule(func)
    i = sch.get_loops("C")[0]
    if reason is not None:
        assert_refused(sch, lambda: sch.decompose_reduction("C", i), "decompose_reduction", reason)
        return
    sch.decompose_reduction("C", i)
    assert_same_meaning(func, sch)


def test_partial_sums_are_seen_behind_the_init() -> None:
    """A block that looks at each partial sum comes behind the first one, which is initialised."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4, 8), "int32")):
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
        with T.block("D"):
            vi, vk = T.axis.remap("SS", [i, k])
            D[vi, vk] = C[vi]
""")
    for position in (0, 1):
        sch = Schedule(func)
        sch.decompose_reduction("C", sch.get_loops("C")[position])
        assert_same_meaning(func, sch)


def test_an_init_block_states_what_it_loads() -> None:
    """So that other primitives see that it reads a bias."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = B[vi]
            C[vi] = C[vi] + A[vi, vk]
""")
    for blockized in (False, True):
        sch = Schedule(func)
        if blockized:
            sch.blockize(sch.get_loops("C")[0])
            init = sch.get(sch.get_block("C_o")).init.body.block
        else:
            init = sch.get(sch.decompose_reduction("C", sch.get_loops("C")[0]))
        assert [region.buffer.name for region in init.reads] == ["B"]


def test_a_repeated_reduction_under_a_symbolic_loop_keeps_its_init() -> None:
    """What the outer loop runs over says nothing of the inner one, which runs each instance twice."""
    program = from_source("""@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 2), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for i in range(n):
        for k in range(4):
            with T.block("B"):
                vi = T.axis.spatial(n, i)
                vk = T.axis.reduce(2, k % 2)
                with T.init():
                    B[vi] = 0
                B[vi] = B[vi] + A[vi, vk]
""")
    sch = Schedule(program, error_render_level="none")
    assert_refused(sch, lambda: sch.decompose_reduction("B", sch.get_loops("B")[1]), "more than once")
    assert_refused(sch, lambda: sch.rfactor(sch.get_loops("B")[1], 0), "more than once")


def test_the_init_stands_where_the_variables_begin() -> None:
    """The predicate lets the last iteration run alone, in which the reduction's variable is at its begin and the loop is not."""
    program = from_source("""@T.prim_func
def main(A: T.Buffer((2, 8), "int32"), B: T.Buffer((2,), "int32")):
    for i, k in T.grid(2, 4):
        with T.block("B"):
            vi = T.axis.spatial(2, i)
            vk = T.axis.reduce(8, 3 - k)
            T.where(3 - k < 1)
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
""")
    sch = Schedule(program, error_render_level="none")
    assert_refused(sch, lambda: sch.decompose_reduction("B", sch.get_loops("B")[1]), "is the first")


def test_digits_of_rows_of_any_number_may_be_reordered() -> None:
    """Symbolic extents are proved to be digits, not counted."""
    sch = Schedule(
        from_source("""@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32"), n: T.int32):
    for i, k in T.grid(n * 2, 8):
        with T.block("C"):
            vi, vj = T.axis.spatial(n, i // 2), T.axis.spatial(2, i % 2)
            vk = T.axis.reduce(8, k)
            with T.init():
                C[vi * 2 + vj] = 0
            C[vi * 2 + vj] = C[vi * 2 + vj] + A[vi * 2 + vj, vk]
""")
    )
    sch.reorder(*sch.get_loops("C")[::-1])
    assert [loop.extent.value for loop in map(sch.get, sch.get_loops("C")[:1])] == [8]


def symbolic(domain: str, loops: str = "i, k in T.grid(4, n)", guard: str = "i + k < m") -> PrimFunc:
    """Row sums of n columns, of which a guard lets some through."""
    return from_source(f"""@T.prim_func
def main(a: T.handle, C: T.Buffer((4,), "int32"), m: T.int32):
    T.func_attr({{"tir.noalias": True}})
    n = T.int32()
    A = T.match_buffer(a, (4, n), "int32")
    for {loops}:
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce({domain}, k)
            T.where({guard})
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
""")


def test_a_guard_of_a_reduction_that_may_be_empty_is_none_of_its_init() -> None:
    """Over no columns every row is 0, whatever the guard says of a first column."""
    sch = Schedule(symbolic("n"))
    words = "initialised over an empty domain whether or not"
    assert_refused(sch, lambda: sch.decompose_reduction("C", sch.get_loops("C")[1]), words)


def test_one_that_is_not_empty_begins_under_its_guard() -> None:
    sch = Schedule(symbolic("8", "i, k in T.grid(4, 8)"))
    init = sch.decompose_reduction("C", sch.get_loops("C")[1])
    assert str(Analyzer().simplify(sch._block(init).predicate)) == "i < m"


INIT_READS = """@T.prim_func
def main(A: T.Buffer((4,), "int32"), X: T.Buffer((4, 3), "int32"), B: T.Buffer((4,), "int32")):
    P = T.alloc_buffer((4,), "int32")
    for i in range(4):
        with T.block("P"):
            v = T.axis.spatial(4, i)
            P[v] = A[v] + 1
    for i, k in T.grid(4, {extent}):
        with T.block("B"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                B[v] = P[v]
            B[v] = B[v] + X[v, r]
"""
MADE_IN_A_LOOP = {
    "compute_at": lambda sch, loop: sch.compute_at("P", loop),
    "read_at": lambda sch, loop: sch.read_at(loop, "B", 0, "global"),
}


@pytest.mark.parametrize("primitive", MADE_IN_A_LOOP)
@pytest.mark.parametrize(("extent", "depth"), [(3, 0), (3, 1), (0, 0), (0, 1)])
def test_what_an_init_reads_is_made_where_it_runs_over_nothing(
    primitive: str, extent: int, depth: int
) -> None:
    func = from_source(INIT_READS.format(extent=extent))
    sch = Schedule(func)
    loop = sch.get_loops("B")[depth]
    if (extent, depth) == (0, 1):
        assert_refused(
            sch, lambda: MADE_IN_A_LOOP[primitive](sch, loop), primitive, "the init of block 'B' reads P"
        )
    else:
        MADE_IN_A_LOOP[primitive](sch, loop)
        assert_same_meaning(func, sch)
