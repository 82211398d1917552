"""Matrix instructions in the interpreter: what lanes that do not agree, or come too few, mean; results are tested with code generation."""

from __future__ import annotations

import numpy as np
import pytest

from ir.script import from_source
from ir.tir import PrimFunc
from ir.tir.interpreter import InterpreterError, run
from ir.tir.interpreter.tensor_cores import round_to_tf32
from tests.programs.tensor_cores import LDMATRIX, drawn, mma_product, wmma_product

pytestmark = pytest.mark.meaning("warp-matrix")
SHAPE = (16, 16, 16)


def changed(func: PrimFunc, old: str, new: str) -> PrimFunc:
    text = func.script()
    assert old in text
    return from_source(text.replace(old, new, 1))


def refused(func: PrimFunc, message: str) -> None:
    arrays = [
        np.ones([int(extent) for extent in buffer.shape], buffer.dtype) for buffer in func.buffer_map.values()
    ]
    with pytest.raises(InterpreterError, match=message):
        run(func, *arrays)


def test_lanes_come_with_the_same_arguments() -> None:
    func = wmma_product(SHAPE, "float16", "float32")
    refused(
        changed(func, "bx * 768 + s * 16", "bx * 768 + s * 16 + tx // 31 * 8"),
        r"different arguments.*\[warp-matrix\]",
    )


def test_all_lanes_of_a_warp_come() -> None:
    func = wmma_product(SHAPE, "float16", "float32")
    refused(
        changed(func, '"threadIdx.x", 32', '"threadIdx.x", 12'),
        r"a warp of 24 threads comes, not of 32.*\[warp-matrix\]",
    )
    text = LDMATRIX.replace(
        "    T.evaluate(T.ptx_ldmatrix", "    if tx < 31:\n        T.evaluate(T.ptx_ldmatrix", 1
    )
    refused(from_source(text), r"has ended .*\[warp-matrix\]|waits at .*\[warp-matrix\]")


def test_a_fragment_is_loaded_or_filled_first() -> None:
    func = wmma_product(SHAPE, "float16", "float32")
    refused(
        changed(func, "T.tvm_mma_sync(cf, 0, af, 0", "T.tvm_mma_sync(cf, 0, af, 1"),
        r"neither loaded nor filled.*\[warp-matrix\]",
    )


def test_fragments_of_a_product_have_one_shape() -> None:
    func = wmma_product(SHAPE, "float16", "float32")
    refused(
        changed(func, "T.tvm_fill_fragment(cf, 16, 16, 16", "T.tvm_fill_fragment(cf, 32, 8, 16"),
        r"different shapes.*\[warp-matrix\]",
    )


def test_rows_begin_at_multiples_of_16_bytes() -> None:
    func = wmma_product(SHAPE, "float16", "float32")
    refused(changed(func, "bx * 768 + s * 16", "bx * 768 + s * 16 + 4"), r"multiples of 16.*\[warp-matrix\]")


def test_layouts_of_registers_are_those_of_the_instruction() -> None:
    func = mma_product((16, 8, 8), ("fp16", "fp16", "fp32"), ("float16", "float16", "float32"))
    refused(changed(func, '"row", "col"', '"col", "col"'), "A by rows and B by columns")


def test_one_iteration_works_for_a_warp_in_programs_with_blocks() -> None:
    func = wmma_product(SHAPE, "float16", "float32")
    text = func.script()
    for axis, extent in (("blockIdx.x", 2), ("threadIdx.y", 2)):
        name = "bx" if axis == "blockIdx.x" else "ty"
        text = text.replace(f'{name} = T.launch_thread("{axis}", {extent})', f"{name} = 1")
    text = text.replace('tx = T.launch_thread("threadIdx.x", 32)', "")
    a, b, c = drawn((32, 48), "float16", 0), drawn((48, 32), "float16", 1), np.zeros((32, 32), "float32")
    run(from_source(text), a, b, c)
    expected = a[16:].astype("float64") @ b[:, 16:].astype("float64")
    assert np.abs(c[16:, 16:] - expected).max() < 1e-4
    assert not c[:16].any()


def test_registers_have_a_meaning_in_threads_only() -> None:
    func = mma_product((16, 8, 8), ("fp16", "fp16", "fp32"), ("float16", "float16", "float32"))
    text = func.script().replace('tx = T.launch_thread("threadIdx.x", 32)', "tx = 0")
    refused(from_source(text), "has a meaning in threads only")


def test_rounding_to_tf32() -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 4096, dtype="uint32")
    values = bits.view("float32")
    finite = np.isfinite(values)
    with np.errstate(over="ignore"):
        expected = ((bits + 0x1000) & 0xFFFFE000).astype("uint32").view("float32")
    assert np.array_equal(round_to_tf32(values)[finite], expected[finite])
    for special in (np.inf, -np.inf, np.nan, 0.0, -0.0):
        found = round_to_tf32(np.array([special], "float32"))
        assert np.array_equal(found, np.array([special], "float32"), equal_nan=True)
        assert np.signbit(found) == np.signbit(np.float32(special))
