"""What an iteration in which a mask hides everything may not leave out: constants that are there later, in a part, or under another name;
results that somebody reads after all; conditions whose numbers may not fit into their type.

Each program is the least in which one more claim would be wrong. What is left out is compared with the program itself by the interpreter,
which also refuses to read what nobody wrote.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from textwrap import indent
from typing import Any

import numpy as np
import pytest

from ir import tir
from ir.script import from_source
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.masked import Iteration, percentage_seen
from schedules.tree import all_blocks

from .checks import assert_refused, main_of, outputs_of
from .primitive.test_skip_masked import in_tiles, skipping, special_arrays, triangular


def block(name: str, statements: str, where: str = "", **variables: str) -> str:
    """A block whose variables, of 8 values each, are bound to expressions; ``vr`` reduces."""
    lines = [
        f"{var} = T.axis.{'reduce' if var == 'vr' else 'spatial'}(8, {value})"
        for var, value in variables.items()
    ]
    lines += [f"T.where({where})"] if where else []
    return f'with T.block("{name}"):\n' + indent("\n".join([*lines, statements]), "    ")


def loop(var: str, extent: object, *body: str) -> str:
    """A loop around statements."""
    return f"for {var} in range({extent}):\n" + indent("\n".join(body), "    ")


HIDDEN = "T.if_then_else(vr <= vi, A[vi, vr], T.float32(0))"
BEGIN = block("begin", "C[vi] = T.float32(0)", vi="i")
FILL = loop("j", 8, block("fill", "W[vi, vj] = A[vi, vj]", vi="i", vj="j"))
"""Before the loop, numbers of which some are infinite."""


def total(value: str = HIDDEN) -> str:
    """Block ``C``, which adds something in each iteration."""
    return block("C", f"C[vi] = C[vi] + {value}", vi="i", vr="k")


def element(name: str, statements: str) -> str:
    """A block of one element in each iteration."""
    return block(name, statements, vi="i", vk="k")


def program(
    *inside: str,
    before: Sequence[str] = (BEGIN,),
    behind: Sequence[str] = (),
    memory: str = "W = T.alloc_buffer((8, 8))",
    given: str = "",
    extent: int = 8,
    first: int = 0,
) -> PrimFunc:
    """Statements in loops over i, of eight values from the ``first`` on, and k; ``memory`` that the function has, and more parameters that
    it is ``given``.
    """
    parameters = (
        f'A: T.Buffer((8, 8), "float32"), n: T.Buffer((8,), "int32"), {given}C: T.Buffer((8,), "float32")'
    )
    rows = loop("i", f"{first}, {first + 8}", *before, loop("k", extent, *inside))
    rows = rows.replace("spatial(8, i)", f"spatial(8, i + {-first})")
    body = "\n".join([memory, rows, *behind])
    return from_source(f"@T.prim_func\ndef main({parameters}):\n" + indent(body, "    "))


def assert_same(func: PrimFunc, sch: Schedule) -> None:
    """All parameters are the same to the bit after both programs, beside infinities, NaN and zeros of either sign."""
    for seed in range(6):
        arrays = special_arrays(func, seed)
        with np.errstate(all="ignore"):
            before, after = outputs_of(func, arrays), outputs_of(main_of(sch), arrays)
        for expected, found in zip(before, after, strict=True):
            np.testing.assert_array_equal(found, expected)
            zeros = expected == 0
            np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


def left_out(func: PrimFunc) -> set[str]:
    """The blocks that run in some iterations of the loop over k only."""
    sch = Schedule(func, debug_mask="all")
    sch.skip_masked(sch.get_loops("C")[1])
    assert_same(func, sch)
    return skipping(sch)


def assert_all_is_computed(func: PrimFunc, message: str = "still stores") -> None:
    sch = Schedule(func)
    assert_refused(sch, lambda: sch.skip_masked(sch.get_loops("C")[1]), message)


# ---- constants --------------------------------------------------------------------------------------------------

WEIGHTED = total(f"W[vi, vr] * {HIDDEN}")
ONES = element("ones", "W[vi, vk] = T.float32(1)")


def test_a_constant_counts_for_those_who_read_it_later() -> None:
    """Before it is written, there is an infinity, which 0 does not hide."""
    assert left_out(program(ONES, WEIGHTED, before=[BEGIN, FILL])) == {"C"}
    assert_all_is_computed(program(WEIGHTED, ONES, before=[BEGIN, FILL]))


@pytest.mark.parametrize(
    ("written", "read", "is_enough"),
    [
        (("j", 4, ""), ("j", 4), True),
        (("j", 4, ""), ("j", 3), True),
        (("j", 3, ""), ("j", 4), False),
        (("j + 1", 3, ""), ("j", 4), False),
        (("j", 4, "j < 3"), ("j", 4), False),
        (("j * 2", 2, ""), ("j", 3), False),  # not the one between
        (("j * 2", 2, ""), ("j * 2", 2), False),  # nobody counts steps
    ],
)
def test_a_constant_counts_where_it_is_written(
    written: tuple[str, int, str], read: tuple[str, int], is_enough: bool
) -> None:
    index, count, where = written
    ones = block("ones", "W[vi, vj] = T.float32(1)", where, vi="i", vj=f"k * 4 + {index}")
    reader = block("C", f"C[vi] = C[vi] + W[vi, vr] * {HIDDEN}", vi="i", vr=f"k * 4 + {read[0]}")
    func = program(loop("j", count, ones), loop("j", read[1], reader), before=[BEGIN, FILL], extent=2)
    if is_enough:
        assert left_out(func) == {"C"}
    else:
        assert_all_is_computed(func)


def test_a_constant_is_there_for_the_second_who_writes_it() -> None:
    """Of an array of the caller: the first one must write it."""
    func = program(
        ONES, element("again", "W[vi, vk] = T.float32(1)"), total(),
        memory="", given='W: T.Buffer((8, 8), "float32"), ',
    )  # fmt: skip
    assert left_out(func) == {"C", "again"}


@pytest.mark.parametrize(
    ("before", "is_left_out"),
    [
        ([block("begin", "C[vi] = T.float32(0)", "i < 4", vi="i")], False),  # the other rows begin as the caller left them
        ([BEGIN, block("next", "C[vi] = A[vi, 0] + C[vi]", vi="i")], True),
        ([BEGIN, block("next", "C[vi] = A[vi, 0] - C[vi]", vi="i")], False),  # -0.0 - 0.0 is -0.0
        ([BEGIN, block("next", "if A[vi, 0] > T.float32(0):\n    C[vi] = T.float32(-0.0)", vi="i")], False),
    ],
)  # fmt: skip
def test_a_sum_to_which_zero_is_added_must_not_be_the_negative_zero(
    before: list[str], is_left_out: bool
) -> None:
    func = program(total(), before=before)
    if is_left_out:
        assert left_out(func) == {"C"}
    else:
        assert_all_is_computed(func)


def test_a_zero_that_is_stored_behind_the_sum_says_nothing_of_how_it_began() -> None:
    func = program(
        total(), before=[], given='D: T.Buffer((8,), "float32"), ',
        behind=[loop("z", 8, block("kept", "D[v] = C[v]", v="z"), block("end", "C[v] = T.float32(0)", v="z"))],
    )  # fmt: skip
    assert_all_is_computed(func)


def test_integers_have_one_zero() -> None:
    """Nobody has to know how the sum began."""
    update = block("C", "E[vi] = E[vi] + T.if_then_else(vr <= vi, n[vr], 0)", vi="i", vr="k")
    assert left_out(program(update, given='E: T.Buffer((8,), "int32"), ')) == {"C"}


@pytest.mark.parametrize(
    "statements",
    [
        "V = T.match_buffer(W[vi, vk], (1, 1), 'float32', offset_factor=1)\nV[0, 0] = T.float32(1)",
        "V = T.alloc_buffer((1,), 'float32')\nV[0] = T.float32(1)",
    ],
)
def test_blocks_with_names_of_their_own_for_memory_run(statements: str) -> None:
    assert left_out(program(element("named", statements), total())) == {"C"}


def test_a_store_under_a_predicate_is_not_left_out() -> None:
    """Beside the mask, it would have to be said again where nothing is hidden."""
    update = block("C", f"C.vstore([vi], C[vi] + {HIDDEN}, predicate=vr < 5)", vi="i", vr="k")
    assert_all_is_computed(program(update))


def test_a_reduction_that_begins_itself_is_not_left_out() -> None:
    """It begins in an iteration that is hidden."""
    least = "T.float32(float('-inf'))"
    begins = f"with T.init():\n    C[vi] = {least}\n"
    hidden = f"T.if_then_else(vr > vi, A[vi, vr], {least})"
    update = block("C", f"{begins}C[vi] = T.max(C[vi], {hidden})", vi="i", vr="k")
    assert_all_is_computed(program(update, before=[]), "without an init")


# ---- who reads it -----------------------------------------------------------------------------------------------

SOURCE = element("W", "W[vi, vk] = A[vi, vk]")


def test_what_the_next_iteration_reads_is_written() -> None:
    """In the last one that is hidden."""
    update = total("T.if_then_else(vr > vi, W[vi], T.float32(0))")
    source = block("W", "W[vi] = A[vi, vr]", vi="i", vr="k")
    memory = "W = T.alloc_buffer((8,))"
    assert left_out(program(update, source, memory=memory)) == {"C"}
    assert left_out(program(source, update, memory=memory)) == {"C", "W"}


def test_what_a_reduction_with_an_init_reads_is_written() -> None:
    reads = "with T.init():\n    D[vi, vk] = T.float32(0)\nD[vi, vk] = D[vi, vk] + W[vi, vk]"
    reader = loop("r", 2, block("D", reads, vi="i", vk="k", vr="r"))
    func = program(SOURCE, reader, total(), given='D: T.Buffer((8, 8), "float32"), ')
    assert left_out(func) == {"C"}


def test_what_is_read_by_what_is_read_is_written() -> None:
    func = program(
        element("V", "V[vi, vk] = A[vi, vk]"),
        element("W", "W[vi, vk] = V[vi, vk]"),
        element("D", "D[vi, vk] = W[vi, vk]"),
        total(),
        memory="V = T.alloc_buffer((8, 8))\nW = T.alloc_buffer((8, 8))",
        given='D: T.Buffer((8, 8), "float32"), ',
    )
    assert left_out(func) == {"C"}


@pytest.mark.parametrize(
    ("value", "skipped"),
    [
        ("T.if_then_else(vr <= vi, W[vi, vr], T.float32(0))", {"W"}),
        ("T.Select(vr <= vi, W[vi, vr], T.float32(0))", set()),  # which evaluates both sides
        ("T.if_then_else(vr <= vi, T.float32(0), W[vi, vr])", set()),
    ],
)
def test_the_side_that_is_hidden_is_not_read(value: str, skipped: set[str]) -> None:
    """Of a sum that begins as -0.0, perhaps, and is updated in each iteration for that."""
    func = program(SOURCE, total(value), before=[block("begin", "C[vi] = A[vi, 0]", vi="i")])
    if skipped:
        assert left_out(func) == skipped
    else:
        assert_all_is_computed(func)


def test_what_says_where_something_is_stored_is_written() -> None:
    func = program(
        element("P", "P[vi, vk] = vk"),
        element("D", "D[vi, P[vi, vk]] = A[vi, vk]"),
        total(),
        memory='P = T.alloc_buffer((8, 8), "int32")',
        given='D: T.Buffer((8, 8), "float32"), ',
    )
    assert left_out(func) == {"C"}


# ---- conditions -------------------------------------------------------------------------------------------------


def in_two_tiles(condition: str) -> PrimFunc:
    """A sum under a condition on vi and vr, in tiles of four."""
    hidden = f"T.if_then_else({condition}, A[vi, vr], T.float32(0))"
    update = block("C", f"C[vi] = C[vi] + {hidden}", vi="i", vr="k * 4 + j")
    return program(loop("j", 4, update), extent=2)


def test_a_condition_that_is_a_mask_in_part_stays_where_nothing_is_hidden() -> None:
    func = program(total("T.if_then_else(vr <= vi and A[vi, vr] > T.float32(0), A[vi, vr], T.float32(0))"))
    assert left_out(func) == {"C"}


def test_a_block_is_left_out_wherever_one_of_its_masks_hides_everything() -> None:
    """A band: behind i, and so far before it."""
    func = program(total("T.if_then_else(vr <= vi and vi < vr + 3, A[vi, vr], T.float32(0))"))
    sch = Schedule(func, debug_mask="all")
    sch.skip_masked(sch.get_loops("C")[1])
    assert_same(func, sch)
    (update,) = (item for item in all_blocks(sch._root("main")) if item.name == "C")
    runs = {
        (i, k) for i in range(8) for k in range(8) if holds(update.predicate, dict(zip(("i", "k"), (i, k))))
    }
    assert runs == {(i, k) for i in range(8) for k in range(i - 2, i + 1) if k >= 0}


def holds(predicate: tir.PrimExpr, values: dict[str, int]) -> bool:
    """A predicate as Python computes it."""
    text = str(predicate)
    for mark in ("T.ignore_loop_partition", "ignore_loop_partition"):
        text = text.replace(mark, "")
    return bool(eval(text, {}, dict(values)))


def test_a_tile_of_which_one_of_two_masks_hides_nothing_keeps_both() -> None:
    """A band that is narrower than a tile."""
    assert left_out(in_two_tiles("vr <= vi and vi < vr + 3")) == {"C"}


def test_a_loop_that_runs_once_decides_nothing() -> None:
    sch, once = in_tiles(triangular(), size=8)
    assert_refused(sch, lambda: sch.skip_masked(once), "that its iterations decide")


def test_a_condition_on_a_name_that_ends_in_the_block_is_no_mask() -> None:
    hidden = "T.Let(T.if_then_else(vr <= t, A[vi, vr], T.float32(0)), where={t: vi - 1})"
    update = block("C", f"t = T.int32()\nC[vi] = C[vi] + {hidden}", vi="i", vr="k")
    assert_all_is_computed(program(update), "is a comparison of indices")


def test_a_condition_in_loops_that_say_how_far_others_run_is_no_mask() -> None:
    """How much is hidden is not the same in all of the iteration."""
    hidden = "T.if_then_else(vr >= vi, A[vi, vr], T.float32(0))"
    update = block("C", f"C[vi] = C[vi] + {hidden}", vi="i", vr="k * 4 + j + l")
    func = program(loop("j", 2, loop("l", "j + 1", update)), extent=2)
    assert_all_is_computed(func, "is a comparison of indices")


MOST = 2**31 - 1


@pytest.mark.parametrize(("distance", "fits"), [(MOST - 11, True), (MOST - 10, False)])
def test_a_number_that_just_fits_its_type_is_a_mask(distance: int, fits: bool) -> None:
    """What is left of the comparison is ``i - k * 4`` and the distance; i is 7 at most, and the second tile begins at 4."""
    half = distance // 2
    func = in_two_tiles(f"vr - {half} <= vi + {distance - half}")
    if fits:
        assert left_out(func) == {"C"}
    else:
        assert_all_is_computed(func, "is a comparison of indices")


@pytest.mark.parametrize(("factor", "fits"), [(MOST // 14, True), (MOST // 14 + 1, False)])
def test_the_other_end_of_what_a_mask_reaches_fits_too(factor: int, fits: bool) -> None:
    """Between the first and the last key of a tile are three times the factor more: 7 and 4 and 3 times it, where 11 times fit."""
    func = in_two_tiles(f"vr * {factor} <= vi * {factor}")
    if fits:
        assert left_out(func) == {"C"}
    else:
        assert_all_is_computed(func, "is a comparison of indices")


def test_wider_numbers_fit_wider_types() -> None:
    text = in_two_tiles("vr * 300000000 <= vi * 300000000").script()
    for narrow in ("range(8)", "grid(2, 4)", "spatial(8,", "reduce(8,", "k * 4 +", "* 300000000"):
        assert narrow in text
        text = text.replace(narrow, re.sub(r"(\d+)", r"T.int64(\1)", narrow))
    assert left_out(from_source(text)) == {"C"}


@pytest.mark.parametrize(("factor", "fits"), [(100000000, True), (200000000, False)])
def test_loops_below_zero_reach_as_far_as_their_beginning(factor: int, fits: bool) -> None:
    """The row is i + 8, of which both terms are 8 at most."""
    func = program(total(HIDDEN.replace("vr <= vi", f"vr <= vi * {factor}")), first=-8)
    if fits:
        assert left_out(func) == {"C"}
    else:
        assert_all_is_computed(func, "is a comparison of indices")


# ---- refusals ---------------------------------------------------------------------------------------------------


def test_statements_beside_the_blocks_are_refused() -> None:
    func = program("n[k] = 1", total())
    assert_all_is_computed(func, "loop 'k' holds statements that are in no block")


@pytest.mark.parametrize("is_behind", [False, True])
def test_memory_of_two_names_is_refused(is_behind: bool) -> None:
    """Nobody reads W by its name."""
    other = 'V = T.Buffer((8, 8), "float32", data=W.data)'
    behind = loop("x", 8, loop("y", 8, block("D", "D[v, w] = V[v, w]", v="x", w="y")))
    inside = [] if is_behind else [element("D", "D[vi, vk] = V[vi, vk]")]
    func = program(
        SOURCE, *inside, total(), memory=f"W = T.alloc_buffer((8, 8))\n{other}",
        behind=[behind] if is_behind else [], given='D: T.Buffer((8, 8), "float32"), ',
    )  # fmt: skip
    assert_all_is_computed(func, "touches memory that is both W and V")


# ---- how much is left -------------------------------------------------------------------------------------------

I, K, N = (tir.Var(name, "int32") for name in "ikn")


def share(rows: int, keys: int, band: int | None = None) -> int:
    """In percent, rounded up, by counting."""
    seen = [k <= i and (band is None or i - k < band) for i in range(rows) for k in range(keys)]
    return math.ceil(100 * sum(seen) / len(seen))


@pytest.mark.parametrize(
    ("masks", "extents", "most", "expected"),
    [
        ([I - K], (4, 4), 16, share(4, 4)),
        ([I - K], (4, 4), 15, None),
        ([I - K], (3, 7), 99, share(3, 7)),
        ([I - K, K - I + 1], (8, 8), 64, share(8, 8, 2)),
        ([I - 1], (4, 1 << 40), 16, 75),  # of what no mask names there may be any number
        ([], (4, 4), 16, None),
        ([I - K], (4, 0), 16, None),
        ([I - K], (4, N), 16, None),
        ([I - K + N], (4, 4), 16, None),
    ],
)
def test_how_many_places_are_seen(
    masks: list[tir.PrimExpr], extents: tuple[Any, Any], most: int, expected: int | None
) -> None:
    domains = {
        var: tir.IntImm("int64", extent) if isinstance(extent, int) else extent
        for var, extent in zip((I, K), extents)
    }
    assert percentage_seen(masks, domains, most) == expected


def test_how_many_iterations_are_left() -> None:
    """Of two tiles of keys of each of eight rows: the second from the fifth row on."""
    sch, outer = in_tiles(triangular())
    assert Iteration(sch._loop(outer)).percentage_left() == 75


def test_where_loops_begin_elsewhere_nobody_counts_iterations() -> None:
    sch = Schedule(program(total(), first=-8))
    assert Iteration(sch._loop(sch.get_loops("C")[1])).percentage_left() is None
