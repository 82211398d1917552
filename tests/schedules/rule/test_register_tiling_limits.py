"""Limits and marks of register tiles: which tiles are in a space, counted one by one; which operands are packed; how loops run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product as combinations
from math import ceil, prod
from typing import Any

import numpy as np
import pytest

from ir import te, topi
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.kernel_attributes import DOT_PRODUCT, LAYOUT_FREE_BUFFERS, LAYOUT_REWRITE_PREPROC
from schedules import Schedule, ScheduleError
from schedules.annotation import PARALLEL, UNROLL, VECTORIZE
from schedules.block_facts import node_of
from schedules.population import Sketch
from schedules.population.sketch import SketchSchedule
from schedules.rule import RegisterTiling
from schedules.rule.padding import RegisterFile, choose_padding
from schedules.rule.register_tile import (
    FactorLimits,
    keep_cores_busy,
    mark_register_tile,
    panel_map,
    split_loops,
)
from schedules.tree import all_blocks
from tests.programs.expressions import elementwise, matmul_relu, row_sum

from ..checks import assert_same_meaning

LANES, REGISTERS = 16, 32
"""Of float32 on the machine below."""


def machine(cores: int = 2, options: str = "") -> Target:
    return Target(f"llvm -mcpu=skylake-avx512 -num-cores {cores}{options}")


TINY_CACHES = machine(options=" -l1-cache-bytes=512 -l2-cache-bytes=1024")
"""Of which no panel fits one, so that reductions are offered in blocks."""


def product(
    rows: int, columns: int, steps: int, transposed: bool = False, batch: int | None = None
) -> PrimFunc:
    """Block ``C``, the product of A and B, in a batch of each if that is given."""
    more = [] if batch is None else [batch]
    a = te.placeholder((*more, rows, steps), name="A")
    b = te.placeholder((*more, columns, steps) if transposed else (*more, steps, columns), name="B")
    k = te.reduce_axis((0, steps), "k")

    def term(i: Any, j: Any, *place: Any) -> Any:
        return te.sum(a[(*place, i, k)] * b[(*place, j, k) if transposed else (*place, k, j)], axis=k)

    if batch is None:
        c = te.compute((rows, columns), lambda i, j: term(i, j), name="C")
    else:
        c = te.compute((batch, rows, columns), lambda b, i, j: term(i, j, b), name="C")
    return te.create_prim_func([a, b, c])


def rule(target: Target | None = None, **options: Any) -> RegisterTiling:
    tiling = RegisterTiling(**options)
    tiling.initialize(machine() if target is None else target)
    return tiling


def offered(func: PrimFunc, tiling: RegisterTiling | None = None, block: str = "C") -> list[Schedule]:
    """What is offered for a block, with random tiles."""
    sch = Schedule(func, seed=0, error_render_level="none")
    return (rule() if tiling is None else tiling).apply(sch, sch.get_block(block))


def sketches(func: PrimFunc, tiling: RegisterTiling, block: str = "C") -> list[SketchSchedule]:
    """The same with open tiles."""
    start = SketchSchedule(func, seed=0)
    found = tiling.apply(start, start.get_block(block))
    assert all(isinstance(item, SketchSchedule) for item in found)
    return found  # type: ignore[return-value]


def steps_of(sch: Schedule) -> list[str]:
    assert sch.trace is not None
    return [inst.kind.name for inst in sch.trace.insts]


def packed_in(sch: Schedule) -> set[str]:
    """The operands that have panels."""
    blocks = all_blocks(sch._root("main"))
    return {item.reads[0].buffer.name for item in blocks if item.name in ("A_global", "B_global")}


MARKS = {PARALLEL: "parallel", UNROLL: "unroll", VECTORIZE: "vectorize"}


def marks_of(sch: Schedule, block: str = "C") -> dict[str, str]:
    """How the loops around a block run, by name, from the outside in."""
    loops = [sch.get(loop) for loop in sch.get_loops(block)]
    return {loop.loop_var.name: " ".join(MARKS[key] for key in loop.annotations) for loop in loops}


# ---- which tiles there are --------------------------------------------------------------------------------------


def divided(extent: int) -> list[tuple[int, int]]:
    """(tiles, size) of all tiles of an axis."""
    return [(extent // size, size) for size in range(1, extent + 1) if extent % size == 0]


def whole_vectors(extent: int) -> list[tuple[int, int]]:
    """Those of the vector axis."""
    tiles = [item for item in divided(extent) if item[1] <= 128]
    whole = [item for item in tiles if item[1] % LANES == 0]
    powers = [item for item in tiles if item[1] in (1, 2, 4, 8)]
    return whole or [max(powers, key=lambda item: item[1])]


def good_tiles(rows: int, columns: int, steps: int, cores: int) -> set[tuple[int, ...]]:
    """(rows, columns, steps) of a register tile, counted as the documents say."""
    along_rows = [item for item in divided(rows) if item[1] <= 64]
    along_columns, along_steps = whole_vectors(columns), [item for item in divided(steps) if item[1] <= 64]
    most = max(tiles for tiles, _ in along_rows) * max(tiles for tiles, _ in along_columns)
    found = set()
    for (n_rows, tall), (n_columns, wide), (_, deep) in combinations(along_rows, along_columns, along_steps):
        vectors = ceil(wide / LANES)
        sums = tall * vectors
        fits = sums + vectors + 1 <= REGISTERS  # and the vectors, and a broadcast
        is_short = sums * deep <= (112 if sums >= REGISTERS // 2 else 256)
        if fits and is_short and min(cores, most) <= n_rows * n_columns <= 64 * cores:
            found.add((tall, wide, deep))
    return found


@pytest.mark.parametrize(
    ("rows", "columns", "steps", "cores"),
    [
        (30, 16, 4, 2),  # 30 sums, a vector, a broadcast
        (31, 16, 4, 2),
        (60, 32, 2, 2),
        (32, 16, 56, 2),  # 16 sums seven times, not eight times
        (28, 32, 8, 2),  # 28 sums four times
        (16, 16, 64, 2),  # 8 sums 32 times
        (30, 16, 34, 2),  # 15 sums 17 times
        (64, 64, 2, 1),  # 64 jobs for each core
        (64, 64, 2, 2),
        (4, 16, 4, 8),  # fewer rows than cores
        (6, 32, 4, 4),
        (8, 12, 2, 2),  # vectors of four
        (8, 15, 2, 2),
        (32, 12, 2, 2),  # a part of a vector takes a register
        (8, 48, 2, 2),
        (8, 256, 2, 2),  # tiles of 128 columns at most
        (128, 16, 1, 2),
    ],
)
def test_every_tile_that_fits_the_machine_is_in_the_space(
    rows: int, columns: int, steps: int, cores: int
) -> None:
    tiling = rule(machine(cores), structure="SRRS", max_padding=0, pack_operands=False)
    (sch,) = sketches(product(rows, columns, steps), tiling)
    sketch = Sketch(sch)
    matrix = sketch.all_rows(1 << 20)
    assert matrix is not None
    sizes = {}
    for decision, column in zip(sketch.decisions, matrix.T, strict=True):
        sizes[decision.name] = decision.table[column][:, -1]  # type: ignore[union-attr]
    tiles = set(zip(*(np.broadcast_to(sizes.get(name, 1), len(matrix)).tolist() for name in "ijk")))
    assert tiles == good_tiles(rows, columns, steps, cores)


@pytest.mark.parametrize(("cores", "serial"), [(4, "i"), (4, "j"), (4, ""), (4, "ij"), (64, "i")])
def test_tiles_that_one_core_runs_are_no_jobs(cores: int, serial: str) -> None:
    sch = SketchSchedule(product(16, 512, 2), seed=0)
    block = sch.get_block("C")
    column = node_of(sch, block).iter_vars[1].var
    tiled = split_loops(sch, block, column, "SRS", FactorLimits(512, 512))
    factors = dict(zip("ij", tiled.factors["S"], strict=True))
    keep_cores_busy(sch, tiled, cores, [factors[name][0] for name in serial])
    sketch = Sketch(sch)
    matrix = sketch.all_rows(1 << 20)
    assert matrix is not None
    values = sketch.values(matrix)
    found = set(zip(*(values[sch._table[factors[name][0]]].tolist() for name in "ij")))
    shared = [position for position, name in enumerate("ij") if name not in serial]
    most = prod((16, 512)[position] for position in shared)
    expected = {
        jobs
        for jobs in combinations((1, 2, 4, 8, 16), [1 << power for power in range(10)])
        if not shared or min(cores, most) <= prod(jobs[position] for position in shared) <= 64 * cores
    }
    assert found == expected


def test_sizes_are_bounded_for_vectors_and_for_other_loops() -> None:
    """Each level of a kind has a factor."""
    tiling = rule(max_innermost_factor=4, max_vector_tile=32, pack_operands=False)
    (sch,) = sketches(product(64, 64, 64), tiling)
    tables = {decision.name: decision.table for _, decision in sch.columns}  # type: ignore[union-attr]
    assert {name: table.shape[1] for name, table in tables.items()} == {"i": 4, "j": 4, "k": 2}
    assert {name: int(table[:, -1].max()) for name, table in tables.items()} == {"i": 4, "j": 32, "k": 4}


@pytest.mark.parametrize(
    ("rows", "columns", "fits"),
    [(30, 1, True), (31, 1, False), (14, 2, True), (15, 2, False), (6, 4, True), (7, 4, False)],
)
def test_what_is_beside_the_sums_takes_registers(rows: int, columns: int, fits: bool) -> None:
    """A vector for each column, and a broadcast; with corrections two of both, so that a row more has no place."""
    assert RegisterFile(LANES, REGISTERS).fits(rows, columns) == fits
    corrected = RegisterFile(LANES, REGISTERS + columns + 1, per_column=2, others=2)
    assert corrected.fits(rows, columns) == fits


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ("", "must consist of S and R"),
        ("SSRX", "must consist of S and R"),
        ("SSR", "must end with S"),
        ("R", "must end with S"),
    ],
)
def test_structures_that_are_refused(structure: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        RegisterTiling(structure)


# ---- padding ----------------------------------------------------------------------------------------------------


def padded(func: PrimFunc, max_padding: float = 0.1) -> tuple[dict[str, int], float]:
    """Padded extents by the names of loops, and how much is gained."""
    sch = Schedule(func)
    node = node_of(sch, sch.get_block("C"))
    vector = RegisterTiling()._vector_axis(node)
    extents, gain = choose_padding(node, vector, RegisterFile(LANES, REGISTERS), max_padding)
    return {var.name.removeprefix("v_"): extent for var, extent in extents.items()}, gain


@pytest.mark.parametrize(
    ("rows", "columns", "expected", "gain"),
    [
        # Rows one by one beside four vectors: nine loads, two at a time. Then 32 tiles of six rows and one of five: two sums at a time.
        (197, 64, {"i": 198}, (197 * 4.5) / (32 * 12 + 10)),
        # Two vectors wait for their sums.
        (197, 32, {"i": 198}, (197 * 4) / 197),
        # 17 times eight numbers wait for their sums; then three times three vectors, of which eight are looked at side by side at most.
        (1, 136, {"j": 144}, (17 * 4) / (3 * 4)),
        # 29 times five vectors of one number, 11 loads; then twice five whole vectors.
        (1, 145, {"j": 160}, (29 * 5.5) / (2 * 5.5)),
        # 4 times 23 rows and a vector, 25 loads, twice; then at two sums at a time.
        (46, 64, {"i": 48}, 100 / 92),
        # Two rows and three vectors wait for their sums; then tiles of five rows.
        (74, 48, {"i": 75}, (37 * 4) / (74 * 1.5)),
    ],
)  # fmt: skip
def test_what_padding_gains(rows: int, columns: int, expected: dict[str, int], gain: float) -> None:
    """By the estimate: a multiply-add and a load cost half a cycle each, a sum is there again after four cycles."""
    found, by = padded(product(rows, columns, 8))
    assert by == pytest.approx(gain)
    assert found == expected


def test_padded_tiles_fit_the_registers_too() -> None:
    """All 29 rows beside one vector, three times: beside three vectors they would take 91 registers."""
    found, by = padded(product(29, 40, 8), max_padding=0.01)
    assert found == {"j": 48} and by == pytest.approx((5 * 15.5) / (3 * 15.5))


@pytest.mark.parametrize(("share", "expected"), [(0.01, {}), (0.03, {"i": 38})])
def test_extents_grow_by_a_share_at_most(share: float, expected: dict[str, int]) -> None:
    """37 rows by one, which is less than three hundredths and more than one."""
    assert padded(product(37, 64, 8), share)[0] == expected


def test_the_loop_of_the_axis_is_padded() -> None:
    (sch, *_) = sketches(product(8, 27, 6), rule())
    assert [decision.extent for _, decision in sch.columns] == [8, 32, 6]  # type: ignore[union-attr]


def test_only_axes_that_use_vectors_again_are_padded() -> None:
    """Each product of a batch has a matrix of its own: 197 of them are 197 times one row."""
    assert padded(product(1, 64, 8, batch=197))[0] == {}
    assert padded(product(197, 64, 8, batch=3))[0] == {"i": 198}


def test_a_single_column_is_no_vector_of_padding() -> None:
    assert "j" not in padded(product(197, 1, 64))[0]


@pytest.mark.parametrize(
    ("rows", "columns", "expected"), [("n", "60", {"j": 64}), ("197", "n", {}), ("n", "n", {})]
)
def test_an_extent_that_nobody_knows_is_not_padded(rows: str, columns: str, expected: dict[str, int]) -> None:
    func = from_source(f"""@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, ({rows}, 8))
    B = T.match_buffer(b, (8, {columns}))
    D = T.match_buffer(c, ({rows}, {columns}))
    for i, j, k in T.grid({rows}, {columns}, 8):
        with T.block("C"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[v_i, v_j] = T.float32(0)
            D[v_i, v_j] = D[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
""")
    assert padded(func)[0] == expected


@pytest.mark.parametrize(
    ("rows", "third", "steps", "expected"),
    [
        (1, lambda s, i, j: s[j, j], 197, {}),  # steps use it again, but they are no rows
        (197, lambda s, i, j: s[i, j], 8, {"i": 198}),  # rows use the vectors of one of two operands again
    ],
)
def test_rows_are_axes_of_results_that_use_some_vectors_again(
    rows: int, third: Callable[..., Any], steps: int, expected: dict[str, int]
) -> None:
    a, b = te.placeholder((rows, steps), name="A"), te.placeholder((steps, 64), name="B")
    s, k = te.placeholder((197, 197), name="S"), te.reduce_axis((0, steps), "k")
    c = te.compute((rows, 64), lambda i, j: te.sum(a[i, k] * b[k, j] * third(s, i, j), axis=k), name="C")
    assert padded(te.create_prim_func([a, b, s, c]))[0] == expected


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (64, 64, [{}]),  # nothing is gained
        (46, 64, [{"i": 48}, {}]),  # by a factor of 1.09
        (74, 48, [{"i": 75}]),  # by 1.33
    ],
)
def test_padding_is_offered_beside_divisors_where_it_may_pay(
    rows: int, columns: int, expected: list[dict[str, int]]
) -> None:
    sch = Schedule(product(rows, columns, 8))
    node = node_of(sch, sch.get_block("C"))
    tiling = rule()
    found = tiling._paddings(node, tiling._vector_axis(node))
    assert [
        {var.name.removeprefix("v_"): extent for var, extent in item.items()} for item in found
    ] == expected


def test_blocks_of_a_reduction_stand_around_the_first_forms_of_tiles() -> None:
    """Padded where the others are, and packed where some are."""
    tiling = rule(TINY_CACHES)
    found = sketches(product(46, 64, 64), tiling)
    blocked = [item for item in found if "RFactor" in steps_of(item)]
    assert blocked
    for item in blocked:
        assert packed_in(item) == {"B"}
        extents = {decision.extent for _, decision in item.columns}  # type: ignore[union-attr]
        assert 48 in extents and 46 not in extents


@pytest.mark.parametrize("is_constant", [False, True])
def test_the_last_panel_may_end_behind_the_operand(is_constant: bool) -> None:
    func = product(7, 27, 6)
    if is_constant:
        func = func.with_attr(LAYOUT_FREE_BUFFERS, [1])
    found = [item for item in offered(func) if packed_in(item) == {"B"}]
    assert found and any("T.where" in item.mod.script() for item in found)
    for item in found:
        assert_same_meaning(func, item)


# ---- which operands are packed ----------------------------------------------------------------------------------


def packable(
    term: Callable[..., Any], shape: tuple[int, ...] = (6, 32), constants: tuple[int, ...] = ()
) -> list[tuple[str, bool]]:
    """What may be packed of a sum over k of a term, which is made of operands and of the axes and k."""
    names = {"A": (8, 40), "B": (40, 40), "S": (40,), "T": (40, 40, 40), "U": (8, 8, 8, 40)}
    given = {name: te.placeholder(dims, name=name) for name, dims in names.items()}
    k = te.reduce_axis((0, 8), "k")
    out = te.compute(shape, lambda *axes: te.sum(term(given, *axes, k.var), axis=k), name="C")
    used = [item for item in given.values() if item in operands_of(out)]
    func = te.create_prim_func([*used, out]).with_attr(LAYOUT_FREE_BUFFERS, list(constants))
    sch = Schedule(func)
    node = node_of(sch, sch.get_block("C"))
    tiling = rule()
    found = tiling._packable(sch, node, tiling._vector_axis(node))
    return [(node.reads[position].buffer.name, is_constant) for position, is_constant in found]


def operands_of(tensor: Any) -> list[Any]:
    return list(tensor.op.input_tensors)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (lambda t, i, j, k: t["A"][i, k] * t["B"][k, j], ["B"]),
        (lambda t, i, j, k: t["B"][k, j] * t["A"][i, k], ["B"]),
        (lambda t, i, j, k: t["A"][i, k] * t["B"][j, k], ["B"]),
        (lambda t, i, j, k: t["A"][i, k] * t["B"][k, j] * t["S"][j], ["B"]),  # S is read once in a row of steps
        (lambda t, i, j, k: t["A"][i, k] * t["B"][k, j] * t["B"][k, j], []),  # of which one load would have the panels
        (lambda t, i, j, k: t["A"][i, k] * t["B"][k, j + 1], []),  # a part of a panel
        (lambda t, i, j, k: t["A"][i, k] * t["B"][k + j, j], []),
        (lambda t, i, j, k: t["A"][i, k] * t["T"][j, k, i], ["T"]),
    ],
)  # fmt: skip
def test_operands_with_the_vector_axis_for_themselves_are_packed(
    term: Callable[..., Any], expected: list[str]
) -> None:
    assert packable(term) == [(name, False) for name in expected]


@pytest.mark.parametrize(
    ("batch", "operand", "expected"),
    [
        (5, lambda t, b, i, j, k: t["T"][b, k, j], ["T"]),
        (5, lambda t, b, i, j, k: t["U"][b, i, k, j], []),  # varies with every result
        (1, lambda t, b, i, j, k: t["U"][b, i, k, j], ["U"]),
    ],
)
def test_operands_of_which_every_result_has_its_own_are_not_packed(
    batch: int, operand: Callable[..., Any], expected: list[str]
) -> None:
    found = packable(lambda t, b, i, j, k: t["A"][i, k] * operand(t, b, i, j, k), (batch, 6, 32))
    assert found == [(name, False) for name in expected]


@pytest.mark.parametrize(("constants", "expected"), [((0,), False), ((1,), True), ((0, 1), True)])
def test_weights_are_told_from_other_operands(constants: tuple[int, ...], expected: bool) -> None:
    assert packable(lambda t, i, j, k: t["A"][i, k] * t["B"][k, j], constants=constants) == [("B", expected)]


def test_what_is_packed_when_the_kernel_runs_is_offered_beside_the_plain_operand() -> None:
    found = [packed_in(item) for item in offered(product(8, 32, 8))]
    assert found == [set(), {"B"}]


def test_weights_are_always_packed() -> None:
    found = offered(product(8, 32, 8).with_attr(LAYOUT_FREE_BUFFERS, [1]))
    assert [packed_in(item) for item in found] == [{"B"}]


def test_packing_can_be_switched_off() -> None:
    func = product(8, 32, 8).with_attr(LAYOUT_FREE_BUFFERS, [1])
    assert [packed_in(item) for item in offered(func, rule(pack_operands=False))] == [set()]


def test_what_is_read_once_is_not_packed() -> None:
    """Sums of columns: a copy would read it, too."""
    a, k = te.placeholder((16, 64), name="A"), te.reduce_axis((0, 16), "k")
    found = offered(te.create_prim_func([a, te.compute((64,), lambda j: te.sum(a[k, j], axis=k), name="C")]))
    assert len(found) > 1 and not any(packed_in(item) for item in found)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("is_constant", [False, True])
def test_panels_have_the_width_of_a_register_tile(transposed: bool, is_constant: bool) -> None:
    """They are made by all cores, in vectors; of a weight when the model is compiled, by nobody here."""
    func = product(6, 64, 10, transposed)
    if is_constant:
        func = func.with_attr(LAYOUT_FREE_BUFFERS, [1])
    sch = offered(func)[-1]
    (panels,) = [item for item in sch.mod["main"].body.block.alloc_buffers if item.name == "B_global"]
    width = int(sch.get(sch.get_loops("C")[-1]).extent)
    assert width < 64, "another seed, by which the tile is no row"
    assert [int(extent) for extent in panels.shape] == [64 // width, 10, width]
    annotations = sch.get(sch.get_block("B_global")).annotations
    marks = list(marks_of(sch, "B_global").values())
    if is_constant:
        assert LAYOUT_REWRITE_PREPROC in annotations and not any(marks)
    else:
        assert LAYOUT_REWRITE_PREPROC not in annotations and marks == ["parallel", "", "vectorize"]
    assert_same_meaning(func, sch)


@pytest.mark.parametrize("group", [None, (0, 4), (2, 4)])
@pytest.mark.parametrize("width", [1, 4])
def test_the_map_of_panels(width: int, group: tuple[int, int] | None) -> None:
    """Of a tensor of three dimensions, of which the second is that of the vectors, with its way back."""
    index_map = panel_map(3, 1, width, "int32", group)
    for place in combinations((0, 3, 4, 9), (0, 3, 4, 11), (0, 3, 4, 7)):
        rest = {0: place[0], 2: place[2]}
        last = []
        if group is not None:
            dim, size = group
            last = [rest[dim] % size]
            rest[dim] //= size
        expected = [place[1] // width, *rest.values(), place[1] % width, *last]
        assert numbers(index_map.map_indices(place)) == expected
        assert numbers(index_map.inverse_index_map.map_indices(expected)) == list(place)


def numbers(items: Iterable[Any]) -> list[int]:
    return [int(item) for item in items]


@pytest.mark.parametrize("rows", [3, 4])
def test_from_four_rows_on_narrow_products_are_grouped_only(rows: int) -> None:
    x, y = te.placeholder((rows, 64), "int8", name="A"), te.placeholder((64, 64), "int8", name="B")
    k = te.reduce_axis((0, 64), "k")
    func = te.create_prim_func(
        [
            x,
            y,
            te.compute(
                (rows, 64),
                lambda i, j: te.sum(x[i, k].astype("int32") * y[k, j].astype("int32"), axis=k),
                name="C",
            ),
        ]
    )
    found = offered(func, rule(Target("llvm -mcpu=cascadelake -num-cores 2")))
    are_grouped = [
        any(DOT_PRODUCT in item.get(loop).annotations for loop in item.get_loops("C")) for item in found
    ]
    assert any(are_grouped) and all(are_grouped) == (rows == 4)


# ---- which blocks are tiled -------------------------------------------------------------------------------------


def assert_left_alone(sch: Schedule, block: str = "C", tiling: RegisterTiling | None = None) -> None:
    before = sch.mod.script()
    (only,) = (rule() if tiling is None else tiling).apply(sch, sch.get_block(block))
    assert only.mod.script() == before


def test_a_nest_that_somebody_else_has_is_left_alone() -> None:
    marked, fused = Schedule(product(8, 32, 8)), Schedule(product(8, 32, 8))
    marked.annotate(marked.get_loops("C")[0], "note", 1)
    assert_left_alone(marked)
    fused.fuse(*fused.get_loops("C")[:2])
    assert_left_alone(fused)


@pytest.mark.parametrize(("func", "block"), [(row_sum(4, 64), "B"), (elementwise(), "B")])
def test_blocks_that_use_nothing_again_are_left_alone(func: PrimFunc, block: str) -> None:
    assert_left_alone(Schedule(func), block)


def test_a_product_is_not_offered_as_it_was_and_a_pool_is() -> None:
    func = product(8, 32, 8)
    assert all(item.mod.script() != Schedule(func).mod.script() for item in offered(func))
    data = te.placeholder((1, 10, 10, 32), name="A")
    pool = topi.nn.pool2d(data, [3, 3], [1, 1], [1, 1], [0, 0, 0, 0], "max", False, "NHWC")
    plain = Schedule(te.create_prim_func([data, pool]))
    (name,) = [item.name for item in all_blocks(plain._root("main")) if item.init is not None]
    *tiled, last = offered(plain.mod["main"], block=name)
    assert last.mod.script() == plain.mod.script()
    assert tiled and all(item.mod.script() != plain.mod.script() for item in tiled)
    assert not any("CacheRead" in steps_of(item) for item in tiled)


@pytest.mark.parametrize(
    ("binding", "stored", "expected"),
    [
        ("vi, vj, vk = T.axis.remap('SSR', [i, j, k])", "D[vi, vj, 0]", "vj"),  # the last that has a loop
        ("vi, vj, vk = T.axis.remap('SSR', [i, j, k])", "D[vj, vi, 0]", "vj"),
        ("vi, vj, vk = T.axis.remap('SSR', [i, j, k])", "D[0, vj, vi]", "vi"),  # neighbours in memory
        ("vi = T.axis.spatial(8, i); vj = T.axis.spatial(8, 0); vk = T.axis.reduce(8, k)", "D[0, vi, vj]", "vi"),
    ],
)  # fmt: skip
def test_the_axis_of_vectors(binding: str, stored: str, expected: str) -> None:
    statements = "\n            ".join([*binding.split("; "), f"{stored} = {stored} + A[vi, vk] * A[vk, vj]"])
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            {statements}
""")
    sch = Schedule(func)
    assert RegisterTiling()._vector_axis(node_of(sch, sch.get_block("C"))).name == expected


# ---- loops and marks --------------------------------------------------------------------------------------------


def test_the_loops_of_a_product() -> None:
    sch = offered(product(16, 64, 16))[0]
    assert list(marks_of(sch).items()) == [
        ("i_0", "parallel"),
        ("j_0", "parallel"),
        *[(name, "") for name in ("i_1", "j_1", "i_2", "j_2", "k_0")],
        ("k_1", "unroll"),
        ("i_3", "unroll"),
        ("j_3", "vectorize"),
    ]


def test_a_reduction_of_one_level_is_not_unrolled() -> None:
    sch = offered(product(16, 64, 16), rule(structure="SSRS"))[0]
    names = ["i_0", "j_0", "i_1", "j_1", "k", "i_2", "j_2"]
    marks = ["parallel", "parallel", "", "", "", "unroll", "vectorize"]
    found = marks_of(sch)
    assert list(found.values()) == marks
    assert [name.partition("_0")[0] if name.startswith("k") else name for name in found] == names


def test_loops_of_one_iteration_are_in_the_first_level() -> None:
    sch = offered(product(8, 32, 8, batch=1))[0]
    assert list(marks_of(sch).items())[:5] == [
        *[(name, "parallel") for name in list(marks_of(sch))[:3]],
        ("i_1", ""),
        ("j_1", ""),
    ]
    assert list(marks_of(sch))[1:3] == ["i_0", "j_0"]


def test_vectors_come_inside_wherever_their_loop_stands() -> None:
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 32), "float32"), D: T.Buffer((8, 32), "float32")):
    for j, i, k in T.grid(32, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
""")
    sch = offered(func)[0]
    assert list(marks_of(sch).items())[-3:] == [("k_1", "unroll"), ("i_3", "unroll"), ("j_3", "vectorize")]
    assert_same_meaning(func, sch)


def test_a_tile_without_vectors_is_unrolled() -> None:
    sch = Schedule(product(4, 4, 4))
    loops = sch.get_loops("C")
    mark_register_tile(sch, loops[:2], None)
    assert list(marks_of(sch).values()) == ["unroll", "unroll", ""]


@pytest.mark.parametrize("has_consumer", [False, True])
def test_what_takes_the_results_stands_where_a_tile_is_complete(has_consumer: bool) -> None:
    """Below the last level of caches, outside of the reduction; what others read is in registers until then."""
    func = matmul_relu(16, 64, 16) if has_consumer else product(16, 64, 16)
    for sch in offered(func):
        (name,) = [
            item.name
            for item in all_blocks(sch._root("main"))
            if any(region.buffer.name.startswith("C") for region in item.reads) and item.name != "C"
        ]
        assert name == ("D" if has_consumer else "C_local")
        marks = list(marks_of(sch, name).items())
        assert [item for item, _ in marks[:6]] == ["i_0", "j_0", "i_1", "j_1", "i_2", "j_2"]
        assert [mark for _, mark in marks[6:]] == ["unroll", "vectorize"]
        assert node_of(sch, sch.get_block("C")).writes[0].buffer.scope() == "local"
        assert_same_meaning(func, sch)


def test_results_that_the_caller_wants_are_written() -> None:
    """Beside those of the block that takes them."""
    a, b = te.placeholder((8, 8), name="A"), te.placeholder((8, 32), name="B")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((8, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    func = te.create_prim_func([a, b, c, te.compute((8, 32), lambda i, j: c[i, j] + 1.0, name="D")])
    found = offered(func)
    assert found and all("CacheWrite" in steps_of(item) for item in found)
    for item in found:
        assert_same_meaning(func, item)


# ---- tiles in tiles ---------------------------------------------------------------------------------------------


def in_a_tile(
    transposed: bool = False, is_constant: bool = False, kind: type[Schedule] = Schedule
) -> tuple[PrimFunc, Schedule]:
    """A product of 16 rows, in whose consumer's tiles of 8 rows it is computed."""
    a = te.placeholder((16, 8), name="A")
    b = te.placeholder((32, 8) if transposed else (8, 32), name="B")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute(
        (16, 32), lambda i, j: te.sum(a[i, k] * (b[j, k] if transposed else b[k, j]), axis=k), name="C"
    )
    func = te.create_prim_func([a, b, te.compute((16, 32), lambda i, j: c[i, j] * 2.0, name="D")])
    if is_constant:
        func = func.with_attr(LAYOUT_FREE_BUFFERS, [1])
    sch = kind(func, seed=0)
    outer, _ = sch.split(sch.get_loops("D")[0], [2, 8])
    sch.compute_at("C", outer)
    return func, sch


@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_in_a_tile_has_its_share_of_the_cores(transposed: bool) -> None:
    """An operand is packed where its vectors do not lie in memory as they are."""
    func, sch = in_a_tile(transposed)
    (found,) = rule().apply(sch, sch.get_block("C"))
    marks = marks_of(found)
    assert "parallel" not in marks.values()
    assert list(marks.values())[-2:] == ["unroll", "vectorize"]
    assert len(marks) == 1 + 3 + 3 + 2  # the tile, three levels of two axes, two of the reduction
    assert packed_in(found) == ({"B"} if transposed else set())
    assert_same_meaning(func, found)


def test_in_a_tile_there_need_be_no_jobs() -> None:
    _, sch = in_a_tile(kind=SketchSchedule)
    (found,) = rule(machine(8)).apply(sch, sch.get_block("C"))
    assert isinstance(found, SketchSchedule)
    sketch = Sketch(found)
    matrix = sketch.all_rows(1 << 20)
    assert matrix is not None
    jobs = np.ones(len(matrix), dtype=np.int64)
    for decision, column in zip(sketch.decisions, matrix.T, strict=True):
        if decision.name != "k":
            jobs = jobs * decision.table[column][:, 0]  # type: ignore[union-attr]
    assert {1, 2, 4} <= set(jobs.tolist())


def test_in_a_tile_packing_can_be_switched_off() -> None:
    func, sch = in_a_tile(transposed=True)
    (found,) = rule(pack_operands=False).apply(sch, sch.get_block("C"))
    assert packed_in(found) == set() and "vectorize" in marks_of(found).values()


def test_structures_of_one_level_of_caches_have_no_tiles_in_tiles() -> None:
    _, sch = in_a_tile()
    assert_left_alone(sch, tiling=rule(structure="SRS"))


@pytest.mark.parametrize("is_constant", [False, True])
def test_half_of_a_pair_packs_weights_only(is_constant: bool) -> None:
    func, sch = in_a_tile(transposed=True, is_constant=is_constant)
    rule().tile_inside(sch, sch.get_block("C"))
    assert packed_in(sch) == ({"B"} if is_constant else set())
    assert "parallel" not in marks_of(sch).values()
    assert_same_meaning(func, sch)


def test_loops_that_others_share_are_not_split() -> None:
    _, sch = in_a_tile()
    block = sch.get_block("C")
    node = node_of(sch, block)
    vector = node.iter_vars[1].var
    tiled = split_loops(sch, block, vector, "SRS", FactorLimits(64, 64), is_inside=True)
    assert [len(loops) for loops in tiled.loops["S"]] == [2, 2] and len(tiled.loops["R"]) == 1
    assert len(sch.get_loops("C")) == 1 + 4 + 1
    assert {var.name: parts for var, (parts, _) in tiled.split.items()} == dict(
        zip(("v_i", "v_j", "v_k"), (*tiled.loops["S"], *tiled.loops["R"]), strict=True)
    )
    assert tiled.vector is not None and sch.get(tiled.vector.loop) is sch.get(tiled.loops["S"][1][-1])


def test_loops_that_stay_whole_and_the_one_inside_of_all_levels() -> None:
    sch = Schedule(product(8, 32, 8), seed=0)
    block = sch.get_block("C")
    row, column, step = (item.var for item in node_of(sch, block).iter_vars)
    tiled = split_loops(sch, block, column, "SRS", FactorLimits(64, 64), whole=[row], innermost=step)
    assert [len(loops) for loops in tiled.loops["S"]] == [1, 2] and tiled.loops["R"] == []
    assert len(tiled.factors["S"]) == 1 and set(tiled.split) == {column}
    assert tiled.innermost is not None and sch.get(tiled.innermost).loop_var.name == "k"
    assert tiled.vector is not None and tiled.vector.factor is tiled.factors["S"][0][-1]
