"""Random schedules for GPUs whose threads may need what others keep: caches in all scopes, loops bound at random, moved producers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from ir import IRModule
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.error import IRError
from ir.script import tir as T
from ir.target import Target
from ir.tir import ForKind, PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules import Schedule, ScheduleError
from schedules.tree import all_blocks

TARGET = Target("nvidia/nvidia-a100")
SCOPES = ("local", "local", "local", "shared", "warp", "global")
AXES = ("threadIdx.x", "threadIdx.x", "threadIdx.y", "blockIdx.x", "blockIdx.y", "vthread.x")


@T.prim_func
def stencil(X: T.Buffer((64,), "int32"), Y: T.Buffer((64,), "int32")):
    P = T.alloc_buffer((66,), "int32")
    Q = T.alloc_buffer((64,), "int32")
    for i in range(66):
        with T.block("P"):
            vi = T.axis.spatial(66, i)
            P[vi] = T.if_then_else(1 <= vi and vi < 65, X[vi - 1], 0)
    for i, k in T.grid(64, 3):
        with T.block("Q"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Q[vi] = 0
            Q[vi] = Q[vi] + P[vi + vk] * (vk + 1)
    for i in range(64):
        with T.block("Y"):
            vi = T.axis.spatial(64, i)
            Y[vi] = Q[vi] * 2 + X[63 - vi]


@T.prim_func
def product(A: T.Buffer((8, 16), "int32"), B: T.Buffer((16, 8), "int32"), D: T.Buffer((8, 8), "int32")):
    C = T.alloc_buffer((8, 8), "int32")
    for i, j, k in T.grid(8, 8, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(8, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vj, vi] + C[vi, vj]


@T.prim_func
def rows(X: T.Buffer((8, 32), "int32"), Y: T.Buffer((8, 32), "int32")):
    M = T.alloc_buffer((8,), "int32")
    Z = T.alloc_buffer((8, 32), "int32")
    for i, k in T.grid(8, 32):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.min_value("int32")
            M[vi] = T.max(M[vi], X[vi, vk])
    for i, j in T.grid(8, 32):
        with T.block("Z"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = X[vi, vj] - M[vi]
    for i, j in T.grid(8, 32):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = Z[vi, 31 - vj] + Z[7 - vi, vj]


PROGRAMS: tuple[PrimFunc, ...] = (stencil, product, rows)


class Step:
    """One random primitive on a random block."""

    def __init__(self, sch: Schedule, rng: random.Random) -> None:
        self.sch, self.rng = sch, rng
        self.names = [block.name for block in all_blocks(sch._root("main")) if block.name != "root"]
        self.name = rng.choice(self.names)
        self.loops = sch.get_loops(self.name)

    def loop(self) -> Any:
        if not self.loops:
            raise ScheduleError("the block has no loops")
        return self.rng.choice(self.loops)

    def other_loop(self) -> Any:
        loops = self.sch.get_loops(self.rng.choice(self.names))
        return self.rng.choice(loops or self.loops or [None])

    def actions(self) -> list[Callable[[], Any]]:
        sch, name, rng = self.sch, self.name, self.rng
        return [
            lambda: sch.cache_read(name, rng.randint(0, 1), rng.choice(SCOPES)),
            lambda: sch.cache_read(name, rng.randint(0, 1), rng.choice(SCOPES)),
            lambda: sch.cache_write(name, 0, rng.choice(SCOPES)),
            lambda: sch.set_scope(name, 0, rng.choice(SCOPES)),
            lambda: sch.set_scope(name, 0, rng.choice(SCOPES)),
            lambda: sch.compute_at(name, self.other_loop(), rng.random() < 0.3),
            lambda: sch.compute_at(name, self.other_loop(), rng.random() < 0.3),
            lambda: sch.reverse_compute_at(name, self.other_loop(), rng.random() < 0.3),
            lambda: sch.compute_inline(name),
            lambda: sch.split(self.loop(), [None, rng.choice([2, 4, 8, 32])]),
            lambda: sch.fuse(*self.loops[: rng.randint(1, max(1, len(self.loops)))]),
            lambda: sch.reorder(*rng.sample(self.loops, len(self.loops))),
            lambda: sch.bind(self.loop(), rng.choice(AXES)),
            lambda: sch.bind(self.loop(), rng.choice(AXES)),
        ]


def scheduled(func: PrimFunc, rng: random.Random, steps: int) -> Schedule:
    """A program behind random primitives, of which those that do not apply are left out; each block is below a loop that is bound, if
    that can be.
    """
    sch = Schedule(func)
    for _ in range(steps):
        with contextlib.suppress(ScheduleError):
            rng.choice(Step(sch, rng).actions())()
    tree = sch._root("main")
    for name in dict.fromkeys(block.name for block in all_blocks(tree) if block.name != "root"):
        node = sch.get(sch.get_block(name))
        kinds = [sch.get(loop).kind for loop in sch.get_loops(name)]
        if ForKind.THREAD_BINDING not in kinds and node.iter_vars:
            for loop in sch.get_loops(name):
                with contextlib.suppress(ScheduleError):
                    sch.bind(loop, rng.choice(["blockIdx.x", "threadIdx.x", "threadIdx.x"]))
                    break
    return sch


def arguments(func: PrimFunc, seed: int) -> list[np.ndarray]:
    """Random arrays for the parameters of a function."""
    generator = np.random.default_rng(seed)
    shapes = [[int(extent) for extent in func.buffer_map[param].shape] for param in func.params]
    return [generator.integers(-50, 50, shape).astype("int32") for shape in shapes]


def outcome(func: PrimFunc, module: IRModule, seed: int, emulates: bool) -> str:
    """ "refused: ..." by lowering, or "right".

    Raises:
        AssertionError: the kernels compute something else than the function, in the interpreter or in the emulation.
    """
    try:
        lowered = lower(module, TARGET)
        source = generate(lowered)
    except IRError as error:
        return f"refused: {error}"
    expected = arguments(func, seed)
    run(func, *expected)
    runs: list[Callable[..., Any]] = [lambda *args: run(lowered, *args)]
    if emulates:
        runs.append(EmulatedProgram(lowered, source))
    for call in runs:
        found = arguments(func, seed)
        call(*found)
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_array_equal(got, want)
    return "right"
