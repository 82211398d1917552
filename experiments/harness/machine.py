"""What the machine can do, measured as contestants: multiply-adds on all cores, and memory traffic of a given footprint."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from .child import Ready

_JOBS = 8
"""Parallel jobs per thread, so that a disturbed core does not hold up the others for long."""


def peak(threads: int) -> Ready:
    """Independent fused multiply-adds in registers on every core, from our own code generator."""
    from ir import tir
    from ir.codegen.build import build
    from ir.codegen.llvm.runtime import runtime
    from ir.target import Target
    from ir.tir import ForKind

    target = Target("cpu")
    runtime().set_num_threads(threads)
    lanes, chains, steps = target.vector_bits // 32, 16, 50_000
    out = tir.decl_buffer((threads * _JOBS, chains, lanes), "float32", "out")
    accumulator = tir.decl_buffer((chains, lanes), "float32", "accumulator", scope="local")
    job, step, chain, lane = (tir.Var(name, "int32") for name in ("job", "step", "chain", "lane"))

    def nest(body: tir.Stmt) -> tir.Stmt:
        inner = tir.For(lane, 0, lanes, ForKind.VECTORIZED, body)
        return tir.For(chain, 0, chains, ForKind.UNROLLED, inner)

    one, small = tir.const(0.999, "float32"), tir.const(0.001, "float32")
    begin = nest(tir.BufferStore(accumulator, out[job, chain, lane], (chain, lane)))
    update = nest(tir.BufferStore(accumulator, accumulator[chain, lane] * one + small, (chain, lane)))
    finish = nest(tir.BufferStore(out, accumulator[chain, lane], (job, chain, lane)))
    body = tir.SeqStmt([begin, tir.For(step, 0, steps, ForKind.SERIAL, update), finish])
    allocated = tir.Allocate(
        accumulator.data, "float32", (chains, lanes), tir.const(True), tir.DeclBuffer(accumulator, body)
    )
    loop = tir.For(job, 0, threads * _JOBS, ForKind.PARALLEL, allocated)
    native = build(tir.PrimFunc([out], loop), target)
    array = np.zeros((threads * _JOBS, chains, lanes), np.float32)
    flops = 2.0 * threads * _JOBS * chains * lanes * steps
    return Ready(lambda: native["main"](array), {"flops": flops})


def triad(threads: int, footprint: int) -> Ready:
    """``a[i] = b[i] + s * c[i]`` over three arrays of ``footprint`` bytes together, every core on its own part.

    The parts are gone through as often as it takes to fill a millisecond or so, so that a small footprint shows what
    the caches deliver.
    """
    from ir import tir
    from ir.codegen.build import build
    from ir.codegen.llvm.runtime import runtime
    from ir.target import Target
    from ir.tir import ForKind

    target = Target("cpu")
    runtime().set_num_threads(threads)
    lanes = target.vector_bits // 32
    vectors = max(1, footprint // (3 * 4 * lanes * threads))
    repeats = max(1, (32 << 20) // footprint)
    shape = (threads, vectors, lanes)
    a, b, c = (tir.decl_buffer(shape, "float32", name) for name in "abc")
    job, again, i, lane = (tir.Var(name, "int32") for name in ("job", "again", "i", "lane"))
    # the factor changes with every repetition, so that none of them is superfluous
    store = tir.BufferStore(a, b[job, i, lane] + c[job, i, lane] * tir.Cast("float32", again), (job, i, lane))
    inner = tir.For(i, 0, vectors, ForKind.SERIAL, tir.For(lane, 0, lanes, ForKind.VECTORIZED, store))
    loop = tir.For(job, 0, threads, ForKind.PARALLEL, tir.For(again, 0, repeats, ForKind.SERIAL, inner))
    native = build(tir.PrimFunc([a, b, c], loop), target)
    arrays = [np.ones(shape, np.float32) for _ in "abc"]
    return Ready(lambda: native["main"](*arrays), {"bytes": 12.0 * lanes * vectors * threads * repeats})


def describe() -> dict[str, Any]:
    """The processor, its cores, and versions: nothing that names the machine."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    from ir.target import Target

    return {
        "processor": model,
        "cores": os.cpu_count(),
        "target": str(Target("cpu")),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
