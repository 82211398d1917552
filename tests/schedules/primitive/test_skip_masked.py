"""skip_masked: what is left out and what not, that it means the same to the bit beside infinities and NaN, and what is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from ir import te, tir
from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc
from schedules import Schedule, ScheduleError
from schedules.block_facts import node_of, reduction_loops
from schedules.tree import all_blocks
from tests.programs import chains

from ..checks import assert_program, assert_refused, assert_replays, main_of, outputs_of

ATTENTION = [("peak", 2), ("weight", 2), ("mixed", 3), ("total", 2)]


def triangular(hidden: float = 0.0, rows: int = 8, keys: int = 8, reduce: Any = te.sum) -> PrimFunc:
    """Block ``C``: sums of the rows of a triangle."""
    a, k = te.placeholder((rows, keys), "float32", name="A"), te.reduce_axis((0, keys), "k")
    c = te.compute(
        (rows,), lambda i: reduce(te.if_then_else(k <= i, a[i, k], np.float32(hidden)), axis=k), name="C"
    )
    return te.create_prim_func([a, c])


def in_tiles(func: PrimFunc, size: int = 4, block: str = "C") -> tuple[Schedule, Any]:
    """A schedule whose last reduction loop is in tiles of a size, initialised outside, and the loop over the tiles."""
    sch = Schedule(func, debug_mask="all")
    *_, k = sch.get_loops(block)
    outer, _ = sch.split(k, [None, size])
    sch.decompose_reduction(block, outer)
    return sch, outer


def test_a_triangle_of_sums() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("C_init"):
                vi = T.axis.spatial(8, i)
                C[vi] = T.float32(0)
            for k0, k1 in T.grid(2, 4):
                if T.ignore_loop_partition(i - k0 * 4 - 3 >= 0):
                    with T.block("C"):
                        vi = T.axis.spatial(8, i)
                        vk = T.axis.reduce(8, k0 * 4 + k1)
                        T.where(T.ignore_loop_partition(i - k0 * 4 >= 0))
                        C[vi] = C[vi] + A[vi, vk]
                else:
                    with T.block("C_masked"):
                        vi = T.axis.spatial(8, i)
                        vk = T.axis.reduce(8, k0 * 4 + k1)
                        T.where(T.ignore_loop_partition(i - k0 * 4 >= 0))
                        C[vi] = C[vi] + T.if_then_else(vk <= vi, A[vi, vk], T.float32(0))

    func = triangular()
    sch, loop = in_tiles(func)
    sch.skip_masked(loop)
    assert_program(sch, expected)
    assert_replays(sch, func)
    names = re.findall(r'T\.block\("(\w+)"\)', main_of(sch).script())
    assert names == ["root", "C_init", "C_update", "C_update_masked"]


@pytest.mark.parametrize(
    ("reduce", "hidden"), [(te.sum, 0.0), (te.sum, -0.0), (te.max, -math.inf), (te.min, math.inf)]
)
def test_identities(reduce: Any, hidden: float) -> None:
    func = triangular(hidden, reduce=reduce)
    sch, loop = in_tiles(func)
    sch.skip_masked(loop)
    assert_same_to_the_bit(func, sch, special_arrays(func, 0))


@pytest.mark.parametrize(
    ("reduce", "hidden"),
    [(te.sum, 1e-30), (te.max, 0.0), (te.min, -math.inf), (te.max, float(np.finfo("float32").min))],
)
def test_what_is_no_identity_is_refused(reduce: Any, hidden: float) -> None:
    sch, loop = in_tiles(triangular(hidden, reduce=reduce))
    assert_refused(sch, lambda: sch.skip_masked(loop), "still stores", "'C_update'")


def special_arrays(func: PrimFunc, seed: int) -> list[np.ndarray]:
    """Numbers for all parameters, some of them infinite, NaN or zeros of either sign."""
    generator = np.random.default_rng(seed)
    arrays = []
    for param in func.params:
        buffer = func.buffer_map[param]
        numbers = generator.integers(-3, 4, [int(n.value) for n in buffer.shape]).astype(buffer.dtype)
        if buffer.dtype.startswith("float"):
            for special in (np.inf, -np.inf, np.nan, -0.0):
                numbers[generator.random(numbers.shape) < 0.08] = special
        arrays.append(numbers)
    return arrays


def assert_same_to_the_bit(func: PrimFunc, sch: Schedule, arrays: list[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        before, after = outputs_of(func, arrays)[-1], outputs_of(main_of(sch), arrays)[-1]
    np.testing.assert_array_equal(after, before)
    zeros = before == 0
    np.testing.assert_array_equal(np.signbit(after[zeros]), np.signbit(before[zeros]))


# ---- attention --------------------------------------------------------------------------------------------------


def flash(func: PrimFunc, rows: int, keys: int) -> tuple[Schedule, Any]:
    """Tiles of queries and keys in one pass, reductions initialised apart; and the loop over the tiles of keys."""
    sch = Schedule(func, debug_mask="all")
    sch.compute_inline("masked")
    outer = []
    order = [block.name for block in all_blocks(sch._root("main"))]
    for name, place in sorted(ATTENTION, key=lambda item: order.index(item[0])):
        loops = sch.get_loops(name)
        i0, i1 = sch.split(loops[1], [None, rows])
        k0, k1 = sch.split(loops[place], [None, keys])
        sch.reorder(loops[0], i0, k0, i1, *loops[2:place], k1)
        outer.append(k0)
    parts = sch.rfactor_chain(*outer)
    loop = sch.merge(*[sch.get_loops(part)[2] for part in parts])
    sch.compute_at("score", loop)
    for block in ("score", *[sch.get(part).name_hint for part in parts]):
        node = node_of(sch, sch.get_block(block))
        if node.init is not None:
            sch.decompose_reduction(block, sch.get_loops(block)[reduction_loops(node)[0]])
    return sch, loop


def skipping(sch: Schedule) -> set[str]:
    """The blocks that run in some iterations only; their versions with the mask do, too."""
    blocks = all_blocks(sch._root("main"))
    found = {block.name for block in blocks if "ignore_loop_partition" in str(block.predicate)}
    masked = {name for name in found if name.endswith("_masked")}
    assert {name.removesuffix("_masked") for name in masked} <= found
    return found - masked


def test_scores_weights_and_sums_of_hidden_tiles_are_left_out() -> None:
    func = chains.attention(2, 8, 8, 3, "hidden")
    sch, loop = flash(func, 2, 4)
    sch.skip_masked(loop)
    updates = {f"{block}_update" for block in ("score", "peak_rf", "total_rf", "mixed_rf")}
    assert {"score_init", "weight", *updates} <= skipping(sch)
    # with what the parts begin, and what brings them together
    assert not {"peak_rf_init", "total_rf_init", "mixed_rf_init", "mixed", "peak", "total"} & skipping(sch)
    assert_replays(sch, func)


@pytest.mark.parametrize("mask", ["hidden", "window"])
@pytest.mark.parametrize("sizes", [(2, 4), (4, 2), (8, 3), (3, 7), (1, 1)])
def test_what_is_hidden_may_be_anything(mask: str, sizes: tuple[int, int]) -> None:
    """The last keys and values, which one query sees or none, are infinite or NaN: other rows are as if they were not there."""
    func = chains.attention(1, 8, 8, 2, mask)
    sch, loop = flash(func, *sizes)
    sch.skip_masked(loop)
    generator = np.random.default_rng(0)
    query, key, value = (generator.standard_normal((1, 8, 2)).astype("float32") for _ in range(3))
    out = np.zeros((1, 8, 2), "float32")
    clean = outputs_of(func, [query, key, value, out])[-1]
    key[0, 7], value[0, 7], value[0, 6] = np.nan, np.inf, np.nan
    spoilt = outputs_of(main_of(sch), [query, key, value, out])[-1]
    first = 6 if mask == "hidden" else 7  # the first row that sees one of them
    np.testing.assert_allclose(spoilt[0, :first], clean[0, :first], rtol=1e-5)
    assert np.isnan(spoilt[0, first:]).all()


@pytest.mark.parametrize("mask", ["causal", "earlier", "added", "none"])
def test_values_that_are_multiplied_by_zero_count(mask: str) -> None:
    """0 times infinity is NaN, and the least number is no identity: of these programs the sums are computed."""
    sch, loop = flash(chains.attention(1, 8, 8, 2, mask), 2, 2)
    if mask in ("added", "none"):
        assert_refused(sch, lambda: sch.skip_masked(loop), "is a comparison of indices")
        return
    sch.skip_masked(loop)
    left_out = {"score_init", "score_update"}  # which only the mask's other side would read
    if mask == "earlier":
        left_out |= {"peak_rf_update", "total_rf_update"}  # of -infinity, and of weights alone that are 0
    assert skipping(sch) == left_out


# ---- meaning ----------------------------------------------------------------------------------------------------

CONDITIONS: list[Callable[[Any, Any], Any]] = [
    lambda i, k: k <= i,
    lambda i, k: k < i,
    lambda i, k: i + 2 > k,
    lambda i, k: k >= 2 * i,
    lambda i, k: tir.all(k <= i, k > i - 3),
    lambda i, k: i + k < 7,
    lambda i, k: tir.any(k <= i, k > 5),
    lambda i, k: k // 2 <= i,
]
REDUCTIONS: list[tuple[Any, list[float]]] = [
    (te.sum, [0.0, -0.0, 1.0]),
    (te.max, [-math.inf, 0.0]),
    (te.min, [math.inf, 5.0]),
]


@settings(max_examples=60)
@given(st.data())
def test_random_masked_reductions_mean_the_same(data: st.DataObject) -> None:
    """Sums and extremes under one mask or two, of what is masked itself or of products with it, in tiles of rows and columns."""
    rows, keys = data.draw(st.integers(2, 7)), data.draw(st.integers(2, 9))
    reduce, hidden_sides = data.draw(st.sampled_from(REDUCTIONS))
    counts, counts_too = (data.draw(st.sampled_from(CONDITIONS)) for _ in "ab")
    other = np.float32(data.draw(st.sampled_from(hidden_sides)))
    zero = np.float32(0)
    a, b = (te.placeholder((rows, keys), "float32", name=name) for name in "AB")
    w = te.compute((rows, keys), lambda i, k: te.if_then_else(counts(i, k), a[i, k], zero) * 2.0, name="W")
    k = te.reduce_axis((0, keys), "k")

    def term(i: Any) -> Any:
        shapes = [
            lambda: te.if_then_else(counts(i, k), a[i, k], other),
            lambda: te.if_then_else(counts(i, k), a[i, k] * w[i, k], other),
            lambda: w[i, k] * te.if_then_else(counts(i, k), b[i, k], zero),
            lambda: w[i, k] * te.if_then_else(counts_too(i, k), b[i, k], zero),
            lambda: w[i, k] * b[i, k],
            lambda: tir.Select(counts(i, k), a[i, k], other),
            lambda: (
                te.if_then_else(counts(i, k), w[i, k], other)
                + te.if_then_else(counts_too(i, k), b[i, k], zero)
            ),
        ]
        return data.draw(st.sampled_from(shapes))()

    c = te.compute((rows,), lambda i: reduce(term(i), axis=k), name="C")
    func = te.create_prim_func([a, b, c])
    sch = Schedule(func, debug_mask="all")
    i, j = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, data.draw(st.integers(1, rows))])
    k0, k1 = sch.split(j, [None, data.draw(st.integers(1, keys))])
    sch.reorder(i0, k0, i1, k1) if data.draw(st.booleans()) else sch.reorder(i0, i1, k0, k1)
    if any(block.name == "W" for block in all_blocks(sch._root("main"))):
        sch.compute_at("W", data.draw(st.sampled_from([k0, i0, k1])))
    sch.decompose_reduction("C", k0)
    loop = data.draw(st.sampled_from([k0, k0, k1, i0]))
    try:
        sch.skip_masked(loop)
    except ScheduleError:
        event("refused")
        return
    event("left out" if skipping(sch) else "nothing left out")
    for seed in (0, 1):
        assert_same_to_the_bit(func, sch, special_arrays(func, seed))
    assert_replays(sch, func)


# ---- refusals ---------------------------------------------------------------------------------------------------


def test_a_reduction_with_its_init_is_refused() -> None:
    func = triangular()
    sch = Schedule(func)
    loop, _ = sch.split(sch.get_loops("C")[1], [None, 4])
    assert_refused(sch, lambda: sch.skip_masked(loop), "without an init")


def test_a_mask_that_the_loop_does_not_decide_is_refused() -> None:
    rows = te.placeholder((4, 4), "float32", name="A")
    func = te.create_prim_func(
        [rows, te.compute((4, 4), lambda i, j: te.if_then_else(i < 2, rows[i, j], 0.0), name="C")]
    )
    sch = Schedule(func)
    inner = sch.get_loops("C")[1]
    assert_refused(sch, lambda: sch.skip_masked(inner), "'j'", "that its iterations decide")


LOOPS = """@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), n: T.Buffer((8,), "int32"), C: T.Buffer((8,), "float32")):
    W = T.alloc_buffer((8, 8))
    for i in range(8):
        with T.block("begin"):
            vi = T.axis.spatial(8, i)
            C[vi] = {begin}
        with T.block("again"):
            vi = T.axis.spatial(8, i)
            C[vi] = {again}
        for k in range(8):
            with T.block("W"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.spatial(8, k)
                W[vi, vk] = {weight}
            with T.block("W_too"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.spatial(8, k)
                W[vi, vk] = {weight_too}
            if {where}:
                with T.block("C"):
                    vi = T.axis.spatial(8, i)
                    vk = T.axis.reduce(8, k)
                    C[vi] = C[vi] + {value}
"""
MASKED = "T.if_then_else(vk <= vi, A[vi, vk], T.float32(0))"


def program(
    value: str = MASKED,
    begin: str = "T.float32(0)",
    again: str = "C[vi] + A[vi, 0]",
    weight: str = "T.float32(1)",
    weight_too: str = "W[vi, vk]",
    where: str = "",
) -> PrimFunc:
    """Blocks ``begin``, ``W``, ``W_too`` and ``C``, a sum."""
    text = LOOPS.format(
        value=value, begin=begin, again=again, weight=weight, weight_too=weight_too, where=where
    )
    if not where:
        head, tail = text.split("            if :\n")
        text = head + "\n".join(line.removeprefix("    ") for line in tail.split("\n"))
    return from_source(text)


def skipped_of(func: PrimFunc) -> set[str]:
    """The blocks that are left out, if the program means the same then."""
    sch = Schedule(func, debug_mask="all")
    sch.skip_masked(sch.get_loops("C")[1])
    for seed in range(8):
        assert_same_to_the_bit(func, sch, special_arrays(func, seed))
    return skipping(sch)


@pytest.mark.parametrize(
    ("changed", "skipped"),
    [
        ({}, {"C", "W", "W_too"}),  # W is read by nobody
        ({"begin": "T.float32(-0.0)"}, {"W", "W_too"}),  # -0.0 + 0.0 is 0.0
        ({"begin": "T.float32(-0.0)", "value": MASKED.replace("(0)", "(-0.0)")}, {"C", "W", "W_too"}),
        ({"begin": "A[vi, 0]"}, {"W", "W_too"}),  # which may be -0.0
        ({"again": "A[vi, 0]"}, {"W", "W_too"}),
        ({"begin": "C[vi] + A[vi, 0]"}, {"W", "W_too"}),  # the caller's may be, too
        ({"begin": "T.float32(7)"}, {"C", "W", "W_too"}),
        ({"value": f"W[vi, vk] * {MASKED}"}, {"C", "W", "W_too"}),
        ({"value": f"W[vi, vk] * {MASKED}", "weight": "A[vi, vk]"}, {"W_too"}),  # which may be infinite
        (
            {"value": f"W[vi, vk] * {MASKED}", "weight_too": "T.float32(2)"},
            set(),
        ),  # 1 or 2, nobody looks which
        ({"value": f"W[vi, vk] * {MASKED}", "weight_too": "T.float32(1)"}, {"C", "W", "W_too"}),
        (
            {"value": "T.if_then_else(vk <= vi, W[vi, vk], T.float32(0))", "weight": "A[vi, vk]"},
            {"C", "W", "W_too"},
        ),
        (
            {"value": "T.Select(vk <= vi, W[vi, vk], T.float32(0))", "weight": "A[vi, vk]"},
            {"C", "W", "W_too"},
        ),
        ({"value": MASKED + " * T.if_then_else(vk <= vi + 2, A[vi, vk], T.float32(1))"}, {"C", "W", "W_too"}),
        ({"value": "A[vi, vk] * T.if_then_else(vk <= vi + 2, A[vi, vk], T.float32(1))"}, {"W", "W_too"}),
    ],
)
def test_what_is_left_out(changed: dict[str, str], skipped: set[str]) -> None:
    func = program(**changed)
    if skipped:
        assert skipped_of(func) == skipped
    else:
        sch = Schedule(func)
        assert_refused(sch, lambda: sch.skip_masked(sch.get_loops("C")[1]), "still stores")


SUMS_OF_SUMS = """@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    D = T.alloc_buffer((8,), "float32")
    B = T.alloc_buffer((8, 8), "float32")
    for i in range(8):
        with T.block("begin"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.float32(0)
        with T.block("begin_D"):
            vi = T.axis.spatial(8, i)
            D[vi] = T.float32(1)
        for k in range(8):
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(8, k)
                D[vi] = D[vi] + T.if_then_else(vk <= vi, A[vi, vk], T.float32(0))
            with T.block("zero"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.spatial(8, k)
                B[vi, vk] = T.float32(0)
            with T.block("copy"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.spatial(8, k)
                B[vi, vk] = D[vi]
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(8, k)
                C[vi] = C[vi] + B[vi, vk]
"""


def test_what_was_there_before_the_iteration_is_no_constant() -> None:
    """The sum D stays as it is where all is hidden; so B is not the 0 that was stored first, but what D is, which counts in C."""
    assert skipped_of(from_source(SUMS_OF_SUMS)) == {"D"}


@pytest.mark.parametrize(
    "mask",
    [
        "vk - 2147483647 <= vi",
        "vk >= vi - 2147483647",
        "-2147483648 <= vk - vi",
        "vk * 300000000 <= vi * 300000000",
        "vk - 2147483640 <= vi - 2147483647",
    ],
)
def test_masks_of_numbers_that_no_index_comes_near_are_no_masks(mask: str) -> None:
    """What is left of both sides would not fit into their type."""
    sch = Schedule(program(value=MASKED.replace("vk <= vi", mask)))
    assert_refused(sch, lambda: sch.skip_masked(sch.get_loops("C")[1]), "is a comparison of indices")


@pytest.mark.parametrize(("bound", "is_mask"), [("m", True), ("m * 7", True), ("m * 9", False)])
def test_numbers_of_unknown_size_keep_away_from_the_ends_of_their_type(bound: str, is_mask: bool) -> None:
    text = program(value=MASKED.replace("vk <= vi", "vk - 77 <= vi")).script()
    func = from_source(text.replace("77", bound).replace("def main(", "def main(m: T.int32, "))
    sch = Schedule(func)
    if is_mask:
        sch.skip_masked(sch.get_loops("C")[1])
        assert "C" in skipping(sch)
    else:
        assert_refused(sch, lambda: sch.skip_masked(sch.get_loops("C")[1]), "is a comparison of indices")


def test_masks_that_hide_at_different_places_are_told_apart() -> None:
    """Behind i nothing of the first factor counts; but the second one, 1 where it is hidden, may be infinite up to i + 2."""
    func = program(
        value="T.if_then_else(vk <= vi, A[vi, vk], T.float32(1)) * T.if_then_else(vk <= vi + 2, A[vi, vk], T.float32(0))"
    )
    assert skipped_of(func) == {"C", "W", "W_too"}
    text = main_of_skipped(func)
    assert (
        "T.ignore_loop_partition(i - k + 2 >= 0)" in text
        and "T.ignore_loop_partition(i - k >= 0)" not in text
    )


@pytest.mark.parametrize(
    "value",
    [
        "T.if_then_else(vk <= vi, A[vi, vk], T.float32(1)) * T.if_then_else(vk <= vi + 1, A[vi, vk], T.float32(0))",
        f"({MASKED} + T.if_then_else(vk <= vi - 2, A[vi, vk], T.float32(0)))",
        f"(T.if_then_else(vk <= vi - 2, A[vi, vk], T.float32(0)) + {MASKED})",
    ],
)
def test_masks_a_step_apart(value: str) -> None:
    assert "C" in skipped_of(program(value=value))


def test_a_zero_of_the_other_sign_is_another_constant() -> None:
    """-0.0 + 0.0 is 0.0, so that W decides."""
    zero = MASKED.replace("(0)", "(-0.0)")
    func = program(
        value=f"W[vi, vk] + {zero}",
        begin="T.float32(-0.0)",
        again="C[vi] + T.float32(-0.0)",
        weight="T.float32(-0.0)",
        weight_too="T.float32(0)",
    )
    sch = Schedule(func)
    assert_refused(sch, lambda: sch.skip_masked(sch.get_loops("C")[1]), "still stores")


def test_an_array_of_the_caller_is_written() -> None:
    """Nobody in the program reads it."""
    text = re.sub(r"\n *W = T.alloc_buffer[^\n]*", "", program(weight="A[vi, vk]").script())
    text = text.replace(', n: T.Buffer((8,), "int32")', ', W: T.Buffer((8, 8), "float32")')
    assert skipped_of(from_source(text)) == {"C", "W_too"}


@pytest.mark.parametrize("reader", ["value", "where"])
def test_what_is_read_behind_the_loop_is_written(reader: str) -> None:
    lines = [
        "    for z in range(8):",
        '        with T.block("behind"):',
        "            v = T.axis.spatial(8, z)",
        "            T.where(W[z, 7] > T.float32(0))" if reader == "where" else "",
        "            C[v] = C[v] + T.float32(1)"
        if reader == "where"
        else "            C[v] = C[v] + W[v, 7]",
    ]
    text = LOOPS.format(
        value=MASKED,
        begin="T.float32(0)",
        again="C[vi]",
        weight="A[vi, vk]",
        weight_too="W[vi, vk]",
        where="k < 9",
    )
    head, tail = text.split("            if k < 9:\n")
    text = head + "\n".join(line.removeprefix("    ") for line in tail.split("\n"))
    func = from_source(text + "\n".join(line for line in lines if line) + "\n")
    assert not {"W", "begin"} & skipped_of(func)


@pytest.mark.parametrize(("hidden", "is_left_out"), [("1", True), ("2", False), ("0", False)])
def test_a_product_stays_as_it_is_by_one(hidden: str, is_left_out: bool) -> None:
    func = from_source(
        program(value=MASKED.replace("(0)", f"({hidden})"), begin="T.float32(3)")
        .script()
        .replace("C[vi] = C[vi] + T.if_then_else", "C[vi] = C[vi] * T.if_then_else")
    )
    assert ("C" in skipped_of(func)) == is_left_out


def test_loops_that_begin_elsewhere_reach_elsewhere() -> None:
    text = """@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("begin"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.float32(0)
        for k0 in range(4):
            for k1 in range(1, 3):
                with T.block("C"):
                    vi = T.axis.spatial(8, i)
                    vk = T.axis.reduce(8, k0 * 2 + k1 - 1)
                    C[vi] = C[vi] + T.if_then_else(vk <= vi, A[vi, vk], T.float32(0))
"""
    sch = Schedule(from_source(text))
    assert_refused(sch, lambda: sch.skip_masked(sch.get_loops("C")[1]), "is a comparison of indices")


def main_of_skipped(func: PrimFunc) -> str:
    sch = Schedule(func)
    sch.skip_masked(sch.get_loops("C")[1])
    predicates = [str(block.predicate) for block in all_blocks(sch._root("main")) if block.name == "C"]
    return " ".join(predicates)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value": MASKED.replace("vk <= vi", "vk <= n[vi]")}, "is a comparison of indices"),
        ({"value": MASKED.replace("vk <= vi", "A[vi, vk] > T.float32(0)")}, "is a comparison of indices"),
        ({"where": "n[i] > 0"}, "below a statement IfThenElse"),
        ({"weight": 'T.call_extern("float32", "noise")'}, "may have effects"),
    ],
)
def test_refusals(options: dict[str, str], message: str) -> None:
    func = program(**options)
    sch = Schedule(func)
    loop = sch.get_loops("C")[1]
    assert_refused(sch, lambda: sch.skip_masked(loop), message)
