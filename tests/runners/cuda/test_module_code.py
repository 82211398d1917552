"""Kernels of devices as bytes: another process launches the same code, and forged descriptions are errors."""

from __future__ import annotations

import numpy as np
import pytest

from ir import structural_equal
from ir.codegen.container import ContainerError, pack, unpack
from runners.cuda.kernel import build_cuda
from runners.cuda.module import CudaModule, build_module
from runners.cuda.module_code import packed_cuda, unpacked_cuda
from runners.kernel import Kernel
from runners.kernel_code import packed_kernel, unpacked_kernel
from tests.runners.cuda.programs import TARGET, bound, turned, turned_values


@pytest.fixture(scope="module")
def module(device_library) -> CudaModule:
    return build_module(bound(turned, "twice", "turn"), TARGET)


def test_everything_is_the_same(module: CudaModule) -> None:
    found = unpacked_cuda(packed_cuda(module))
    assert found.source() == module.source() and found.source("llvm") == module.source("llvm")
    assert found.arch == module.arch and found.images == module.images
    assert found.device_source.launches.keys() == module.device_source.launches.keys()
    for name, kernel in module.device_source.kernels.items():
        assert structural_equal(found.device_source.kernels[name], kernel)


def test_a_kernel_of_a_device() -> None:
    mod = bound(turned, "twice", "turn")
    found = unpacked_kernel(packed_kernel(Kernel(mod, build_cuda(mod, TARGET))))
    found.load(30.0)
    values, out = np.arange(128, dtype="float32"), np.zeros(128, "float32")
    found.call(values, out)
    np.testing.assert_array_equal(out, turned_values(values))


def test_forged_modules_are_errors(module: CudaModule) -> None:
    described, sections = unpack(packed_cuda(module))
    for forged in (
        pack({**described, "kind": "native"}, sections),
        pack({**described, "images": None}, sections),
        pack({**described, "images": [*described["images"], "sm_999"]}, sections),
        pack(described, sections[:2]),
        pack(described, [sections[0], b"{}", *sections[2:]]),
        pack(described, [b"\xff\xff", *sections[1:]]),
        pack(described, [sections[0], sections[1], b"host", *sections[3:]]),
        pack({}, sections),
    ):
        with pytest.raises(ContainerError):
            unpacked_cuda(forged)
