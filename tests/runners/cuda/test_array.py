"""NDArrays on a CUDA device: copies, views, DLPack both ways, the CUDA array interface."""

from __future__ import annotations

import gc
import pickle

import ml_dtypes
import numpy as np
import pytest

import runners
import runners.cuda.context
from runners import NDArray, RunnerError, array, cpu, cuda, empty, from_dlpack
from runners.cuda import dlpack
from runners.cuda.array import DeviceArray


def test_the_package_is_called_as_the_function_is():
    assert runners.cuda(1) == cuda(1) == runners.device("cuda:1")
    assert runners.cuda.context.context(0).device == runners.cuda(0)


@pytest.mark.parametrize("dtype", ["float32", "bool", "int64", "float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)])
def test_there_and_back(shape, dtype):
    values = (np.arange(np.prod(shape)).reshape(shape) % 2).astype(runners.ndarray.numpy_dtype(dtype))
    there = array(values, cuda(0))
    assert (there.shape, there.dtype, there.device) == (shape, dtype, cuda(0))
    assert there.ptr % 256 == 0
    np.testing.assert_array_equal(there.numpy(), values)
    np.testing.assert_array_equal(there.copyto(cpu()).numpy(), values)
    np.testing.assert_array_equal(there.copyto(cuda(1)).numpy(), values)


def test_copies_convert_and_check_shapes():
    there = empty((4,), "float32", cuda(0))
    there.copyfrom(np.arange(4, dtype=np.int64))
    np.testing.assert_array_equal(there.numpy(), [0, 1, 2, 3])
    half = empty((4,), "float16", cuda(0)).copyfrom(there)
    np.testing.assert_array_equal(half.numpy(), [0, 1, 2, 3])
    with pytest.raises(RunnerError, match=r"shape \(3,\) into one of shape \(4,\)"):
        there.copyfrom(np.zeros(3))
    with pytest.raises(RunnerError, match="cannot be shared with numpy"):
        np.array(there, copy=False)
    here = array([0.0, 0.0, 0.0, 0.0])
    here[:] = there
    np.testing.assert_array_equal(here.numpy(), [0, 1, 2, 3])


def test_views_share_memory():
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    there = array(values, cuda(0))
    for index in [
        1,
        (slice(1, 3), slice(None, None, 2)),
        (..., -1),
        (2, 3),
        slice(None, None, -1),
        (None, 1),
    ]:
        np.testing.assert_array_equal(there[index].numpy(), values[index])
    there[1:3, ::2] = 9
    values[1:3, ::2] = 9
    there[0] = array(np.ones(6, np.float32), cuda(1))
    values[0] = 1
    np.testing.assert_array_equal(there.numpy(), values)
    with pytest.raises(runners.error.RunnerTypeError, match=r"indexed by numbers, slices, None and \.\.\."):
        there[[0, 1]]


def test_pickles_and_prints_its_values():
    there = array([1.0, 2.0], cuda(1))
    again = pickle.loads(pickle.dumps(there))
    assert again.device == cuda(1) and "device=cuda(1)" in repr(again) and "1., 2." in repr(again)


def test_memory_goes_back_when_the_last_view_is_gone():
    pool = runners.cuda.memory.allocator(0)
    gc.collect()
    before = pool.used
    view = empty((1000,), "float32", cuda(0))[10:]
    assert pool.used > before
    del view
    gc.collect()
    assert pool.used == before


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int8", "float8_e5m2"])
def test_a_capsule_says_where_the_elements_are(version, dtype):
    there = array(np.ones((3, 4)), cuda(1), dtype)
    capsule = there[:, ::2].__dlpack__(max_version=version, stream=-1)
    seen = dlpack.CapsuleMemory(capsule)
    assert seen.address == there.ptr and seen.device == (2, 1) == there.__dlpack_device__()
    size = there.data.dtype.itemsize
    assert seen.shape == (3, 2) and seen.strides == (4 * size, 2 * size) and seen.dtype == there.data.dtype


class _Other:
    """Another library's array."""

    def __init__(self, data: NDArray) -> None:
        self.data, self.streams = data, []

    def __dlpack__(self, *, stream):
        self.streams.append(stream)
        return self.data.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()


def test_arrays_of_others_are_shared():
    there = array(np.arange(4, dtype=np.float32), cuda(0))
    other = _Other(there)
    shared = from_dlpack(other)
    assert other.streams == [runners.cuda.context.context(0).stream.handle]
    shared[1] = 7
    assert there.numpy()[1] == 7 and shared.ptr == there.ptr


def test_what_a_capsule_holds_lives_until_its_consumer_is_done():
    pool = runners.cuda.memory.allocator(0)
    gc.collect()
    before = pool.used
    shared = from_dlpack(array(np.arange(4, dtype=np.float32), cuda(0)))
    gc.collect()
    np.testing.assert_array_equal(shared.numpy(), [0, 1, 2, 3])
    del shared
    gc.collect()
    assert pool.used == before
    unused = array([1.0], cuda(0)).__dlpack__()
    assert pool.used > before
    del unused
    gc.collect()
    assert pool.used == before


def test_numpy_says_that_it_takes_no_device_arrays():
    """What it was given is freed while its error is on its way."""
    pool = runners.cuda.memory.allocator(0)
    gc.collect()
    before = pool.used
    with pytest.raises((RuntimeError, BufferError), match="[Dd]evice"):
        np.from_dlpack(array([1.0, 2.0], cuda(0)))
    gc.collect()
    assert pool.used == before


def test_refusals_of_dlpack():
    there = array([1.0], cuda(0))
    with pytest.raises(BufferError, match="stream 0 means two things"):
        there.__dlpack__(stream=0)
    with pytest.raises(BufferError, match=r"the array is on cuda\(0\)"):
        there.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="DLPack has no int4"):
        array(np.ones(2, ml_dtypes.int4), cuda(0)).__dlpack__()
    capsule = there.__dlpack__()
    dlpack.CapsuleMemory(capsule)
    with pytest.raises(RunnerError, match="used once"):
        dlpack.CapsuleMemory(capsule)


def test_the_cuda_array_interface():
    there = array(np.arange(6, dtype=np.int32).reshape(2, 3), cuda(0))
    told = there[:, 1:]
    interface = told.__cuda_array_interface__
    assert interface["data"] == (there.ptr + 4, False) and interface["strides"] == (12, 4)
    assert interface["typestr"] == "<i4" and interface["version"] == 3
    wrapped = NDArray(told, cuda(0))
    assert isinstance(wrapped.data, DeviceArray) and wrapped.ptr == told.ptr
    np.testing.assert_array_equal(wrapped.numpy(), [[1, 2], [4, 5]])
    assert not hasattr(array([1.0]), "__cuda_array_interface__")
