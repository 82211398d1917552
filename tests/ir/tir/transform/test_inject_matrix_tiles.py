"""InjectMatrixTiles: annotated loops over a tile of products become instructions of a matrix unit, which compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ir import tir
from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc
from ir.transform import Pass

INJECT = tir.transform.InjectMatrixTiles()
TILE = 'T.serial(16, annotations={"matrix_tile": 1})'
GROUP = 'T.serial(4, annotations={"dot_product": 1})'


def tile(
    rows: int = 16,
    columns: int = 16,
    outer: str = "for k0 in range(2)",
    tile_loop: str = TILE,
    group: str = GROUP,
    row_loop: str = "",
    column_loop: str = "",
    c: str = "i * {n} + j",
    a: str = "i * 128 + k0 * 64 + k1 * 4 + g",
    b: str = "k0 * {n} * 64 + k1 * {n} * 4 + j * 4 + g",
    x: str = "int8",
    y: str = "int8",
    z: str = "int32",
    statement: str = "",
    noalias: bool = True,
    y_buffer: str = "B",
) -> PrimFunc:
    """The loops of a tile, and one around them; ``{n}`` in an index is the number of columns."""
    c, a, b = (index.format(n=columns) for index in (c, a, b))
    added = statement or f'C[{c}] = C[{c}] + T.Cast("{z}", A[{a}]) * T.Cast("{z}", {y_buffer}[{b}])'
    return from_source(f"""@T.prim_func
def main(A: T.Buffer((32 * 256,), "{x}"), B: T.Buffer((2 * 16 * 128 * 4,), "{y}"), C: T.Buffer((32 * 128,), "{z}")):
    T.func_attr({{"tir.noalias": {noalias}}})
    {outer}:
        for k1 in {tile_loop}:
            for i in {row_loop or f"T.unroll({rows})"}:
                for j in {column_loop or f"T.vectorized({columns})"}:
                    for g in {group}:
                        {added}
""")


@T.prim_func
def one_register_each(
    A: T.Buffer((8192,), "int8"), B: T.Buffer((16384,), "int8"), C: T.Buffer((4096,), "int32")
):
    T.func_attr({"tir.noalias": True})
    sums = T.allocate([256], "int32", "matrix")
    rows = T.allocate([1024], "int8", "matrix")
    columns = T.allocate([1024], "int8", "matrix")
    sums_1 = T.Buffer((256,), "int32", data=sums, scope="matrix")
    T.matrix_load(T.address_of(sums_1[0]), T.address_of(C[0]), T.int64(16))
    rows_1 = T.Buffer((1024,), "int8", data=rows, scope="matrix")
    columns_1 = T.Buffer((1024,), "int8", data=columns, scope="matrix")
    for k0 in range(2):
        T.matrix_load(T.address_of(rows_1[0]), T.address_of(A[k0 * 64]), T.int64(128))
        T.matrix_load(T.address_of(columns_1[0]), T.address_of(B[k0 * 1024]), T.int64(64))
        T.matrix_accumulate(T.address_of(sums_1[0]), T.address_of(rows_1[0]), T.address_of(columns_1[0]))
    T.matrix_store(T.address_of(C[0]), T.address_of(sums_1[0]), T.int64(16))


def calls_of(func: PrimFunc, name: str) -> int:
    return func.script().count(f"T.matrix_{name}(")


# ---- what fits ---------------------------------------------------------------------------------------------------------


def test_one_register_of_each(check: Callable[..., None]) -> None:
    check(INJECT, tile(), one_register_each)


@pytest.mark.parametrize(
    "changed",
    [
        {"statement": """C[i * 16 + j] = T.Cast("int32", B[k0 * 1024 + k1 * 64 + j * 4 + g]) * T.Cast(
                            "int32", A[i * 128 + k0 * 64 + k1 * 4 + g]) + C[i * 16 + j]"""},
        {"row_loop": "range(16)"},
        {"column_loop": "range(16)"},
        {"tile_loop": 'T.unroll(16, annotations={"matrix_tile": 1})'},
        {"a": "g + (k0 * 16 + k1) * 4 + i * 128"},
    ],
)  # fmt: skip
def test_other_forms_of_the_same_loops(check: Callable[..., None], changed: dict[str, Any]) -> None:
    check(INJECT, tile(**changed), one_register_each)


@pytest.mark.parametrize(
    ("rows", "columns", "sums", "operands"),
    [
        (16, 16, 1, 2),
        (7, 16, 1, 2),  # rows that do not fill a register
        (1, 48, 3, 4),
        (32, 32, 4, 4),
        (28, 16, 2, 3),  # shares of fourteen
        (16, 96, 6, 2),  # seven, and one for the columns in turn
        (30, 32, 4, 4),
    ],
)
def test_several_registers(
    apply: Callable[[Pass, PrimFunc], PrimFunc], rows: int, columns: int, sums: int, operands: int
) -> None:
    after = apply(INJECT, tile(rows, columns))
    assert calls_of(after, "store") == calls_of(after, "accumulate") == sums
    assert after.script().count('"int8", "matrix")') == operands
    assert "dot_product" not in after.script()


@pytest.mark.parametrize("x", ["int8", "uint8"])
@pytest.mark.parametrize("y", ["int8", "uint8"])
def test_bytes_of_all_kinds(apply: Callable[[Pass, PrimFunc], PrimFunc], x: str, y: str) -> None:
    assert calls_of(apply(INJECT, tile(x=x, y=y)), "accumulate") == 1


def test_pairs_of_bfloat16(apply: Callable[[Pass, PrimFunc], PrimFunc]) -> None:
    func = tile(
        group='T.serial(2, annotations={"dot_product": 1})',
        a="i * 64 + k0 * 32 + k1 * 2 + g",
        b="k0 * {n} * 32 + k1 * {n} * 2 + j * 2 + g",
        x="bfloat16",
        y="bfloat16",
        z="float32",
    )
    after = apply(INJECT, func)
    assert calls_of(after, "accumulate") == 1
    assert after.script().count('T.allocate([512], "bfloat16", "matrix")') == 2


def test_rows_and_columns_in_several_loops(apply: Callable[[Pass, PrimFunc], PrimFunc]) -> None:
    """As the two axes of an image, or what splitting a vector leaves."""
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((8192,), "int8"), B: T.Buffer((4096,), "int8"), C: T.Buffer((1024,), "int32")):
    T.func_attr({{"tir.noalias": True}})
    for k0 in range(2):
        for k1 in {TILE}:
            for i in T.unroll(2):
                for i2 in T.unroll(3):
                    for j in T.unroll(2):
                        for j2 in T.vectorized(16):
                            for g in {GROUP}:
                                C[i * 256 + i2 * 32 + j * 16 + j2] = C[i * 256 + i2 * 32 + j * 16 + j2] + T.Cast(
                                    "int32", A[i * 2048 + i2 * 128 + k0 * 64 + k1 * 4 + g]) * T.Cast(
                                    "int32", B[k0 * 2048 + k1 * 128 + j * 64 + j2 * 4 + g])
""")
    after = apply(INJECT, func)
    assert calls_of(after, "accumulate") == 4
    assert after.script().count('T.allocate([48], "int32", "matrix")') == 4  # three rows each


