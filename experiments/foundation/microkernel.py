"""How close a packed matmul micro-kernel in the code generator's form comes to the machine's FMA peak.

The accumulator is an ``alloca`` accessed at constant offsets with vector loads and stores, the row and column loops
are unrolled, the reduction loop is not, and a multiply and an add carry the ``contract`` flag.  LLVM's SROA turns the
accumulator into registers by itself; nothing else is needed (neither ``prefer-vector-width`` nor disabled passes).
The peak is measured in the same process, in turns with each kernel.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ir.codegen.llvm.builder import FunctionBuilder, ModuleBuilder, Value, constant, vector
from ir.codegen.llvm.compile import emit_assembly, emit_object, optimize
from ir.codegen.llvm.loaded_object import LoadedObject

from ..harness import machine

LANES = 16
REPEATS = 64


def kernel(rows: int, columns: int) -> str:
    """Assembly of ``REPEATS`` times C[rows, columns * LANES] = A[k, rows]^T B[k, columns * LANES]."""
    module = ModuleBuilder()
    type_ = vector("float", LANES)
    pointer = "ptr noalias align 64"
    b = FunctionBuilder(
        "kernel",
        "void",
        [(pointer, "A"), (pointer, "B"), (pointer, "C"), ("i64", "K")],
        module.attributes("nounwind"),
    )
    tile = b.alloca(f"[{rows * columns * LANES} x float]", 64)

    def at(base: Value, index: Value) -> Value:
        return b.element_pointer(base, "float", index)

    def number(value: int) -> Value:
        return Value(str(value), "i64")

    b.branch("repeat")
    b.label("repeat")
    b.emit("%r = phi i64 [0, %entry], [%r.next, %exit]")
    for i in range(rows * columns):
        b.store(constant(0.0, type_), at(tile, number(i * LANES)), 64)
    b.branch("head")
    b.label("head")
    b.emit("%k = phi i64 [0, %repeat], [%k.next, %head]")
    k = Value("%k", "i64")
    for i in range(rows):
        for j in range(columns):
            right = b.load(
                type_, at(Value("%B", "ptr"), b.add(b.mul(k, number(columns * LANES)), number(j * LANES))), 64
            )
            left = b.splat(
                b.load("float", at(Value("%A", "ptr"), b.add(b.mul(k, number(rows)), number(i))), 4), LANES
            )
            place = at(tile, number((i * columns + j) * LANES))
            product = b.binary("fmul contract", left, right)
            b.store(b.binary("fadd contract", b.load(type_, place, 64), product), place, 64)
    b.emit("%k.next = add nuw nsw i64 %k, 1")
    b.cond_branch(b.icmp("slt", Value("%k.next", "i64"), Value("%K", "i64")), "head", "exit")
    b.label("exit")
    for i in range(rows * columns):
        b.store(b.load(type_, at(tile, number(i * LANES)), 64), at(Value("%C", "ptr"), number(i * LANES)), 64)
    b.emit("%r.next = add nuw nsw i64 %r, 1")
    b.cond_branch(b.icmp("slt", Value("%r.next", "i64"), number(REPEATS)), "repeat", "done")
    b.label("done")
    b.ret()
    module.define("kernel", b.text())
    return module.text()


def aligned(count: int) -> np.ndarray:
    """Random float32 values at a 64-byte boundary."""
    raw = np.random.default_rng(0).random(count + 16, dtype="float32")
    start = -raw.ctypes.data // 4 % 16
    return raw[start : start + count]


def fastest(call: Callable[[], Any], count: int = 40) -> float:
    """Seconds of the fastest call."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def figures() -> dict[str, tuple[float, str]]:
    """The share of the peak on one core, and stack accesses, of several register tiles."""
    peak, depth = machine.peak(1), 512
    found: dict[str, tuple[float, str]] = {}
    for rows, columns in ((8, 2), (14, 2), (12, 2), (6, 4), (28, 1)):
        module = optimize(kernel(rows, columns))
        code = LoadedObject(emit_object(module))
        spills = emit_assembly(module).count("(%rsp)")
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(code.address("kernel"))
        a, b, c = aligned(depth * rows), aligned(depth * columns * LANES), aligned(rows * columns * LANES)
        pointers = a.ctypes.data, b.ctypes.data, c.ctypes.data
        flops, shares = 2.0 * rows * columns * LANES * depth * REPEATS, []
        for _ in range(7):
            speed = flops / fastest(partial(run, *pointers, depth))
            shares.append(speed / (peak.facts["flops"] / fastest(peak.call)))
        expected = a.reshape(depth, rows).T @ b.reshape(depth, columns * LANES)
        np.testing.assert_allclose(c.reshape(rows, columns * LANES), expected, rtol=1e-4)
        tile = f"{rows} x {columns * LANES} tile"
        found[f"{tile}, share of the FMA peak of one core"] = statistics.median(shares) * 100, "%"
        found[f"{tile}, stack accesses"] = float(spills), ""
    return found
