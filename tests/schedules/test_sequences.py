"""Random sequences of primitives: whatever is accepted keeps the program's meaning, whatever is refused changes nothing."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.codegen.build import build
from ir.script import tir as T
from schedules import Schedule, ScheduleError
from schedules.tree import all_blocks
from tests.programs import kernels

from .checks import arrays_for, assert_replays, assert_same_meaning, main_of, outputs_of


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


class Step:
    """One random primitive on a block of a schedule."""

    def __init__(self, sch: Schedule, generator: random.Random) -> None:
        self.sch, self.random = sch, generator
        names = [block.name for block in all_blocks(sch._root("main")) if block.name != "root"]
        self.names = [name for name in names if names.count(name) == 1]
        self.name = generator.choice(self.names)
        self.loops = sch.get_loops(self.name)
        self.block = sch.get(sch.get_block(self.name))

    def loop(self) -> Any:
        if not self.loops:
            raise ScheduleError("the block has no loops")
        return self.random.choice(self.loops)

    def other_loop(self) -> Any:
        loops = self.sch.get_loops(self.random.choice(self.names))
        return self.random.choice(loops) if loops else self.loop()

    def flip(self) -> bool:
        return self.random.random() < 0.5

    def actions(self) -> dict[str, Callable[[], Any]]:
        sch, name, pick, number = self.sch, self.name, self.random.choice, self.random.randint
        identity = lambda *indices: indices
        return {
            "split": lambda: sch.split(
                self.loop(), pick([[None, number(1, 4)], [number(1, 3), None]]), self.flip()
            ),
            "fuse": lambda: sch.fuse(*self.loops[: number(1, max(1, len(self.loops)))]),
            "reorder": lambda: sch.reorder(*self.random.sample(self.loops, len(self.loops))),
            "add_unit_loop": lambda: sch.add_unit_loop(pick([sch.get_block(name), *self.loops])),
            "compute_at": lambda: sch.compute_at(name, self.other_loop(), self.flip(), pick([-1, -2])),
            "reverse_compute_at": lambda: sch.reverse_compute_at(name, self.other_loop(), self.flip()),
            "compute_inline": lambda: sch.compute_inline(name),
            "reverse_compute_inline": lambda: sch.reverse_compute_inline(name),
            "sampled location": lambda: sch.compute_at(name, sch.sample_compute_location(name)),
            "cache_read": lambda: sch.cache_read(name, number(0, 1), "global"),
            "cache_write": lambda: sch.cache_write(name, 0, "global"),
            "cache_inplace": lambda: sch.cache_inplace(name, 0, "global"),
            "cache_index": lambda: sch.cache_index(name, "global", number(0, 1)),
            "reindex": lambda: sch.reindex(name, (pick(["read", "write"]), 0)),
            "reindex_cache_read": lambda: sch.reindex_cache_read(name, 0, "global", identity),
            "read_at": lambda: sch.read_at(self.loop(), name, 0, "global"),
            "write_at": lambda: sch.write_at(self.loop(), name, 0, "global"),
            "decompose_reduction": lambda: sch.decompose_reduction(name, self.loop()),
            "rfactor": lambda: sch.rfactor(self.loop(), number(-1, 1)),
            "decompose_padding": lambda: sch.decompose_padding(name, self.loop()),
            "pad_einsum": lambda: sch.pad_einsum(name, [number(1, 4) for _ in self.block.iter_vars]),
            "rolling_buffer": lambda: sch.rolling_buffer(name, 0),
            "blockize": lambda: sch.blockize(self.loop(), self.flip()),
            "loop_partition": lambda: sch.loop_partition(self.loop(), [number(1, 2), None]),
            "merge": lambda: sch.merge(self.loop(), self.other_loop()),
            "parallel": lambda: sch.parallel(self.loop()),
            "vectorize": lambda: sch.vectorize(self.loop()),
            "transform_block_layout": lambda: sch.transform_block_layout(
                name, lambda *indices: indices[::-1]
            ),
        }

    def run(self) -> None:
        actions = self.actions()
        before = self.sch.mod.script()
        try:
            actions[self.random.choice(sorted(actions))]()
        except ScheduleError:
            assert self.sch.mod.script() == before


PROGRAMS = {
    "convolution": convolution,
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
