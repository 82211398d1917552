"""Dynamic shared memory: what a kernel declares besides counts, and a launch is allowed what it asks for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ir.script import tir as T
from runners import array, cuda, empty
from runners.cuda.driver import CudaError
from runners.cuda.dynamic_memory import DynamicMemory
from runners.cuda.module import build_module


class _Driver:
    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def number(self, name: str, *args: object) -> int:
        return 1024  # that the kernel declares

    def call(self, name: str, *args: object) -> None:
        self.asked.append((name, *args))


def _memory() -> tuple[DynamicMemory, list[tuple[object, ...]]]:
    driver = _Driver()
    of = SimpleNamespace(driver=driver, device="cuda(0)", name="a card", most_shared_bytes=101376)
    return DynamicMemory(of, 77, "k"), driver.asked  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "asked"), [(0, None), (48128, None), (48129, 48129), (100352, 100352), (None, 100352)]
)
def test_what_is_allowed_without_asking_is_less_by_what_is_declared(wanted, asked):
    memory, calls = _memory()
    memory.allow(wanted)
    memory.allow(wanted or 0)  # once
    assert calls == ([] if asked is None else [("cuFuncSetAttribute", 77, 8, asked)])


def test_more_than_a_block_has_names_the_kernel():
    memory, _ = _memory()
    with pytest.raises(CudaError, match="kernel k asks for 101377 bytes of shared memory, .* has 101376 for"):
        memory.allow(100353)


@T.prim_func
def both(A: T.Buffer((32,), "uint8"), B: T.Buffer((32,), "uint8")):
    D = T.alloc_buffer((44 << 10,), "uint8", scope="shared.dyn")
    S = T.alloc_buffer((8 << 10,), "uint8", scope="shared")
    for _ in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("turn"):
                v = T.axis.spatial(32, t)
                T.reads(A[v])
                T.writes(B[v])
                for k in range(2):
                    D[k * 45024 + v] = A[v]
                    S[k * 8160 + v] = A[v]
                T.tvm_storage_sync("shared")
                B[v] = D[31 - v] + S[8191 - v]


def test_a_kernel_has_memory_of_both_kinds(device_library):
    module = build_module(both, "nvidia/nvidia-a100", compiled=False)
    values = np.arange(32, dtype="uint8")
    found = empty((32,), "uint8", cuda(0))
    module(array(values, cuda(0)), found)
    np.testing.assert_array_equal(found.numpy(), 2 * values[::-1])
