"""Random schedules for GPUs with memory of threads, warps and blocks: what is lowered computes what the program says, or it is refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.codegen.cuda.emulation.compile import has_compiler
from ir.error import IRError
from ir.tir import PrimFunc
from ir.tir.transform import VerifyThreadMemory

from .random_gpu_schedules import PROGRAMS, outcome, scheduled


@pytest.mark.meaning("thread", "thread-memory", "thread-race")
@settings(max_examples=40, deadline=None)
@given(st.sampled_from(PROGRAMS), st.integers(0, 1 << 20), st.integers(4, 14))
def test_threads_compute_what_the_program_says(func: PrimFunc, seed: int, steps: int) -> None:
    """In the interpreter, which looks for races and for what nobody wrote."""
    schedule = scheduled(func, random.Random(seed), steps)
    assert outcome(func, schedule.mod, seed, emulates=False).startswith(("right", "refused: "))


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
@pytest.mark.meaning("thread", "thread-memory")
@settings(max_examples=5, deadline=None)
@given(st.sampled_from(PROGRAMS), st.integers(0, 1 << 20), st.integers(4, 14))
def test_so_does_their_source(func: PrimFunc, seed: int, steps: int) -> None:
    """In the emulation of CUDA C++."""
    schedule = scheduled(func, random.Random(seed), steps)
    assert outcome(func, schedule.mod, seed, emulates=True).startswith(("right", "refused: "))


def test_both_happen() -> None:
    """Random schedules use memory of threads, and are refused for it, often enough to say something."""
    own, refused = 0, 0
    for seed in range(240):
        schedule = scheduled(PROGRAMS[seed % 3], random.Random(seed), 12)
        own += any(f'scope="{scope}"' in schedule.mod.script() for scope in ("local", "warp", "shared"))
        try:
            VerifyThreadMemory()(schedule.mod)
        except IRError as error:
            assert "of its own" in str(error)
            refused += 1
    assert own > 120 and 2 < refused < 120