@pytest.mark.parametrize(
    ("changed", "outside"),
    [
        ({}, True),
        ({"outer": "for k0 in range(1, 2)"}, True),
        ({"a": "i * 128 + k0 * 64 + k1 * 4 + g + 3"}, True),  # the constant part counts
        ({"outer": "for k0 in T.parallel(2)", "c": "k0 * 256 + i * 16 + j"}, False),
        ({"c": "k0 % 2 * 256 + i * 16 + j"}, False),
        ({"outer": "for k0 in range(T.floormod(C[0], 2), 2)"}, False),  # asked for in each round
    ],
)
def test_which_loops_sums_stay_for(
    apply: Callable[[Pass, PrimFunc], PrimFunc], changed: dict[str, Any], outside: bool
) -> None:
    text = apply(INJECT, tile(**changed)).script()
    assert (text.index("T.matrix_load(") < text.index("for k0")) is outside


def test_sums_stay_while_outer_loops_run(apply: Callable[[Pass, PrimFunc], PrimFunc]) -> None:
    """Loops that change the place of the sums are outside of what keeps them."""
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((8192,), "int8"), B: T.Buffer((4096,), "int8"), C: T.Buffer((1024,), "int32")):
    T.func_attr({{"tir.noalias": True}})
    for p in range(2):
        for k0 in range(2):
            for k2 in range(2):
                for k1 in {TILE}:
                    for i in T.unroll(16):
                        for j in T.vectorized(16):
                            for g in {GROUP}:
                                C[p * 256 + i * 16 + j] = C[p * 256 + i * 16 + j] + T.Cast(
                                    "int32", A[p * 4096 + i * 256 + k0 * 128 + k2 * 64 + k1 * 4 + g]) * T.Cast(
                                    "int32", B[k0 * 2048 + k2 * 1024 + k1 * 64 + j * 4 + g])
