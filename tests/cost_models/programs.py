"""Small kernels, their sketches and populations for the tests of this package."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ir import te, topi
from ir.target import Target
from schedules.population.sketch import Sketch
from schedules.space import PostOrderApply
from tests.programs.expressions import matmul

TARGET = Target(
    "llvm -mcpu=znver5 -num-cores=2 -l1-cache-bytes=49152 -l2-cache-bytes=1048576 -l3-cache-bytes=33554432"
)
"""Fixed facts, so that expectations do not depend on the machine that runs the tests."""


def conv2d(size: int = 14, channels: int = 32) -> Any:
    data = te.placeholder((1, size, size, channels), name="data")
    kernel = te.placeholder((3, 3, channels, channels), name="kernel")
    return te.create_prim_func([data, kernel, topi.nn.conv2d_nhwc(data, kernel, 1, 1, 1)])


def grouped() -> Any:
    data = te.placeholder((1, 14, 14, 32), name="data")
    kernel = te.placeholder((3, 3, 8, 32), name="kernel")
    return te.create_prim_func([data, kernel, topi.nn.group_conv2d_nhwc(data, kernel, 1, 1, 1, 4)])


def softmax(n: int = 64) -> Any:
    data = te.placeholder((n, n), name="data")
    return te.create_prim_func([data, topi.nn.softmax(data)])


PROGRAMS: dict[str, Callable[[], Any]] = {
    "matmul": lambda: matmul(128),
    "conv2d": conv2d,
    "grouped": grouped,
    "softmax": softmax,
}


@cache
def program(name: str) -> Any:
    """A kernel, built once."""
    return PROGRAMS[name]()


@cache
def sketches(name: str) -> list[Sketch]:
    """All sketches of a kernel."""
    return PostOrderApply().generate_sketches(program(name), TARGET)


def population(sketch: Sketch, count: int, seed: int = 0) -> np.ndarray:
    """Random valid rows."""
    return sketch.sample(count, np.random.default_rng(seed))
