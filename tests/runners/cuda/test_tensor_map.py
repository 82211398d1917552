"""Tensor maps: the driver makes them for a kernel's launch, and refuses what the copy engine does not take."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from runners import array, cuda, empty
from runners.cuda.context import context
from runners.cuda.driver import CudaError, Driver
from runners.cuda.host import ENCODE_TENSOR_MAP
from runners.cuda.module import build_module
from runners.cuda.tensor_map import encoded_tensor_map
from tests.programs.warp_groups import Product, scheduled


@pytest.fixture(scope="module")
def product() -> Product:
    return Product(128, 64, 256, "float16", "float32", False)


@pytest.fixture(scope="module")
def module(device_library, product):
    return build_module(scheduled(product, 64, 64, 2).mod, "nvidia/nvidia-h200", compiled=False)


def test_the_host_makes_maps_of_the_arrays_that_it_is_given(module, product):
    assert ENCODE_TENSOR_MAP in {site.function for site in module.host.packed_sites}
    for seed, device in ((0, cuda(0)), (1, cuda(1))):
        a, b = product.values(seed)
        c = empty((128, 64), "float32", device)
        module(array(a, device), array(b, device), c)
        np.testing.assert_allclose(c.numpy(), product.expected(a, b), rtol=0, atol=1e-3)


def test_a_launch_that_is_kept_has_its_maps(module, product):
    a, b = product.values()
    c = empty((128, 64), "float32", cuda(0))
    call = module["main"].bind(array(a, cuda(0)), array(b, cuda(0)), c)
    for _ in range(2):
        c.copyfrom(np.zeros((128, 64), "float32"))
        call()
        np.testing.assert_allclose(c.numpy(), product.expected(a, b), rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("address", "swizzle", "layout"),
    [
        (8, 128, (64, 64, 128, 2, 8, 64)),  # an address between multiples of 16
        (0, 128, (64, 64, 120, 2, 8, 64)),  # rows that are no multiples of 16 bytes apart
        (0, 64, (64, 64, 128, 2, 8, 64)),  # a row of more bytes than are swizzled
        (0, 128, (64, 64, 128, 2, 8, 4)),  # a row of 8 bytes
        (0, 128, (64, 64, 128, 2, 257, 64)),
        (0, 128, (0, 64, 128, 2, 8, 64)),
    ],
)
def test_the_driver_refuses(device_library, address, swizzle, layout):
    of = context(0)
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_VALUE"):
        encoded_tensor_map(of.driver, 6, (1 << 20) + address, swizzle, layout)
    assert encoded_tensor_map(of.driver, 6, 1 << 20, 128, (64, 64, 128, 2, 8, 64)).address % 64 == 0


def test_an_old_driver_is_named(device_library, monkeypatch):
    of: Driver = context(0).driver
    monkeypatch.delitem(of._functions, "cuTensorMapEncodeTiled")
    with pytest.raises(CudaError, match="older than CUDA 12.0"):
        encoded_tensor_map(of, 6, 1 << 20, 128, (64, 64, 128, 2, 8, 64))
    assert runners.cuda(0).exist
