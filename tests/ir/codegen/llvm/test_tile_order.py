"""Register tiles: their rows are computed one after the other, which keeps the partial results in registers, and never too early."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ir.codegen.build import build
from ir.script import from_source
from ir.tir import PrimFunc

DEPTH = 12


def product(rows: int, columns: int, lanes: int, unrolled: int, dtype: str = "float32") -> PrimFunc:
    """C = A @ B with all of C in registers, in vectors of so many lanes."""
    width = columns * lanes
    source = f"""@T.prim_func
def main(A: T.Buffer(({rows}, {DEPTH}), "{dtype}"), B: T.Buffer(({DEPTH}, {width}), "{dtype}"), C: T.Buffer(({rows}, {width}), "{dtype}")):
    X = T.alloc_buffer(({rows}, {width}), "{dtype}", scope="local")
    for i in T.unroll({rows}):
        for j in T.unroll({columns}):
            for v in T.vectorized({lanes}):
                X[i, j * {lanes} + v] = T.{dtype}(0)
    for k in range({DEPTH // unrolled}):
        for l in T.unroll({unrolled}):
            for i in T.unroll({rows}):
                for j in T.unroll({columns}):
                    for v in T.vectorized({lanes}):
                        X[i, j * {lanes} + v] = X[i, j * {lanes} + v] + A[i, k * {unrolled} + l] * B[k * {unrolled} + l, j * {lanes} + v]
    for i in T.unroll({rows}):
        for j in T.unroll({columns}):
            for v in T.vectorized({lanes}):
                C[i, j * {lanes} + v] = X[i, j * {lanes} + v]
"""
    return from_source(source)


def traffic_with_the_stack(text: str) -> int:
    """Instructions that move vectors to or from the stack."""
    return len(re.findall(r"%[xyz]mm\d+, -?\d*\(%rsp\)|\(%rsp\), %[xyz]mm", text))


@pytest.mark.parametrize(
    ("processor", "rows", "columns", "lanes", "unrolled"),
    [
        ("znver4", 8, 3, 16, 2),  # 24 partial results, 3 vectors and a number in 32 registers
        ("znver4", 14, 2, 16, 3),
        ("skylake-avx512", 9, 3, 16, 2),
        ("znver3", 4, 3, 8, 3),
        ("znver3", 6, 2, 8, 2),
    ],
)
def test_partial_results_stay_in_registers(
    processor: str, rows: int, columns: int, lanes: int, unrolled: int
) -> None:
    text = build(product(rows, columns, lanes, unrolled), f"llvm -mcpu={processor}").assembly
    assert text.count("vfmadd") == rows * columns * unrolled
    assert traffic_with_the_stack(text) == 0


def dot_products(rows: int, columns: int, lanes: int, unrolled: int, first: str, second: str) -> PrimFunc:
    """C = A @ B of narrow integers, of which B has a group for each lane one behind the other."""
    width, size = columns * lanes, 2 if first == "int16" else 4
    return from_source(f"""@T.prim_func
def main(A: T.Buffer(({rows}, {DEPTH * size}), "{first}"), B: T.Buffer(({DEPTH}, {width}, {size}), "{second}"), C: T.Buffer(({rows}, {width}), "int32")):
    X = T.alloc_buffer(({rows}, {width}), "int32", scope="local")
    for i in T.unroll({rows}):
        for j in T.unroll({columns}):
            for v in T.vectorized({lanes}):
                X[i, j * {lanes} + v] = 0
    for k in range({DEPTH // unrolled}):
        for l in T.unroll({unrolled}):
            for i in T.unroll({rows}):
                for j in T.unroll({columns}):
                    for v in T.vectorized({lanes}):
                        for g in T.serial({size}, annotations={{"dot_product": 1}}):
                            X[i, j * {lanes} + v] = X[i, j * {lanes} + v] + T.Cast("int32", A[i, (k * {unrolled} + l) * {size} + g]) * T.Cast("int32", B[k * {unrolled} + l, j * {lanes} + v, g])
    for i in T.unroll({rows}):
        for j in T.unroll({columns}):
            for v in T.vectorized({lanes}):
                C[i, j * {lanes} + v] = X[i, j * {lanes} + v]
""")  # noqa: E501


@pytest.mark.parametrize(
    ("processor", "rows", "columns", "lanes", "unrolled", "dtypes"),
    [
        (
            "cascadelake",
            8,
            3,
            16,
            2,
            ("int8", "int8"),
        ),  # 24 sums, 3 corrections and vectors, a group and the signs
        ("cascadelake", 14, 2, 16, 2, ("uint8", "int8")),
        ("cascadelake", 14, 2, 16, 4, ("int16", "int16")),
        ("alderlake", 4, 3, 8, 2, ("int16", "int16")),
        ("znver4", 8, 3, 16, 3, ("uint8", "uint8")),
    ],
)
def test_sums_of_dot_products_stay_in_registers(
    processor: str, rows: int, columns: int, lanes: int, unrolled: int, dtypes: tuple[str, str]
) -> None:
    func = dot_products(rows, columns, lanes, unrolled, *dtypes)
    text = build(func, f"llvm -mcpu={processor} -mtriple=x86_64-linux-gnu").assembly
    is_corrected = dtypes in [("int8", "int8"), ("uint8", "uint8")]
    assert len(re.findall("vpdpbusd|vpdpwssd", text)) == (rows + is_corrected) * columns * unrolled
    assert traffic_with_the_stack(text) == 0


@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("uint8", "int8"), ("int16", "int16")])
def test_tiles_of_dot_products_have_the_right_values(dtypes: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    size = 2 if dtypes[0] == "int16" else 4
    low = {"int8": -128, "uint8": 0, "int16": -(2**15)}
    high = {"int8": 127, "uint8": 255, "int16": 2**15 - 1}
    a = rng.integers(low[dtypes[0]], high[dtypes[0]], (5, DEPTH * size), endpoint=True).astype(dtypes[0])
    b = rng.integers(low[dtypes[1]], high[dtypes[1]], (DEPTH, 32, size), endpoint=True).astype(dtypes[1])
    c = np.zeros((5, 32), "int32")
    build(dot_products(5, 2, 16, 3, *dtypes))["main"](a, b, c)
    exact = np.einsum("ikg,kjg->ij", a.reshape(5, DEPTH, size).astype("int64"), b.astype("int64"))
    np.testing.assert_array_equal(c, (exact & 0xFFFFFFFF).astype("uint32").view("int32"))


def test_a_group_that_was_stored_between_two_steps_is_read_again() -> None:
    """Copies of narrow numbers lie in registers, too."""
    source = """@T.prim_func
def main(A: T.Buffer((8,), "int8"), B: T.Buffer((64,), "int8"), C: T.Buffer((32,), "int32")):
    X = T.alloc_buffer((32,), "int32", scope="local")
    G = T.alloc_buffer((4,), "int8", scope="local")
    X[0:32] = T.Broadcast(0, 32)
    G[0:4] = A[0:4]
    X[0:16] = T.dot_accumulate(X[0:16], G[0:4], B[0:64])
    G[0:4] = A[4:8]
    X[16:32] = T.dot_accumulate(X[16:32], G[0:4], B[0:64])
    C[0:32] = X[0:32]
"""
    a, b = (np.random.default_rng(0).integers(-128, 128, size).astype("int8") for size in (8, 64))
    c = np.zeros(32, "int32")
    build(from_source(source))["main"](a, b, c)
    expected = [(a[half].astype("int32") * b.reshape(16, 4)).sum(1) for half in (slice(0, 4), slice(4, 8))]
    np.testing.assert_array_equal(c, np.concatenate(expected))


@pytest.mark.parametrize("order", ["YXZ", "XMYMZ", "XYMZ", "MXMY", "YMYZ", "XMY"])
def test_panels_that_are_sums_of_another_buffer_are_read_again(order: str) -> None:
    """X and M take products of ``B``, Y and Z products of the bytes of the sums in M."""
    steps = {
        "X": "X[0:16] = T.dot_accumulate(X[0:16], A[0:4], B[0:64])",
        "M": "M[0:16] = T.dot_accumulate(M[0:16], A[0:4], B[0:64])",
        "Y": "X[16:32] = T.dot_accumulate(X[16:32], A[0:4], G[0:64])",
        "Z": "X[32:48] = T.dot_accumulate(X[32:48], A[0:4], G[0:64])",
    }
    statements = "\n    ".join(steps[name] for name in order)
    source = f"""@T.prim_func
def main(A: T.Buffer((4,), "int8"), B: T.Buffer((64,), "int8"), C: T.Buffer((64,), "int32")):
    X = T.alloc_buffer((48,), "int32", scope="local")
    M = T.alloc_buffer((16,), "int32", scope="local")
    G = T.Buffer((64,), "int8", data=M.data, scope="local")
    X[0:48] = T.Broadcast(0, 48)
    M[0:16] = T.Broadcast(16909060, 16)
    {statements}
    C[0:48] = X[0:48]
    C[48:64] = M[0:16]
"""
    a, b = (np.random.default_rng(0).integers(-128, 128, size).astype("int8") for size in (4, 64))
    found, expected = np.zeros(64, "int32"), np.zeros(64, "int32")
    expected[48:] = 16909060
    for name in order:
        panel = b if name in "XM" else expected[48:].view("int8").copy()
        products = a.astype("int32") * panel.reshape(16, 4).astype("int32")
        expected["XYZM".index(name) * 16 :][:16] += products.sum(1, dtype="int32")
    build(from_source(source))["main"](a, b, found)
    np.testing.assert_array_equal(found, expected)


def test_a_part_of_a_vector_is_no_reason_to_leave_them() -> None:
    """40 columns in vectors of 16: the last of each row has 8 lanes."""
    source = """@T.prim_func
def main(A: T.Buffer((8, 12), "float32"), B: T.Buffer((12, 40), "float32"), C: T.Buffer((8, 40), "float32")):
    X = T.alloc_buffer((8, 40), "float32", scope="local")
    for i in T.unroll(8):
        for v in T.vectorized(40):
            X[i, v] = T.float32(0)
    for k in range(6):
        for l in T.unroll(2):
            for i in T.unroll(8):
                for j in T.unroll(2):
                    for v in T.vectorized(16):
                        X[i, j * 16 + v] = X[i, j * 16 + v] + A[i, k * 2 + l] * B[k * 2 + l, j * 16 + v]
                for v in T.vectorized(8):
                    X[i, 32 + v] = X[i, 32 + v] + A[i, k * 2 + l] * B[k * 2 + l, 32 + v]
    for i in T.unroll(8):
        for v in T.vectorized(40):
            C[i, v] = X[i, v]
"""
    text = build(from_source(source), "llvm -mcpu=znver4").assembly
    assert text.count("vfmadd") == 48 and traffic_with_the_stack(text) == 0


@pytest.mark.parametrize(
    ("target", "constraint"),
    [
        ("llvm -mcpu=x86-64-v3", "v"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", "w"),
        ("llvm -mtriple=riscv64-linux-gnu -mattr=+d -mabi=lp64d", None),
    ],
)
def test_what_a_row_waits_for(target: str, constraint: str | None) -> None:
    """A row's number waits for the results of the row before and for its number, and so do the vectors of the next step."""
    lanes = 8 if constraint == "v" else 4
    module = build(product(3, 2, lanes, 2), target)
    waits = re.findall(
        rf'asm "", "=r,0,{constraint},{constraint},{constraint}"\(ptr (%\S+), (.*)\)', module.llvm_ir
    )
    # six rows, the first of which waits for nothing, and the second step's vectors
    assert len(waits) == (6 if constraint is not None else 0)
    assert all(values.count(f"<{lanes} x float>") == 3 for _, values in waits)
    assert module.assembly  # LLVM takes it


@pytest.mark.parametrize(("columns", "lanes"), [(1, 8), (2, 3), (2, 32)])
def test_rows_that_are_not_waited_for(columns: int, lanes: int) -> None:
    """A number that one instruction takes is its operand in memory; what is no register of the machine is no operand of assembly."""
    assert '"=r,0,v' not in build(product(3, columns, lanes, 2), "llvm -mcpu=x86-64-v3").llvm_ir


@pytest.mark.parametrize(("columns", "waits"), [(14, 6), (15, 0), (40, 0)])
def test_no_more_registers_are_asked_for_than_there_are(columns: int, waits: int) -> None:
    """LLVM ends the process where assembly wants more registers than the processor has."""
    module = build(product(3, columns, 8, 2), "llvm -mcpu=x86-64-v3")
    assert module.llvm_ir.count("call ptr asm") == waits
    assert module.assembly


def test_values_of_one_row_that_are_no_tile() -> None:
    """A sum of 40 vectors times one number: 40 results, of which each is the one before plus something."""
    source = """@T.prim_func
def main(A: T.Buffer((2,), "float32"), B: T.Buffer((400,), "float32"), C: T.Buffer((8,), "float32")):
    X = T.alloc_buffer((8,), "float32", scope="local")
    X[0:8] = T.Broadcast(T.float32(0), 8)
    for k in T.unroll(2):
        for j in T.unroll(40):
            X[0:8] = X[0:8] + T.Broadcast(A[k], 8) * B[j * 8 : j * 8 + 8]
    C[0:8] = X[0:8]
"""
    a, b, c = np.array([2, 3], "float32"), np.arange(400, dtype="float32"), np.zeros(8, "float32")
    build(from_source(source), "llvm -mcpu=x86-64")["main"](a, b, c)
    np.testing.assert_array_equal(c, 5 * b[:320].reshape(40, 8).sum(0))


@pytest.mark.parametrize(
    ("target", "lanes"),
    [
        ("llvm -mcpu=x86-64-v3 -mattr=-avx", 8),
        ("llvm -mcpu=x86-64-v4 -mattr=-avx", 16),
        ("llvm -mcpu=x86-64-v4 -mattr=-avx512f", 16),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=a64fx", 16),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=-neon", 4),
    ],
)
def test_registers_that_features_take_away_are_not_asked_for(target: str, lanes: int) -> None:
    module = build(product(3, 2, lanes, 2), target)
    assert "call ptr asm" not in module.llvm_ir and module.assembly


@pytest.mark.parametrize(("keeps_numbers", "keeps_vectors"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    ("processor", "rows", "columns", "lanes"), [("znver4", 8, 3, 16), ("znver3", 4, 3, 8)]
)
def test_operands_in_registers_stay_there(
    processor: str, rows: int, columns: int, lanes: int, keeps_numbers: bool, keeps_vectors: bool
) -> None:
    """Whatever has its address taken lies in memory."""
    width = columns * lanes
    number = "P[i, l]" if keeps_numbers else "A[i, k * 2 + l]"
    vector = f"Q[l, j * {lanes} + v]" if keeps_vectors else f"B[k * 2 + l, j * {lanes} + v]"
    source = f"""@T.prim_func
def main(A: T.Buffer(({rows}, 12), "float32"), B: T.Buffer((12, {width}), "float32"), C: T.Buffer(({rows}, {width}), "float32")):
    X = T.alloc_buffer(({rows}, {width}), "float32", scope="local")
    for i in T.unroll({rows}):
        for j in T.unroll({columns}):
            for v in T.vectorized({lanes}):
                X[i, j * {lanes} + v] = T.float32(0)
    for k in range(6):
        P = T.alloc_buffer(({rows}, 2), "float32", scope="local")
        Q = T.alloc_buffer((2, {width}), "float32", scope="local")
        for i in T.unroll({rows}):
            for l in T.unroll(2):
                P[i, l] = A[i, k * 2 + l]
        for l in T.unroll(2):
            for j in T.unroll({columns}):
                for v in T.vectorized({lanes}):
                    Q[l, j * {lanes} + v] = B[k * 2 + l, j * {lanes} + v]
        for l in T.unroll(2):
            for i in T.unroll({rows}):
                for j in T.unroll({columns}):
                    for v in T.vectorized({lanes}):
                        X[i, j * {lanes} + v] = X[i, j * {lanes} + v] + {number} * {vector}
    for i in T.unroll({rows}):
        for j in T.unroll({columns}):
            for v in T.vectorized({lanes}):
                C[i, j * {lanes} + v] = X[i, j * {lanes} + v]
"""
    assert traffic_with_the_stack(build(from_source(source), f"llvm -mcpu={processor}").assembly) == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("rows", "columns", "lanes", "unrolled"), [(3, 2, 8, 2), (6, 2, 4, 3), (1, 3, 8, 4), (5, 3, 5, 1)]
)
def test_products(dtype: str, rows: int, columns: int, lanes: int, unrolled: int) -> None:
    generator = np.random.default_rng(0)
    a = generator.integers(-9, 9, (rows, DEPTH)).astype(dtype)
    b = generator.integers(-9, 9, (DEPTH, columns * lanes)).astype(dtype)
    c = np.zeros((rows, columns * lanes), dtype)
    build(product(rows, columns, lanes, unrolled, dtype))["main"](a, b, c)
    np.testing.assert_array_equal(c, a @ b)


BETWEEN = {
    "the number": ("A[0] = A[0] + T.float32(1)", lambda a, b, x, y: a.__setitem__(0, a[0] + 1)),
    "the vector": ("B[9] = A[1]", lambda a, b, x, y: b.__setitem__(9, a[1])),
    "a loop": ("for i in range(n): B[i] = A[1]", lambda a, b, x, y: b.__setitem__(slice(0, 5), a[1])),
    "a step of another tile": (
        "for v in T.vectorized(8):\n            Y[v] = Y[v] + A[1] * B[v]",
        lambda a, b, x, y: y.__setitem__(slice(0, 8), y[:8] + a[1] * b[:8]),
    ),
}


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize(("number", "vector"), [("A[0]", "B"), ("Y[0]", "B"), ("A[0]", "Y")])
def test_what_is_stored_between_two_steps_is_read(between: str, number: str, vector: str) -> None:
    statement, effect = BETWEEN[between]
    step = f"""for j in T.unroll(2):
            for v in T.vectorized(8):
                X[j * 8 + v] = X[j * 8 + v] + {number} * {vector}[j * 8 + v]"""
    source = f"""@T.prim_func
def main(A: T.Buffer((2,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32"), n: T.int32):
    X = T.alloc_buffer((16,), "float32", scope="local")
    Y = T.alloc_buffer((16,), "float32", scope="local")
    for v in T.vectorized(16):
        X[v] = T.float32(0)
    for v in T.vectorized(16):
        Y[v] = B[v]
    for k in range(3):
        {step}
        {statement}
        {step}
    for v in T.vectorized(16):
        C[v] = X[v]
"""
    a, b, c = np.array([2, 3], "float32"), np.arange(16, dtype="float32"), np.zeros(16, "float32")
    expected_a, expected_b = a.copy(), b.copy()
    x, y = np.zeros(16, "float32"), b.copy()
    for _ in range(3):
        for position in range(2):
            factor = expected_a[0] if number == "A[0]" else y[0]
            x += factor * (expected_b if vector == "B" else y)
            if position == 0:
                effect(expected_a, expected_b, x, y)
    build(from_source(source))["main"](a, b, c, 5)
    np.testing.assert_array_equal(c, x)
    np.testing.assert_array_equal(b, expected_b)


TWO_STEPS = """@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    X = T.alloc_buffer((16,), "float32", scope="local")
    X[0:16] = T.Broadcast(T.float32(1), 16)
    {before}
    X[0:8] = X[0:8] + {first}
    {between}
    X[8:16] = X[8:16] + {second}
    C[0:16] = X[0:16]
"""


def two_steps(first: str, second: str, before: str = "pass", between: str = "pass") -> np.ndarray:
    """What two steps store to a tile of ones; A is 2 and 3 in turn, B is 0, 1, 2, ...; lines that say ``pass`` are left out."""
    source = TWO_STEPS.format(first=first, second=second, before=before, between=between)
    a, b, c = np.tile(np.array([2, 3], "float32"), 8), np.arange(16, dtype="float32"), np.zeros(16, "float32")
    build(from_source(source.replace("    pass\n", "")))["main"](a, b, c)
    return c


COPY = 'T.call_extern("int64", "memcpy", T.address_of(A[0]), T.address_of(A[1]), T.int64(4))'
"""Makes A[0] 3; as a number it is an address, which is even."""


def test_a_call_whose_result_is_named_may_have_written_the_number() -> None:
    step = "T.Broadcast(A[0], 8) * B[0:8]"
    result = two_steps(step, step, between=f"z = {COPY}")
    np.testing.assert_array_equal(result, np.concatenate([1 + 2 * np.arange(8), 1 + 3 * np.arange(8)]))


def test_a_number_behind_a_call_is_what_the_call_has_written() -> None:
    step = f'T.Broadcast(T.Cast("float32", {COPY} & T.int64(1)) + T.float32(1), 8) * T.Broadcast(A[0], 8)'
    np.testing.assert_array_equal(two_steps(step, "T.Broadcast(A[0], 8) * B[0:8]")[:8], np.full(8, 4))


@pytest.mark.parametrize(
    "address",
    [
        "T.address_of(X[0])",
        "X.data",
        'T.tvm_access_ptr(T.type_annotation("float32"), X.data, 0, 16, 3)',
    ],
)
def test_a_tile_that_has_another_name_is_none(address: str) -> None:
    """Its own first element, by that name, is the number, and then its first half the vector."""
    names = f'p: T.handle("float32") = {address}\n    Y = T.Buffer((16,), "float32", data=p)'
    first = 1 + np.arange(8, dtype="float32")
    result = two_steps("T.Broadcast(Y[0], 8) * B[1:9]", "T.Broadcast(Y[0], 8) * B[0:8]", before=names)
    np.testing.assert_array_equal(result, np.concatenate([1 + first, 1 + 2 * np.arange(8)]))
    result = two_steps("T.Broadcast(A[0], 8) * Y[0:8]", "T.Broadcast(A[0], 8) * Y[0:8]", before=names)
    np.testing.assert_array_equal(result, np.repeat([3, 7], 8))


def test_a_tile_reads_what_its_own_steps_have_stored() -> None:
    result = two_steps("T.Broadcast(X[0], 8) * B[1:9]", "T.Broadcast(X[0], 8) * B[0:8]")
    np.testing.assert_array_equal(result, np.concatenate([2 + np.arange(8), 1 + 2 * np.arange(8)]))
    result = two_steps("T.Broadcast(A[0], 8) * X[0:8]", "T.Broadcast(A[0], 8) * X[0:8]")
    np.testing.assert_array_equal(result, np.repeat([3, 7], 8))


def test_what_a_branch_has_loaded_is_not_loaded_elsewhere() -> None:
    step = "T.Broadcast(A[1], 8) * B[1:9]"
    branch = f"if B[1] > T.float32(1):\n        X[8:16] = X[8:16] + {step}"
    result = two_steps("T.Broadcast(A[0], 8) * B[0:8]", step, between=branch)
    np.testing.assert_array_equal(result, np.concatenate([1 + 2 * np.arange(8), 1 + 3 * np.arange(1, 9)]))


def test_elements_of_two_sizes_lie_in_two_places() -> None:
    """Both vectors have eight lanes and begin at element 1, of a buffer of numbers and of one of pairs."""
    result = two_steps(
        "T.Broadcast(A[0], 8) * B[1:9]",
        "T.Broadcast(A[0], 8) * W[1:5]",
        before='W = T.Buffer((8,), "float32x2", data=B.data)',
    )
    np.testing.assert_array_equal(result, np.concatenate([1 + 2 * np.arange(1, 9), 1 + 2 * np.arange(2, 10)]))


def test_a_tile_that_others_may_write_is_none() -> None:
    """Parameters may be the same memory, whatever scope they are said to have."""
    source = """@T.prim_func
def main(a: T.handle, x: T.handle):
    T.func_attr({"tir.noalias": False})
    A = T.match_buffer(a, (16,), "float32")
    X = T.match_buffer(x, (16,), "float32", scope="local")
    for j in T.unroll(2):
        for v in T.vectorized(8):
            X[j * 8 + v] = X[j * 8 + v] + A[3] * A[j * 8 + v]
"""
    data = np.arange(16, dtype="float32")
    expected = data.copy()
    for j in range(2):
        part = slice(j * 8, j * 8 + 8)
        expected[part] += expected[3] * expected[part]
    build(from_source(source))["main"](data, data)
    np.testing.assert_array_equal(data, expected)
