"""Kernels of the emulation's tests: compiled once for each text, and launched in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pytest

from ir.codegen.cuda.emulation.compile import EmulatedModule, emulate, has_compiler
from ir.codegen.cuda.emulation.source import declared_kernels


@pytest.fixture(autouse=True)
def _needs_a_compiler() -> None:
    if not has_compiler():
        pytest.skip("needs a C++ compiler")


@lru_cache(maxsize=None)
def _compiled(source: str) -> EmulatedModule:
    return emulate(source, declared_kernels(source))


def _launch(
    source: str,
    name: str,
    *args: Any,
    grid: Sequence[int] = (1,),
    block: Sequence[int] = (32,),
    shared_bytes: int = 0,
    seed: int = 0,
) -> None:
    _compiled(source).launch(name, grid, block, shared_bytes, args, seed)


@pytest.fixture
def launch() -> Callable[..., None]:
    """``launch(source, kernel, *args, grid=, block=, shared_bytes=, seed=)``: compiles all kernels of a source, once, and runs one."""
    return _launch