""")
    lines = apply(INJECT, func).script().splitlines()
    indent = {
        name: len(line) - len(line.lstrip()) for line in lines for name in ("for p", "matrix_store", "for k0", "accumulate") if name in line
    }  # fmt: skip
    assert indent["for p"] < indent["matrix_store"] == indent["for k0"] < indent["accumulate"]


# ---- what stays --------------------------------------------------------------------------------------------------------

REFUSED: dict[str, dict[str, Any]] = {
    "not sixteen groups": {"tile_loop": 'T.serial(8, annotations={"matrix_tile": 1})'},
    "begins later": {"tile_loop": 'T.serial(1, 17, annotations={"matrix_tile": 1})'},
    "not this group": {"group": 'T.serial(2, annotations={"dot_product": 1})'},
    "no group": {"group": "range(4)"},
    "half a register of columns": {"columns": 24},
    "no equal shares": {"rows": 17},
    "too many registers": {"rows": 48, "columns": 32},
    "parallel rows": {"row_loop": "T.parallel(16)"},
    "gaps between groups": {"a": "i * 256 + k0 * 128 + k1 * 8 + g"},
    "gaps within groups": {"a": "i * 256 + k0 * 128 + k1 * 8 + g * 2"},
    "groups of columns apart": {"b": "k0 * 2048 + k1 * 128 + j * 8 + g"},
    "results apart": {"c": "i * 32 + j * 2"},
    "results that coincide": {"c": "i * 8 + j"},
    "results of all rows": {"c": "j"},
    "results along the sum": {"c": "i * 16 + j + k1 * 256"},
    "rows of both operands": {"b": "k0 * 1024 + k1 * 64 + j * 4 + g + i * 64"},
    "no row": {"a": "k0 * 64 + k1 * 4 + g"},
    "not linear": {"a": "i // 2 * 128 + k0 * 64 + k1 * 4 + g"},
    "aliases": {"noalias": False},
    "words": {"x": "int16", "y": "int16", "group": 'T.serial(2, annotations={"dot_product": 1})'},
    "maximum": {"statement": "C[i * 16 + j] = T.max(C[i * 16 + j], T.Cast('int32', A[i * 128 + k0 * 64 + k1 * 4 + g]))"},
    "another factor": {"statement": "C[i * 16 + j] = C[i * 16 + j] + T.Cast('int32', A[i * 128 + k0 * 64 + k1 * 4 + g]) * 3"},
    "a condition": {"statement": """if k1 < 7:
                            C[i * 16 + j] = C[i * 16 + j] + T.Cast("int32", A[i * 128 + k0 * 64 + k1 * 4 + g]) * T.Cast(
                                "int32", B[k0 * 1024 + k1 * 64 + j * 4 + g])"""},
    "another total": {"statement": """C[i * 16 + j] = C[i * 16 + j + 1] + T.Cast("int32", A[i * 128 + k0 * 64 + k1 * 4 + g]) * T.Cast(
                            "int32", B[k0 * 1024 + k1 * 64 + j * 4 + g])"""},
    "an index that reads what changes": {"a": "i * 128 + k0 * 64 + k1 * 4 + g + T.floormod(C[0], 2)"},
    "results where what changes says": {"c": "i * 16 + j + T.floormod(C[0], 2) * 256"},
    "an index with an effect": {"a": "i * 128 + k0 * 64 + k1 * 4 + g + T.call_extern('int32', 'count')"},
    "one loop for both": {"tile_loop": 'T.serial(16, annotations={"dot_product": 1, "matrix_tile": 1})', "group": "range(4)"},
    "groups backwards": {"b": "k0 * 1024 + k1 * 64 + j * 4 + 3 - g"},
    "results along a group": {"c": "i * 16 + j + g * 256"},
    "nine registers": {"rows": 32, "columns": 48},
    "one operand is what changes": {"x": "int32", "y": "int32", "y_buffer": "C"},
}  # fmt: skip


@pytest.mark.parametrize("changed", REFUSED.values(), ids=REFUSED)
def test_what_stays(changed: dict[str, Any]) -> None:
    func = tile(**changed)
    assert INJECT.transform_function(func, None, None) is func  # type: ignore[arg-type]


def test_loops_around_that_run_a_number_of_times_nobody_knows(apply: Callable[..., PrimFunc]) -> None:
    """Of none of them, nothing would be read and written."""
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((2048,), "int8"), B: T.Buffer((2048,), "int8"), C: T.Buffer((256,), "int32"), n: T.int32):
    T.func_attr({{"tir.noalias": True}})
    for k0 in range(n):
        for k1 in {TILE}:
            for i in T.unroll(16):
                for j in T.vectorized(16):
                    for g in {GROUP}:
                        C[i * 16 + j] = C[i * 16 + j] + T.Cast("int32", A[i * 128 + k0 * 64 + k1 * 4 + g]) * T.Cast(
                            "int32", B[k0 * 1024 + k1 * 64 + j * 4 + g])
""")
    after = apply(INJECT, func, same_results=False)
    assert after.script().index("for k0") < after.script().index("matrix_load")
