"""Where models for a device run: arrays as kernels can read them, and what a call may write into."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from runners.cuda.array import DeviceArray
from runners.cuda.home import CudaHome
from runners.program import ArgumentError


@pytest.fixture(scope="module")
def home(device_library) -> CudaHome:
    return CudaHome(runners.cuda(0), None)


@pytest.fixture
def values(home) -> DeviceArray:
    return home.argument(np.arange(24, dtype="float32").reshape(4, 6), "x")


def test_an_array_on_the_device_is_shared_and_one_of_another_is_copied(home, values):
    given = runners.array(np.ones(3, "float32"), runners.cuda(0))
    assert home.argument(given, "x") is given.data and home.moved(values) is values
    other = runners.array(np.arange(3, dtype="float32"), runners.cuda(1))
    moved = home.argument(other, "x")
    assert moved.context is home.context
    np.testing.assert_array_equal(moved.get(), [0, 1, 2])


@pytest.mark.parametrize("part", [np.s_[:, 1:3], np.s_[1:], np.s_[3]])
def test_kernels_read_dense_arrays_on_multiples_of_16_bytes(home, values, part):
    view = runners.ndarray.NDArray(values, runners.cuda(0))[part].data
    assert not view.is_dense or view.ptr % 16
    found = home.dense(view)
    assert found.is_dense and found.ptr % 16 == 0
    np.testing.assert_array_equal(found.get(), view.get())
    assert home.dense(values) is values


def test_what_is_written_must_be_where_the_caller_finds_it(home, values):
    home.refuse_read_only(values, "x", values)
    with pytest.raises(ArgumentError, match=r"x is overwritten.* pass runners.array\(x, runners.cuda\(0\)\)"):
        home.refuse_read_only(values, "x", np.zeros(3))
    row = runners.ndarray.NDArray(values, runners.cuda(0))[
        1:
    ].data  # of which the first element lies at byte 24
    with pytest.raises(ArgumentError, match="begins at no multiple of 16 bytes"):
        home.refuse_read_only(row, "x", row)


def test_arrays_lie_within_their_memory(home):
    memory = home.memory(64)
    assert home.tensor((4,), np.dtype("float32"), memory, 48).ptr == memory.ptr + 48
    for shape, begin in (((4,), 52), ((17,), 0), ((-1,), 0)):
        with pytest.raises(TypeError, match="smaller than the array"):
            home.tensor(shape, np.dtype("float32"), memory, begin)
