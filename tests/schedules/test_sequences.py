"""Random sequences of primitives: whatever is accepted keeps the program's meaning, whatever is refused changes nothing."""

from __future__ import annotations

import contextlib
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.codegen.build import build
from ir.script import tir as T
from schedules import Schedule, ScheduleError
from tests.programs import kernels

from .checks import arrays_for, assert_replays, assert_same_meaning, main_of, outputs_of
from .random_steps import Step


@T.prim_func
def convolution(
    X: T.Buffer((6, 2), "float32"), W: T.Buffer((3, 2, 2), "float32"), Y: T.Buffer((6, 2), "float32")
):
    P = T.alloc_buffer((8, 2))
    C = T.alloc_buffer((6, 2))
    for i, c in T.grid(8, 2):
        with T.block("P"):
            vi, vc = T.axis.remap("SS", [i, c])
            P[vi, vc] = T.if_then_else(1 <= vi and vi < 7, X[vi - 1, vc], T.float32(0))
    for i, o, k, c in T.grid(6, 2, 3, 2):
        with T.block("C"):
            vi, vo, vk, vc = T.axis.remap("SSRR", [i, o, k, c])
            with T.init():
                C[vi, vo] = T.float32(0)
            C[vi, vo] = C[vi, vo] + P[vi + vk, vc] * W[vk, vc, vo]
    for i, o in T.grid(6, 2):
        with T.block("Y"):
            vi, vo = T.axis.remap("SS", [i, o])
            Y[vi, vo] = T.max(C[vi, vo], T.float32(0))


@T.prim_func
def normalization(A: T.Buffer((3, 5), "float32"), B: T.Buffer((3, 5), "float32")):
    M = T.alloc_buffer((3,))
    S = T.alloc_buffer((3,))
    D = T.alloc_buffer((3, 5))
    for i, k in T.grid(3, 5):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.min_value("float32")
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(3, 5):
        with T.block("D"):
            vi, vk = T.axis.remap("SS", [i, k])
            D[vi, vk] = A[vi, vk] - M[vi]
    for i, k in T.grid(3, 5):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + D[vi, vk]
    for i, k in T.grid(3, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = D[vi, vk] * S[vi]


@T.prim_func
def two_parts(A: T.Buffer((6, 4), "float32"), B: T.Buffer((4, 5), "float32"), C: T.Buffer((6, 5), "float32")):
    """Of an output, each written by a block of its own."""
    for i, j, k in T.grid(4, 5, 4):
        with T.block("first"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j, k in T.grid(2, 5, 4):
        with T.block("rest"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi + 4, vj] = T.float32(0)
            C[vi + 4, vj] = C[vi + 4, vj] + A[vi + 4, vk] * B[vk, vj]


PROGRAMS = {
    "convolution": convolution,
    "two parts": two_parts,
    "normalization": normalization,
    "padded": kernels.padded(),
    "prefix sums": kernels.prefix_sums(),
}


@settings(max_examples=80)
@given(st.integers(0, 10**9), st.sampled_from(list(PROGRAMS)))
def test_random_sequences(seed: int, name: str) -> None:
    program = PROGRAMS[name]
    generator = random.Random(seed)
    sch = Schedule(program, seed=seed, error_render_level="none")
    for _ in range(generator.randint(2, 6)):
        Step(sch, generator).run()
    assert_same_meaning(program, sch)
    assert_replays(sch, program)


@settings(max_examples=25)
@given(st.integers(0, 10**9), st.sampled_from(list(PROGRAMS)))
def test_random_sequences_run_natively(seed: int, name: str) -> None:
    """What lowering and code generation make of schedules that nobody would write, with vectors as the last step."""
    program = PROGRAMS[name]
    generator = random.Random(seed)
    sch = Schedule(program, seed=seed, error_render_level="none")
    for _ in range(generator.randint(2, 6)):
        Step(sch, generator).run()
    last = Step(sch, generator)
    if last.loops:
        with contextlib.suppress(ScheduleError):
            sch.vectorize(last.loops[-1])
    arrays = arrays_for(program, seed)
    found = [array.copy() for array in arrays]
    native = build(main_of(sch))
    native[native.functions()[0]](*found)
    for expected, got in zip(outputs_of(program, arrays), found, strict=True):
        np.testing.assert_array_equal(got, expected)
