"""Instructions of matrix units: what they refuse, and what the interpreter computes by them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir.error import IRError, IRTypeError
from ir.script import from_source
from ir.tir import PrimFunc, decl_buffer
from ir.tir.interpreter import InterpreterError, run
from ir.tir.intrinsic.matrix_registers import MATRIX_PRODUCTS, rows_of


def accumulation(rows: int, first: str, second: str, sums: str, stride: int = 0) -> PrimFunc:
    """C += A B by one instruction; rows of A and C are ``stride`` elements further apart than they are long."""
    size = 64 // np.dtype(ml_dtypes.bfloat16 if first == "bfloat16" else first).itemsize
    a_step, c_step = size + stride, 16 + stride
    return from_source(f"""@T.prim_func
def main(A: T.Buffer(({16 * a_step},), "{first}"), B: T.Buffer(({16 * size},), "{second}"), C: T.Buffer(({16 * c_step},), "{sums}")):
    totals = T.allocate([{rows * 16}], "{sums}", "matrix")
    left = T.allocate([{rows * size}], "{first}", "matrix")
    right = T.allocate([{16 * size}], "{second}", "matrix")
    totals_1 = T.Buffer(({rows * 16},), "{sums}", data=totals, scope="matrix")
    left_1 = T.Buffer(({rows * size},), "{first}", data=left, scope="matrix")
    right_1 = T.Buffer(({16 * size},), "{second}", data=right, scope="matrix")
    T.matrix_load(T.address_of(totals_1[0]), T.address_of(C[0]), {c_step})
    T.matrix_load(T.address_of(left_1[0]), T.address_of(A[0]), {a_step})
    T.matrix_load(T.address_of(right_1[0]), T.address_of(B[0]), {size})
    T.matrix_accumulate(T.address_of(totals_1[0]), T.address_of(left_1[0]), T.address_of(right_1[0]))
    T.matrix_store(T.address_of(C[0]), T.address_of(totals_1[0]), {c_step})
""")


def arguments(func: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    found = []
    for buffer in (func.buffer_map[param] for param in func.params):
        (extent,) = [item.value for item in buffer.shape]
        if buffer.dtype in ("bfloat16", "float32"):
            kind = ml_dtypes.bfloat16 if buffer.dtype == "bfloat16" else np.float32
            found.append(rng.integers(-8, 9, extent).astype(kind))  # sums that every order rounds alike
        else:
            info = np.iinfo(buffer.dtype)
            found.append(rng.integers(info.min, info.max, extent, endpoint=True).astype(buffer.dtype))
    return found


def expected(arrays: list[np.ndarray], rows: int) -> np.ndarray:
    """By numpy, with sums that wrap."""
    a, b, c = arrays
    a_step, c_step = len(a) // 16, len(c) // 16
    size = len(b) // 16
    wide = "float64" if c.dtype == "float32" else "int64"
    left = a.reshape(16, a_step)[:rows, :size].reshape(rows, 16, -1).astype(wide)
    right = b.reshape(16, 16, -1).astype(wide)
    total = c.reshape(16, c_step).astype(wide)
    total[:rows, :16] += np.einsum("ikg,kjg->ij", left, right)
    return (total if wide == "float64" else (total & 0xFFFFFFFF).astype("uint32").view("int32")).ravel()


@pytest.mark.parametrize("kinds", MATRIX_PRODUCTS)
@pytest.mark.parametrize(("rows", "stride"), [(16, 0), (3, 5)])
def test_the_interpreter_multiplies(kinds: tuple[str, str, str], rows: int, stride: int) -> None:
    func = accumulation(rows, *kinds, stride)
    arrays = arguments(func)
    wanted = expected(arrays, rows)
    run(func, *arrays)
    np.testing.assert_array_equal(arrays[2], wanted)


def test_the_interpreter_refuses_rows_outside_of_memory() -> None:
    func = accumulation(16, "int8", "int8", "int32")
    text = func.script().replace("T.address_of(A[0])", "T.address_of(A[1])")
    with pytest.raises(InterpreterError, match="element 1023 of A is outside of the memory"):
        run(from_source(text), *arguments(func))


def test_the_interpreter_refuses_a_register_that_nothing_was_loaded_to() -> None:
    text = accumulation(16, "int8", "int8", "int32").script()
    lines = [line for line in text.splitlines() if "matrix_load(T.address_of(left" not in line]
    with pytest.raises(InterpreterError, match="left.* is read, which nobody wrote"):
        run(from_source("\n".join(lines)), *arguments(accumulation(16, "int8", "int8", "int32")))


BAD: dict[str, tuple[dict[str, str], str]] = {
    "memory": ({'T.allocate([1024], "int8", "matrix")': 'T.allocate([1024], "int8", "global")'}, "is no matrix register"),
    "half a row": ({"[1024]": "[1000]", "(1024,)": "(1000,)"}, "1 to 16 rows of 64 bytes"),
    "too many rows": ({"[1024]": "[2048]", "(1024,)": "(2048,)"}, "1 to 16 rows of 64 bytes"),
    "in the middle": ({"left_1[0]": "left_1[64]"}, "from their first element on"),
    "another dtype": ({"T.address_of(B[0])": "T.address_of(C[0])"}, "holds int8, buffer C int32"),
    "no address": ({"T.address_of(B[0])": "B.data"}, "take addresses of elements"),
    "rows that do not match": ({"[256]": "[128]", "(256,)": "(128,)"}, "takes as many rows of left"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_what_is_refused(changes: dict[str, str], message: str) -> None:
    text = accumulation(16, "int8", "int8", "int32").script()
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    if changes.get('T.allocate([1024], "int8", "matrix")'):
        text = text.replace(', scope="matrix"', "")
    with pytest.raises(IRError, match=message):
        from_source(text)


def test_products_without_a_form_are_refused() -> None:
    text = accumulation(16, "int8", "int8", "int32").script()
    text = text.replace('"int32"', '"float32"')
    with pytest.raises(IRError, match="no form for products of int8 and int8 that are added to float32"):
        from_source(text)


@pytest.mark.parametrize(("shape", "scope"), [((16, 16), "matrix"), ((256,), "local")])
def test_what_is_no_register(shape: tuple[int, ...], scope: Any) -> None:
    with pytest.raises(IRTypeError, match="buffer x is no matrix register"):
        rows_of(decl_buffer(shape, "int32", "x", scope=scope))
