"""What is a step of a register tile and what is not: its values beside the interpreter's, and whether rows wait for each other."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ir.codegen.build import build
from ir.script import from_source
from ir.tir import PrimFunc
from ir.tir.interpreter import run

AVX2 = "llvm -mcpu=x86-64-v3"

SOURCE = """@T.prim_func
def main(A: T.Buffer((16,), "{dtype}"), B: T.Buffer((48,), "{dtype}"), C: T.Buffer((48,), "{dtype}"), n: T.int32):
    X = T.alloc_buffer((48,), "{dtype}", scope="{scope}")
    Y = T.alloc_buffer((48,), "{dtype}", scope="local")
    X[0:48] = T.Broadcast(T.{dtype}(1), 48)
    Y[0:48] = T.Broadcast(T.{dtype}(2), 48)
    {statements}
    C[0:48] = X[0:48]
"""
ROWS = """for i in T.unroll(3):
        for j in T.unroll(2):
            """
HERE, COLUMNS = "T.Ramp(i * 16 + j * 8, 1, 8)", "T.Ramp(j * 8, 1, 8)"
NUMBER, VECTOR = "T.Broadcast(A[i], 8)", f"B[{COLUMNS}]"
MASK = "T.Ramp(0, 1, 8) < T.Broadcast(n, 8)"


def program(statements: str, dtype: str = "float32", scope: str = "local") -> PrimFunc:
    """Statements on a buffer X of ones and Y of twos."""
    return from_source(SOURCE.format(statements=statements, dtype=dtype, scope=scope))


def tile(value: str, dtype: str = "float32", scope: str = "local") -> PrimFunc:
    """Three rows of two vectors each, which are stored to X."""
    return program(f"{ROWS}X[{HERE}] = {value}", dtype, scope)


def waits(func: PrimFunc, target: str = AVX2) -> int:
    """How many addresses wait for a row."""
    return build(func, target).llvm_ir.count("call ptr asm")


def assert_has_the_right_values(func: PrimFunc, dtype: str = "float32") -> None:
    """Those of the interpreter, however many lanes a mask ``n`` leaves."""
    generator = np.random.default_rng(0)
    kernel = build(func)["main"]
    a, b = (generator.integers(-4, 5, size).astype(np.dtype(dtype)) for size in (16, 48))
    for lanes in (0, 3, 8):
        found, expected = np.zeros(48, a.dtype), np.zeros(48, a.dtype)
        kernel(a, b, found, lanes)
        run(func, a.copy(), b.copy(), expected, lanes)
        np.testing.assert_array_equal(found, expected)


STEPS = {
    "as it is": f"X[{HERE}] + {NUMBER} * {VECTOR}",
    "the vector first": f"X[{HERE}] + {VECTOR} * {NUMBER}",
    "the product first": f"{NUMBER} * {VECTOR} + X[{HERE}]",
    "both": f"{VECTOR} * {NUMBER} + X[{HERE}]",
    "in order": f"T.in_order(X[{HERE}] + {NUMBER} * {VECTOR})",
    "a number in lanes": f"X[{HERE}] + A[T.Broadcast(i, 8)] * {VECTOR}",
    "no vector": f"X[{HERE}] + {NUMBER} * ({VECTOR} + {VECTOR})",
}


@pytest.mark.parametrize("name", STEPS)
def test_rows_of_steps_wait(name: str) -> None:
    """The second row's number and the third's."""
    func = tile(STEPS[name])
    assert waits(func) == 2
    assert_has_the_right_values(func)


NO_STEPS = {
    "a sum of another buffer": (f"Y[{HERE}] + {NUMBER} * {VECTOR}", "float32", "local"),
    "a sum of another place": (f"X[T.Ramp(40 - i * 8, 1, 8)] + {NUMBER} * {VECTOR}", "float32", "local"),
    "a difference": (f"X[{HERE}] - {NUMBER} * {VECTOR}", "float32", "local"),
    "two vectors": (f"X[{HERE}] + B[{HERE}] * {VECTOR}", "float32", "local"),
    "integers": (STEPS["as it is"], "int32", "local"),
    "wide integers": (STEPS["as it is"], "int64", "local"),
    "halves": (STEPS["as it is"], "float16", "local"),
    "narrow floats": (STEPS["as it is"], "bfloat16", "local"),
    "another scope": (STEPS["as it is"], "float32", "global"),
}


@pytest.mark.parametrize("name", NO_STEPS)
def test_others_do_not(name: str) -> None:
    value, dtype, scope = NO_STEPS[name]
    func = tile(value, dtype, scope)
    assert waits(func) == 0
    assert_has_the_right_values(func, getattr(ml_dtypes, dtype, dtype))


@pytest.mark.parametrize("predicate", [MASK, "T.Broadcast(n > 3, 8)"])
def test_a_store_under_a_predicate_leaves_the_other_lanes(predicate: str) -> None:
    value = STEPS["as it is"]
    assert_has_the_right_values(program(f"{ROWS}X.vstore([{HERE}], {value}, predicate={predicate})"))


OPERANDS = {
    "a number under a condition": ("A.vload([i], predicate=n > 3)", "T.Broadcast({}, 8) * " + VECTOR),
    "lanes of a number under a mask": (f"A.vload([T.Broadcast(i, 8)], predicate={MASK})", "{} * " + VECTOR),
    "a vector under a mask": (f"B.vload([{COLUMNS}], predicate={MASK})", NUMBER + " * {}"),
    "every other element": ("B[T.Ramp(j * 8 + 1, 2, 8)]", NUMBER + " * {}"),
    "backwards": ("B[T.Ramp(j * 8 + 7, -1, 8)]", NUMBER + " * {}"),
    "two numbers": ("B[T.Broadcast(j * 5, 8)]", NUMBER + " * {}"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERANDS)
def test_what_is_read_for_a_step(name: str) -> None:
    operand, product = OPERANDS[name]
    assert_has_the_right_values(tile(f"X[{HERE}] + {product.format(operand)}"))


def test_what_was_there_under_a_mask() -> None:
    assert_has_the_right_values(tile(f"X.vload([{HERE}], predicate={MASK}) + {NUMBER} * {VECTOR}"))


def test_vectors_of_two_widths_from_one_place() -> None:
    """Neither the vector nor the number in all lanes is that of the wider step."""
    wide, narrow = "X[0:8] = X[0:8] + T.Broadcast(A[0], 8) * B[0:8]", "X[8:12] = X[8:12] + T.Broadcast(A[0], 4) * B[0:4]"  # fmt: skip
    assert_has_the_right_values(program(f"{wide}\n    {narrow}"))
    assert_has_the_right_values(program(f"{narrow}\n    {wide}"))


def test_numbers_of_two_places_and_of_two_buffers() -> None:
    """A second number is not the first one, and that of another buffer is not the one at the same place of this."""
    step = "X[{0}:{0} + 8] = X[{0}:{0} + 8] + T.Broadcast({1}, 8) * B[0:8]"
    numbers = ["A[0]", "A[1]", "B[1]", "A[1]", "B[0]"]
    steps = [step.format(8 * place, number) for place, number in enumerate(numbers)]
    assert_has_the_right_values(program("\n    ".join(steps)))


def test_vectors_of_two_buffers() -> None:
    """At one place of each, beside one number."""
    step = "X[{0}:{0} + 8] = X[{0}:{0} + 8] + T.Broadcast(A[9], 8) * {1}[0:8]"
    steps = [step.format(8 * place, vector) for place, vector in enumerate("BYAB")]
    assert_has_the_right_values(program("\n    ".join(steps)))


PAIRS = """W = T.Buffer((8,), "float32x2", data=A.data)
    X[0:16] = X[0:16] + W[T.Broadcast(1, 8)] * B[0:16]
    X[16:32] = X[16:32] + W[T.Broadcast(2, 8)] * B[0:16]"""
EIGHTS = """W = T.Buffer((6,), "float32x8", data=B.data)
    X[0:8] = X[0:8] + T.Broadcast(A[0], 8) * W[1]
    X[8:16] = X[8:16] + T.Broadcast(A[1], 8) * W[1]
    X[16:24] = X[16:24] + T.Broadcast(A[1], 8) * W[2]"""


def test_a_pair_in_all_lanes_is_no_number() -> None:
    kernel = build(program(PAIRS))["main"]
    a, b, c = np.arange(16, dtype="float32"), np.arange(48, dtype="float32"), np.zeros(48, "float32")
    kernel(a, b, c, 0)
    expected = np.ones(48, "float32")
    expected[:16] += np.tile(a[2:4], 8) * b[:16]
    expected[16:32] += np.tile(a[4:6], 8) * b[:16]
    np.testing.assert_array_equal(c, expected)


def test_elements_of_eight_numbers_are_vectors() -> None:
    kernel = build(program(EIGHTS))["main"]
    a, b, c = np.arange(2, 18, dtype="float32"), np.arange(48, dtype="float32"), np.zeros(48, "float32")
    kernel(a, b, c, 0)
    expected = np.ones(48, "float32")
    expected[:8] += 2 * b[8:16]
    expected[8:16] += 3 * b[8:16]
    expected[16:24] += 3 * b[16:24]
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize(
    ("target", "dtype", "lanes", "expected"),
    [
        (AVX2, "float64", 2, 2),
        (AVX2, "float64", 4, 2),
        (AVX2, "float64", 8, 0),
        (AVX2, "float32", 8, 2),
        (AVX2, "float32", 16, 0),
        ("llvm -mcpu=x86-64-v4", "float64", 8, 2),
        ("llvm -mcpu=x86-64-v4", "float64", 16, 0),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", "float64", 2, 2),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", "float64", 4, 0),
    ],
)
def test_a_double_takes_as_much_of_a_register_as_two_floats(
    target: str, dtype: str, lanes: int, expected: int
) -> None:
    """Of a register that the machine has not, assembly asks in vain."""
    here = f"T.Ramp(i * 16 + j * {lanes}, 1, {lanes})"
    value = f"X[{here}] + T.Broadcast(A[i], {lanes}) * B[T.Ramp(j * {lanes}, 1, {lanes})]"
    rows = ROWS.replace("unroll(3)", "unroll(2)") if lanes == 16 else ROWS
    func = program(f"{rows}X[{here}] = {value}", dtype)
    assert waits(func, target) == expected
