"""Scheduled programs for a device, and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.script import tir as T
from schedules import Schedule

TARGET = "nvidia/nvidia-a100"


@T.prim_func
def turned(A: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")):
    B = T.alloc_buffer((128,), "float32")
    for i in range(128):
        with T.block("twice"):
            vi = T.axis.spatial(128, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(128):
        with T.block("turn"):
            vi = T.axis.spatial(128, i)
            C[vi] = B[127 - vi] + T.float32(1)


@T.prim_func
def scaled(a: T.handle, c: T.handle, factor: T.float32):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        with T.block("scale"):
            vi = T.axis.spatial(n, i)
            C[vi] = A[vi] * factor


def bound(program: Any, *blocks: str, threads: int = 32) -> Any:
    """The program with each block's loop over threads."""
    schedule = Schedule(program)
    for name in blocks:
        (loop,) = schedule.get_loops(schedule.get_block(name))
        outer, inner = schedule.split(loop, [None, threads])
        schedule.bind(outer, "blockIdx.x")
        schedule.bind(inner, "threadIdx.x")
    return schedule.mod


def turned_values(values: np.ndarray) -> np.ndarray:
    return values[::-1] * 2 + 1
