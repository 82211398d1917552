"""What a candidate costs between its schedule and native code: lowering, code generation, LLVM; and how fast it is.

Usage: python experiments/compile_cost.py [number of random candidates]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ir import te, tir
from ir.codegen.build import compile_generated
from ir.codegen.llvm.codegen import generate
from ir.codegen.llvm.compile import options_of
from ir.target import Target
from ir.tir.lower import lower
from schedules import Schedule
from schedules.postproc import postprocess
from schedules.space import PostOrderApply


def conv2d(h: int, ci: int, co: int, k: int, stride: int) -> tir.PrimFunc:
    """Padded NHWC convolution with relu."""
    p = k // 2
    a, w = te.placeholder((1, h, h, ci), name="A"), te.placeholder((k, k, ci, co), name="W")
    pad = te.compute(
        (1, h + 2 * p, h + 2 * p, ci),
        lambda b, y, x, c: tir.if_then_else(
            tir.all(y >= p, y < h + p, x >= p, x < h + p), a[b, y - p, x - p, c], tir.const(0.0, "float32")
        ),
        name="pad",
    )
    r, s, c = te.reduce_axis((0, k), "r"), te.reduce_axis((0, k), "s"), te.reduce_axis((0, ci), "c")
    out = (h + 2 * p - k) // stride + 1
    conv = te.compute(
        (1, out, out, co),
        lambda b, y, x, f: te.sum(pad[b, y * stride + r, x * stride + s, c] * w[r, s, c, f], axis=[r, s, c]),
        name="conv",
    )
    return te.create_prim_func([a, w, te.compute(conv.shape, lambda *i: tir.max(conv(*i), 0.0), name="relu")])


def matmul(n: int) -> tir.PrimFunc:
    """Square matrix product."""
    a, b, k = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B"), te.reduce_axis((0, n), "k")
    return te.create_prim_func(
        [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]
    )


def softmax(n: int) -> tir.PrimFunc:
    """Rows of n of n."""
    a = te.placeholder((n, n), name="A")
    k1, k2 = te.reduce_axis((0, n), "k1"), te.reduce_axis((0, n), "k2")
    top = te.compute((n,), lambda i: te.max(a[i, k1], axis=k1), name="top")
    e = te.compute((n, n), lambda i, j: te.exp(a[i, j] - top[i]), name="e")
    total = te.compute((n,), lambda i: te.sum(e[i, k2], axis=k2), name="total")
    return te.create_prim_func([a, te.compute((n, n), lambda i, j: e[i, j] / total[i], name="out")])


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    """Result and milliseconds."""
    start = time.perf_counter()
    result = action()
    return result, (time.perf_counter() - start) * 1e3


def main() -> None:
    """Prints median and maximum milliseconds of each stage, and the best kernel of the candidates."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    target = Target("cpu")
    kernels = {
        "conv2d 14x14x256 3x3": (conv2d(14, 256, 256, 3, 1), 2 * 14 * 14 * 256 * 256 * 9),
        "conv2d 56x56x64 1x1": (conv2d(56, 64, 64, 1, 1), 2 * 56 * 56 * 64 * 64),
        "matmul 512": (matmul(512), 2 * 512**3),
        "softmax 512": (softmax(512), 5 * 512 * 512),
    }
    for name, (func, flops) in kernels.items():
        arrays = [
            np.ones([int(e) for e in func.buffer_map[p].shape], "float32")  # type: ignore[call-overload]
            for p in func.params
        ]
        stages: dict[str, list[float]] = {"lower": [], "generate": [], "LLVM": []}
        best = float("inf")
        for seed in range(rounds):
            start = Schedule(func, error_render_level="none", seed=seed)
            for candidate in PostOrderApply()._expand(start, target):
                if not postprocess(candidate, target):
                    continue
                lowered, ms = timed(partial(lower, candidate.mod))
                stages["lower"].append(ms)
                generated, ms = timed(partial(generate, lowered))
                stages["generate"].append(ms)
                native, ms = timed(partial(compile_generated, generated, options_of(target)))
                stages["LLVM"].append(ms)
                run = native[native.functions()[0]]
                run(*arrays)
                best = min(best, *(timed(partial(run, *arrays))[1] for _ in range(5)))
        costs = ", ".join(f"{stage} {np.median(v):.1f} (max {max(v):.0f})" for stage, v in stages.items())
        count = len(stages["lower"])
        print(
            f"{name}: {count} candidates, ms: {costs}; best {best:.3f} ms = {flops / best / 1e6:.0f} GFLOP/s"
        )


if __name__ == "__main__":
    main()
