"""Small kernels, their sketches and populations for the tests of this package."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ir.target import Target
from schedules.population.sketch import Sketch
from schedules.space import PostOrderApply
from tests.programs.expressions import conv2d, grouped_conv2d, library_softmax, matmul

TARGET = Target(
    "llvm -mcpu=znver5 -num-cores=2 -l1-cache-bytes=49152 -l2-cache-bytes=1048576 -l3-cache-bytes=33554432"
)
"""Fixed facts, so that expectations do not depend on the machine that runs the tests."""


PROGRAMS: dict[str, Callable[[], Any]] = {
    "matmul": lambda: matmul(128),
    "conv2d": conv2d,
    "grouped": grouped_conv2d,
    "softmax": library_softmax,
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
