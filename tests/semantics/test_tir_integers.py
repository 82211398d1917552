"""Index arithmetic and data: where integers are numbers of ℤ, and where they wrap."""

from __future__ import annotations

import numpy as np
import pytest

from ir import tir
from ir.arith.index_arithmetic import IndexArithmetic
from ir.error import IRError
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import InterpreterError, run
from ir.tir.interpreter.position import is_index_arithmetic
from ir.tir.intrinsic.declaration import INTRINSICS

from .running import executors, holds, law, refused, script

_ALL = {
    **{f"int{w}": (-(2 ** (w - 1)), 2 ** (w - 1) - 1) for w in (2, 4, 8, 16, 32, 64)},
    **{f"uint{w}": (0, 2**w - 1) for w in (2, 4, 8, 16, 32, 64)},
}


def modulo(value: int, dtype: str) -> int:
    low, high = _ALL[dtype]
    return (value - low) % (high - low + 1) + low


@pytest.mark.meaning("data-wrap")
@pytest.mark.parametrize("dtype", [name for name in _ALL if int(name.lstrip("uint")) >= 8])
def test_data_wraps(dtype: str) -> None:
    low, high = _ALL[dtype]
    pairs = [
        (high, 1),
        (low, -1 % (high + 1)),
        (high, high),
        (low, low),
        (low, high),
        (3, 5),
        (high // 2 + 1, 2),
        (high, 3),
    ]
    pairs = [(modulo(a, dtype), modulo(b, dtype)) for a, b in pairs]
    inputs = {"A": ([a for a, _ in pairs], dtype), "B": ([b for _, b in pairs], dtype)}
    law("A[i] + B[i]", inputs, [modulo(a + b, dtype) for a, b in pairs], dtype)
    law("A[i] - B[i]", inputs, [modulo(a - b, dtype) for a, b in pairs], dtype)
    law("A[i] * B[i]", inputs, [modulo(a * b, dtype) for a, b in pairs], dtype)
    law("A[i] + B[i] < A[i]", inputs, [modulo(a + b, dtype) < a for a, b in pairs], "bool")


@pytest.mark.meaning("data-wrap")
@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_narrow_data_wraps(dtype: str) -> None:
    """In the middle of an expression whose ends are bytes."""
    low, high = _ALL[dtype]
    pairs = [(a, b) for a in range(low, high + 1) for b in (low, -1 if low else high, 1, high)]
    inputs = {"A": ([a for a, _ in pairs], "int8"), "B": ([b for _, b in pairs], "int8")}
    a, b = f'T.Cast("{dtype}", A[i])', f'T.Cast("{dtype}", B[i])'
    for sign, compute in {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}.items():
        law(
            f'T.Cast("int8", {a} {sign} {b})',
            inputs,
            [modulo(compute(x, y), dtype) for x, y in pairs],
            "int8",
        )
    law(f"{a} + {b} < {a}", inputs, [modulo(x + y, dtype) < x for x, y in pairs], "bool")


@pytest.mark.meaning("data-wrap")
def test_a_comparison_with_a_load_in_it_wraps() -> None:
    values = [2**30, 2**30 + 1, 1, 2, -(2**31), 2**31 - 1, 0]
    law("A[i] * 3 < 5", {"A": (values, "int32")}, [modulo(v * 3, "int32") < 5 for v in values], "bool")
    law("A[i] + 1 > A[i]", {"A": (values, "int32")}, [v != 2**31 - 1 for v in values], "bool")
    law(
        "T.if_then_else(A[i] * 3 < 5, 1, 0)",
        {"A": (values, "int32")},
        [modulo(v * 3, "int32") < 5 for v in values],
        "int32",
    )
    wide = [2**32, 2**32 + 7, 4, 5, -1, 2**63 - 1]
    law('T.Cast("int32", A[i]) < 5', {"A": (wide, "int64")}, [modulo(v, "int32") < 5 for v in wide], "bool")


@pytest.mark.meaning("data-wrap")
@pytest.mark.parametrize("loop", ["range", "T.vectorized", "T.parallel"])
def test_a_condition_of_data_wraps(loop: str) -> None:
    main = script(
        {"A": ((40,), "int32"), "U": ((40,), "uint8"), "I": ((40,), "int8"), "O": ((3, 40), "int32")},
        f"for i in {loop}(40):",
        "    if A[i] * 3 < 5:",
        "        O[0, i] = 1",
        "    if U[i] - T.uint8(1) < T.uint8(5):",
        "        O[1, i] = 1",
        "    if I[i] + T.int8(1) > I[i]:",
        "        O[2, i] = 1",
    )
    a = np.resize(np.array([2**30, 1, 2, -(2**31), 7], "int32"), 40)
    u, i = np.resize(np.arange(8, dtype="uint8"), 40), np.resize(np.array([127, 126, -128, 0], "int8"), 40)
    expected = np.zeros((3, 40), "int32")
    expected[0] = [modulo(int(v) * 3, "int32") < 5 for v in a]
    expected[1] = [(int(v) - 1) % 256 < 5 for v in u]
    expected[2] = [v != 127 for v in i]
    holds(main, [a, u, i, np.zeros((3, 40), "int32")], {3: expected})


@pytest.mark.meaning("data-wrap")
def test_what_is_stored_wraps_though_it_is_made_of_index_variables() -> None:
    main = script(
        {"O": ((8,), "bool"), "P": ((8,), "int32"), "Q": ((8,), "int32"), "R": ((2, 8), "int32")},
        "for i in range(8):",
        "    O[i] = i * 1000000000 < 0",
        "for i in T.vectorized(8):",
        "    P[i] = i * 1000000000 // 4",
        "for i in T.parallel(8):",
        "    Q[i] = i * 1000000000 * 4 // 4",
        "for i in range(8):",
        "    R[0, i] = i * 1000000000 // 3",
        "    R[1, i] = T.floormod(i * 1000000000, 7)",
    )
    wrapped = [modulo(i * 1000000000, "int32") for i in range(8)]
    args = [np.zeros(8, "bool"), np.zeros(8, "int32"), np.zeros(8, "int32"), np.zeros((2, 8), "int32")]
    rounded = np.array([[w // 3 for w in wrapped], [w % 7 for w in wrapped]])
    fourth = [modulo(i * 4000000000, "int32") // 4 for i in range(8)]
    holds(main, args, {0: [w < 0 for w in wrapped], 1: [w // 4 for w in wrapped], 2: fourth, 3: rounded})


@pytest.mark.meaning("data-wrap", "data-proof")
def test_no_rule_of_numbers_holds_for_data() -> None:
    values = [2**30, 2**29, 2**31 - 1, -(2**31), 5, -7]
    inputs = {"A": (values, "int32")}
    law("A[i] * 4 // 4", inputs, [modulo(v * 4, "int32") // 4 for v in values], "int32")
    law("(A[i] + 100) // 100 - 1", inputs, [modulo(v + 100, "int32") // 100 - 1 for v in values], "int32")
    law("T.floormod(A[i] * 6, 3)", inputs, [modulo(v * 6, "int32") % 3 for v in values], "int32")
    law("T.max(A[i] + 1, A[i])", inputs, [max(modulo(v + 1, "int32"), v) for v in values], "int32")
    law("A[i] - 1 < A[i]", inputs, [modulo(v - 1, "int32") < v for v in values], "bool")
    law("A[i] * 2 == A[i] + A[i]", inputs, [True] * 6, "bool")
    law("0 - A[i] < 0", inputs, [modulo(-v, "int32") < 0 for v in values], "bool")


@pytest.mark.meaning("data-proof")
def test_bounded_data_keeps_its_value_when_it_is_simplified() -> None:
    """Bytes in int32 cannot wrap: whatever is done to the expression, this is its value."""
    values = [0, 1, 100, 255]
    law(
        '(T.Cast("int32", A[i]) * 4 + 3) // 4 + (T.Cast("int32", A[i]) * 6 + 5) // 3',
        {"A": (values, "uint8")},
        [v + (v * 6 + 5) // 3 for v in values],
        "int32",
    )


@pytest.mark.meaning("index-overflow", "index-position")
@pytest.mark.parametrize(
    "body",
    [
        "A[i * 1000000000 // 1000000000] = 1",
        "A[i] = A[i * 1000000000 // 1000000000]",
        "for j in range(i * 1000000000 - 1000000000 * i + 1): A[j] = 1",
        "for j in range(i * 1000000000, i * 1000000000 + 1): A[0] = j",
    ],
)
def test_index_arithmetic_must_not_overflow(body: str) -> None:
    main = script({"A": ((4,), "int32")}, "for i in range(4):", f"    {body}")
    refused(main, [np.zeros(4, "int32")], "index-overflow")


@pytest.mark.meaning("index-position", "index-overflow")
def test_bindings_regions_and_extents_are_index_positions() -> None:
    block = script(
        {"A": ((4,), "int32")},
        "for i in range(4):",
        '    with T.block("B"):',
        "        v = T.axis.spatial(4, i * 1000000000 // 1000000000)",
        "        A[v] = 1",
    )
    refused(block, [np.zeros(4, "int32")], "index-overflow")
    region = script(
        {"A": ((4,), "int32")},
        "for i in range(4):",
        '    with T.block("B"):',
        "        v = T.axis.spatial(4, i)",
        '        M = T.match_buffer(A[v * 1000000000 // 1000000000], (), "int32", offset_factor=1)',
        "        M[()] = 1",
    )
    refused(region, [np.zeros(4, "int32")], "index-overflow")
    extent = from_source(
        '@T.prim_func\ndef main(A: T.Buffer((4,), "int32"), n: T.int32):\n'
        '    b = T.allocate([n * 4 // 4], "int32", "global")\n    B = T.Buffer((4,), "int32", data=b)\n    B[0] = 1\n    A[0] = B[0]\n'
    )
    refused(extent, [np.zeros(4, "int32"), 2**30], "index-overflow")


@pytest.mark.meaning("index-overflow")
@pytest.mark.parametrize("loop", ["range", "T.vectorized", "T.parallel"])
def test_index_arithmetic_that_fits(loop: str) -> None:
    main = script(
        {"A": ((48,), "int32"), "B": ((48,), "int32")},
        f"for i in {loop}(48):",
        "    B[(i * 4 + 3) // 4] = A[T.floormod(i * 44739242 // 44739242 + 1, 48)]",
    )
    a = np.arange(48, dtype="int32")
    holds(main, [a, np.zeros(48, "int32")], {1: np.roll(a, -1)})


_FAR = "(n + 2000000000) + (m + 2000000000)"
"""2, where n is 2 - 2e9 and m is -2e9: every step is a number of int32, but the constants add up to none."""


@pytest.mark.meaning("index-overflow")
@pytest.mark.parametrize(
    "body",
    [
        f"for j in T.vectorized(8):\n        A[{_FAR} + j - 2] = 1",
        f"for k in range(2):\n        with T.block(''):\n            C = T.alloc_buffer((16,), 'int32')\n"
        f"            for j in range(8):\n                with T.block('C'):\n                    v = T.axis.spatial(8, j)\n"
        f"                    C[{_FAR} + v] = 1\n            for j in range(8):\n                A[j] = C[{_FAR} + j]",
        f"for j in range(8):\n        with T.block('A'):\n            v = T.axis.spatial(8, j)\n            A[{_FAR} + v - 2] = 1",
        f"for i in range(2):\n        for j in T.vectorized(8):\n            if {_FAR} + i * 8 + j < 10:\n"
        "                A[i * 8 + j] = 1",
        # the smallest int32 bounds what has no other bound
        "for i in range(2):\n        for j in range(8):\n            if i <= T.min(j, n + 2000000008) and i < 1:\n"
        "                A[i * 8 + j] = 1",
        "for i in range(2):\n        for j in range(8):\n            if T.Cast('uint8', i) < T.min(j + 1, n + 2000000000):\n"
        "                A[i * 8 + j] = 1 - i",
    ],
)
def test_numbers_that_the_compiler_adds_up_need_not_fit(body: str) -> None:
    main = from_source(
        f'@T.prim_func\ndef main(A: T.Buffer((16,), "int32"), n: T.int32, m: T.int32):\n    {body}\n'
    )
    holds(main, [np.zeros(16, "int32"), 2 - 2000000000, -2000000000], {0: np.arange(16) < 8})


@pytest.mark.meaning("index-variable", "index-condition")
@pytest.mark.parametrize(
    "condition, is_refused",
    [
        ("i * 1000000000 < 5", True),
        ("n * i < 5", True),
        ("A[i] < 1 and i * 1000000000 < 5", True),
        ("not i * 1000000000 < 5", True),
        ("i * 1000000000 + A[i] < 5", False),
        ('T.Cast("uint32", i) * T.uint32(1000000000) < T.uint32(5)', False),
    ],
)
def test_a_condition_of_index_variables_is_one_of_numbers(condition: str, is_refused: bool) -> None:
    main = from_source(
        f'@T.prim_func\ndef main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):\n'
        f"    for i in range(4):\n        if {condition}:\n            B[i] = 1\n"
    )
    args = [np.zeros(4, "int32"), np.zeros(4, "int32"), 1000000000]
    if is_refused:
        refused(main, args, "index-overflow")
        return
    wrapped = [i * 1000000000 % 2**32 for i in range(4)]
    signed = [modulo(w, "int32") for w in wrapped]
    holds(main, args, {1: [w < 5 for w in (wrapped if "uint32" in condition else signed)]})


@pytest.mark.meaning("index-condition")
@pytest.mark.parametrize(
    "statement",
    [
        "B[i] = T.if_then_else(i * 1000000000 < 5, 1, 0)",
        "B[i] = T.Select(i * 1000000000 < 5, 1, 0)",
        'assert i * 1000000000 > 5, "near"',
        "while i * 1000000000 < 0: B[i] = 1",
    ],
)
def test_every_condition_is_one_of_numbers(statement: str) -> None:
    main = script({"B": ((4,), "int32")}, "for i in range(2, 4):", f"    {statement}")
    refused(main, [np.zeros(4, "int32")], "index-overflow")


@pytest.mark.meaning("index-variable", "data-let")
def test_a_let_is_an_index_variable_or_data() -> None:
    index = script(
        {"A": ((4,), "int32")},
        "for i in range(4):",
        "    with T.LetStmt(i * 1000000000) as x:",
        "        A[i] = x",
    )
    refused(index, [np.zeros(4, "int32")], "index-overflow")
    data = script(
        {"A": ((4,), "int32"), "B": ((4,), "int32"), "C": ((4,), "int32")},
        "for i in range(4):",
        "    with T.LetStmt(A[i] * 1000000000) as x:",
        "        B[i] = x // 1000000000",
        "        if x * 2 < 0:",
        "            C[i] = x",
    )
    a = np.arange(4, dtype="int32")
    x = [modulo(i * 1000000000, "int32") for i in range(4)]
    expected = {1: [v // 1000000000 for v in x], 2: [v if modulo(v * 2, "int32") < 0 else 0 for v in x]}
    holds(data, [a, np.zeros(4, "int32"), np.zeros(4, "int32")], expected)


@pytest.mark.meaning("index-condition", "data-let")
def test_a_let_of_data_makes_data_of_what_it_is_in() -> None:
    """Whether or not its variable is used."""
    main = script(
        {"A": ((4,), "int32"), "B": ((4,), "int32")},
        "for i in range(4):",
        "    x = T.int32()",
        "    if T.Let(i * 1000000000, where={x: A[i]}) < 0:",
        "        B[i] = 1",
    )
    holds(main, [np.arange(4, dtype="int32"), np.zeros(4, "int32")], {1: [0, 0, 0, 1]})


@pytest.mark.meaning("data-let")
def test_lets_of_one_variable_beside_each_other() -> None:
    """Also where a choice is computed on both sides, whose condition binds the variable that an index binds."""
    choice = script(
        {"A": ((4,), "int32"), "B": ((4,), "int32")},
        "for i in range(4):",
        "    x = T.int32()",
        "    B[i] = T.if_then_else(T.Let(x < 2, where={x: i}), A[T.Let(A[x] - 4, where={x: 1})], A[i] * 2)",
    )
    a = np.array([5, 6, 7, 8], "int32")
    holds(choice, [a, np.zeros(4, "int32")], {1: [7, 7, 14, 16]})


@pytest.mark.meaning("data-let", "condition-once")
def test_a_let_is_computed_once() -> None:
    main = script(
        {"A": ((2,), "int32"), "B": ((4,), "int32")},
        "for i in range(4):",
        "    with T.LetStmt(A[0] + i) as x:",
        "        A[0] = 100",
        "        B[i] = x + x",
    )
    holds(main, [np.array([1, 0], "int32"), np.zeros(4, "int32")], {0: [100, 0], 1: [2, 202, 204, 206]})


@pytest.mark.meaning("index-atom")
@pytest.mark.parametrize("loop", ["range", "T.vectorized", "T.parallel"])
def test_atoms_have_wrapped_values(loop: str) -> None:
    """A load, a let of data, casts of data and of narrow integers, a call."""
    main = script(
        {"A": ((32,), "int32"), "W": ((32,), "int64"), "B": ((64,), "int32"), "O": ((4, 32), "int32")},
        f"for i in {loop}(32):",
        '    O[0, i] = B[T.Cast("int32", T.Cast("uint8", A[i] * 77)) // 4]',
        '    O[1, i] = B[T.Cast("int32", W[i])]',
        '    O[2, i] = B[T.Cast("int32", T.Cast("uint32", A[i]) * T.uint32(2654435769) >> T.uint32(26))]',
        "    O[3, i] = B[T.bitwise_and(A[i] * 1640531527, 63)]",
    )
    a = np.arange(32, dtype="int32") * 123457
    w = np.arange(32, dtype="int64") * (2**32 + 1)
    b = np.arange(64, dtype="int32") * 3
    expected = np.array(
        [
            [3 * (int(v) * 77 % 256 // 4) for v in a],
            [3 * (int(v) % 2**32) for v in w],
            [3 * (int(v) * 2654435769 % 2**32 >> 26) for v in a],
            [3 * (int(v) * 1640531527 % 64) for v in a],
        ]
    )
    holds(main, [a, w, b, np.zeros((4, 32), "int32")], {3: expected})


@pytest.mark.meaning("index-atom", "index-overflow")
def test_arithmetic_around_atoms_is_of_numbers() -> None:
    main = script(
        {"A": ((4,), "int32"), "B": ((4,), "int32")}, "for i in range(4):", "    B[(A[i] * 4) // 4] = 1"
    )
    refused(main, [np.full(4, 2**30, "int32"), np.zeros(4, "int32")], "index-overflow")


@pytest.mark.meaning("index-atom")
def test_a_let_of_data_wraps_before_it_is_an_index() -> None:
    main = script(
        {"A": ((8,), "int32"), "B": ((8,), "int32"), "O": ((8,), "int32")},
        "for i in range(8):",
        "    with T.LetStmt(A[i] * 4) as x:",
        "        O[i] = B[x // 4]",
    )
    a = np.array([2**30 + k for k in range(8)], "int32")
    b = np.arange(8, dtype="int32") + 10
    holds(main, [a, b, np.zeros(8, "int32")], {2: b})


@pytest.mark.meaning("index-cast")
def test_casts_of_index_arithmetic() -> None:
    main = script(
        {"A": ((4,), "int32"), "B": ((4,), "int32")},
        "for i in range(4):",
        '    B[T.Cast("int32", T.Cast("int64", i) * T.int64(3000000000) // T.int64(3000000000))] = A[T.Cast("int64", i)]',
    )
    a = np.arange(4, dtype="int32") + 1
    holds(main, [a, np.zeros(4, "int32")], {1: a})
    narrow = script(
        {"A": ((4,), "int32")},
        "for i in range(4):",
        '    A[T.Cast("int32", T.Cast("int64", i) * T.int64(4294967296))] = 1',
    )
    refused(narrow, [np.zeros(4, "int32")], "index-cast")


@pytest.mark.meaning("index-cast")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "uint64"])
def test_a_cast_to_what_is_no_index_casts_data(dtype: str) -> None:
    """Index variables that are cast to another type wrap before: the condition is one on what wrapped."""
    main = script(
        {"O": ((16,), "int32")},
        "for i in range(16):",
        f'    O[i] = T.if_then_else(T.Cast("int32", T.Cast("{dtype}", i * 1000000000)) < 0, 1, 2)',
    )
    wrapped = (np.arange(16) * 1000000000).astype("int32").astype(dtype).astype("int32")
    holds(main, [np.zeros(16, "int32")], {0: np.where(wrapped < 0, 1, 2)})


@pytest.mark.meaning("index-mark")
def test_a_marked_number_is_what_it_marks() -> None:
    def main(operand: str) -> tir.PrimFunc:
        found = from_source(f"""@T.prim_func
def main(A: T.Buffer((4,), "int32"), O: T.Buffer((4,), "int32"), n: T.int32):
    for i in range(4):
        if T.likely({operand}) + 1 > T.likely({operand}):
            O[i] = 1""")
        assert isinstance(found, tir.PrimFunc)
        return found

    a = np.array([5, 2**31 - 1, -1, 2**31 - 2], "int32")
    holds(main("A[i]"), [a, np.zeros(4, "int32"), 0], {1: [1, 0, 1, 1]})
    holds(main("n"), [a, np.zeros(4, "int32"), 2**31 - 2], {1: [1, 1, 1, 1]})
    refused(main("n"), [a, np.zeros(4, "int32"), 2**31 - 1], "index-overflow")


@pytest.mark.meaning("index-mark")
def test_a_marked_condition_compares_numbers() -> None:
    for mark in ("likely", "ignore_loop_partition"):
        main = script(
            {"O": ((4,), "int32")},
            "for i in range(4):",
            f"    if T.{mark}(i * 1000000000 < 5):",
            "        O[i] = 1",
        )
        refused(main, [np.zeros(4, "int32")], "index-overflow")


@pytest.mark.meaning("index-mark")
def test_the_interpreter_and_the_simplifier_agree_on_what_marks() -> None:
    """Every intrinsic of one integer, of an index and of data: which calls are index arithmetic."""
    load = tir.BufferLoad(tir.decl_buffer((4,), "int32"), [0])
    for record in INTRINSICS.values():
        if record.arity == (1, 1) and not record.dtype_first:
            for operand, expected in ((tir.Var("n"), record.transparent), (load, False)):
                marked = tir.Call("int32", record.op_name, [operand]) + 1
                assert is_index_arithmetic(marked, ()) is expected, record.op_name
                assert IndexArithmetic()(marked) is expected, record.op_name


@pytest.mark.meaning("index-flat")
def test_offsets_beyond_32_bits() -> None:
    """A view of a few elements with strides as large as those of an array of 50000 rows of 50000 bytes."""
    pitch = 50_000
    count = 45_000
    main = from_source(
        f'@T.prim_func\ndef main(A: T.Buffer(({count}, {pitch}), "int8"), B: T.Buffer((4,), "int32")):\n'
        "    for i in range(4):\n"
        f'        B[i] = T.Cast("int32", A[i * 14999, i + 7])\n'
        f"    for i in range(4):\n        A[i * 14999, i] = T.int8(5)\n"
    )
    memory = np.zeros((count, pitch), "int8")  # pages that nobody touches cost nothing
    for i in range(4):
        memory[i * 14999, i + 7] = i + 1
    for name, execute in executors(main):
        found = np.zeros(4, "int32")
        memory[[i * 14999 for i in range(4)], range(4)] = 0
        execute(memory, found)
        assert found.tolist() == [1, 2, 3, 4], name
        assert [memory[i * 14999, i] for i in range(4)] == [5] * 4, name


@pytest.mark.meaning("index-flat")
def test_a_buffer_beyond_64_bits_is_refused() -> None:
    for shape, dtype, unit in (((2**40, 2**40), "float32", "elements"), ((2**32, 2**30), "float64", "bytes")):
        extents = [T.int64(extent) for extent in shape]
        with pytest.raises(IRError, match=f"buffer A of shape .* has more {unit} than int64 counts"):
            tir.decl_buffer(extents, dtype, "A")
        with pytest.raises(IRError, match=f"allocation A of shape .* has more {unit} than int64 counts"):
            tir.Allocate(tir.Var("A", "handle"), dtype, extents, tir.const(True), tir.Evaluate(0))
        allocation = f"B = T.alloc_buffer(({', '.join(f'T.int64({extent})' for extent in shape)}), '{dtype}')"
        with pytest.raises(IRError, match=f"has more {unit} than int64 counts"):
            script({"O": ((4,), "int32")}, allocation, "B[0, 0] = B[0, 1]")
    tir.decl_buffer((T.int64(2**40), T.int64(2**40), 0), "float32", "empty")


@pytest.mark.meaning("index-flat")
def test_memory_that_no_machine_has() -> None:
    program = from_source("""
@T.prim_func
def main(O: T.Buffer((4,), "int32"), n: T.int64):
    B = T.alloc_buffer((n, n), "int8")
    B[0, 0] = T.int8(1)
""")
    with pytest.raises(
        InterpreterError, match=r"an allocation of \d+ bytes is more than int64 counts \[index-flat\]"
    ):
        run(program, np.zeros(4, "int32"), 2**40)
    with pytest.raises(InterpreterError, match=rf"there is no memory for an allocation of {2**60} bytes"):
        run(program, np.zeros(4, "int32"), 2**30)
