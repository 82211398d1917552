"""Rows that the threads of a block put in order: in the emulation of CUDA C++, and in the interpreter, which looks for races."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ir import IRModule, te
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.dtype import to_numpy
from ir.error import IRValueError
from ir.target import Target
from ir.tir.expr import IterVar, Range, Var
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.tir.operators import const
from ir.tir.stmt import For, ForKind
from ir.topi.row_algorithms import ordered_row
from ir.topi.row_order import RowOrder
from ir.topi.row_threads import SHARED_BYTES, thread_counts, usual_threads
from ir.topi.sort_keys import key_bits

from .test_sort import FLOATS, INTEGERS, numbers, order

TARGET = Target("nvidia/nvidia-a100")


def lowered(
    rows: int, extent: int, count: int, dtype: str, descending: bool, how: tuple[str, int]
) -> IRModule:
    """A kernel in which a block of threads finds values and positions of the first of each row."""

    def build(ins: Any, outs: Any) -> Any:
        number, extent_ = Var("row", "int32"), const(rows, "int32")
        axis = IterVar(
            Range.from_min_extent(const(0, "int32"), extent_),
            Var("blockIdx.x", "int32"),
            IterVar.ThreadIndex,
            "blockIdx.x",
        )
        row_order = RowOrder(1, descending, ("values", "indices"))
        body = ordered_row(row_order, ins[0], outs, number, "row", how[0], [how[1]])
        return For(number, const(0, "int32"), extent_, ForKind.THREAD_BINDING, body, axis)

    source = te.placeholder((rows, extent), dtype, name="A")
    outs = te.extern([(rows, count)] * 2, [source], build, name="order", dtype=[dtype, "int32"])
    return lower(te.create_prim_func([source, *outs]), TARGET)


def emulated(module: IRModule) -> Callable[..., None]:
    return EmulatedProgram(module, generate(module))


def interpreted(module: IRModule) -> Callable[..., None]:
    return lambda *arrays: run(module, *arrays)


def assert_orders(
    data: np.ndarray[Any, Any],
    dtype: str,
    count: int,
    descending: bool,
    how: tuple[str, int],
    ways: Sequence[Callable[[IRModule], Callable[..., None]]] = (emulated,),
) -> None:
    expected = np.array([order(row, not descending)[:count] for row in data], "int32")
    module = lowered(*data.shape, count, dtype, descending, how)
    for way in ways:
        values, positions = (
            np.zeros((len(data), count), to_numpy(dtype)),
            np.zeros((len(data), count), "int32"),
        )
        way(module)(data, values, positions)
        np.testing.assert_array_equal(positions, expected)
        assert values.tobytes() == np.take_along_axis(data, expected, 1).tobytes(), (
            "signs of zeros and NaN too"
        )


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("dtype", [*FLOATS[:-1], *INTEGERS])
def test_sorting_and_selecting_of_every_dtype(dtype: str, descending: bool) -> None:
    """With ties, of floats with NaN, both zeros and infinities."""
    assert_orders(numbers(dtype, 2, 300), dtype, 300, descending, ("bitonic", 64))
    assert_orders(numbers(dtype, 2, 300), dtype, 7, descending, ("selection", 64))


@pytest.mark.parametrize(
    ("extent", "threads"),
    [(1, 32), (2, 32), (31, 32), (64, 32), (64, 64), (100, 64), (1024, 128), (2048, 1024), (5000, 1024)],
)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_rows_of_any_length(extent: int, threads: int, dtype: str) -> None:
    assert_orders(numbers(dtype, 2, extent), dtype, extent, False, ("bitonic", threads))


@pytest.mark.parametrize(
    ("extent", "count", "threads"),
    [(40, 1, 32), (300, 33, 32), (300, 33, 128), (1000, 100, 256), (4100, 64, 512)],
)
def test_the_first_of_rows_of_any_length(extent: int, count: int, threads: int) -> None:
    data = numbers("float32", 3, extent)
    data[1] = np.sort(data[1])  # the last ones are wanted: something stays each time
    data[2] = 1.0
    assert_orders(data, "float32", count, True, ("selection", threads))


@pytest.mark.parametrize(
    ("extent", "count", "how"),
    [
        (100, 100, ("bitonic", 32)),
        (200, 200, ("bitonic", 64)),
        (200, 9, ("selection", 32)),
        (300, 40, ("selection", 64)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_threads_do_not_race(extent: int, count: int, how: tuple[str, int], dtype: str) -> None:
    assert_orders(numbers(dtype, 2, extent), dtype, count, True, how, (interpreted,))


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize(
    ("extent", "count", "dtype"), [(4096, 4096, "float32"), (32000, 128, "float32"), (1000, 10, "int64")]
)
def test_usual_algorithms_keep_records_in_registers(extent: int, count: int, dtype: str, arch: str) -> None:
    usual = usual_threads(extent, count, key_bits(dtype))
    assert usual is not None
    algorithm, (threads,) = usual
    code = compile_cuda(generate(lowered(2, extent, count, dtype, True, (algorithm, threads))).text, arch)
    (kernel,) = code.resources.values()
    assert not code.warnings
    assert kernel.spill_store_bytes == kernel.spill_load_bytes == 0
    assert kernel.local_bytes == 0, "no array is left in memory"


def test_numbers_of_threads_are_within_a_block() -> None:
    for extent in (1, 33, 1000, 4096, 16384):
        for count in (1, 10, extent):
            for bits in (8, 32, 64):
                for algorithm in ("bitonic", "selection"):
                    for threads in thread_counts(algorithm, extent, count, bits):
                        assert 32 <= threads <= 1024
    assert not thread_counts("bitonic", 1 << 15, 1 << 15, 32), "a block has not so many registers"
    assert not thread_counts("selection", 100, 100, 32), "all of a row are not selected"
    assert SHARED_BYTES == 48 << 10


@pytest.mark.parametrize("how", [("bitonic", 16), ("bitonic", 48), ("selection", 2048), ("selection", 0)])
def test_other_numbers_of_threads_are_refused(how: tuple[str, int]) -> None:
    with pytest.raises(IRValueError, match="by .* threads; it does by"):
        lowered(1, 300, 5, "float32", True, how)
