"""Arrays: alignment, sharing, dtypes, DLPack."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import runners
from runners import DeviceError, NDArray, RunnerError, array, cpu, empty, from_dlpack
from runners.ndarray import address_of, aligned_empty


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (5, 7), (2, 3, 4)])
def test_new_arrays_are_aligned(shape: tuple[int, ...], dtype: str) -> None:
    made = empty(shape, dtype)
    assert made.shape == shape and made.dtype == dtype
    assert made.ptr % 64 == 0 or made.size == 0
    assert made.device == cpu()


def test_array_copies_and_wrapping_shares() -> None:
    source = np.arange(6, dtype=np.int32).reshape(2, 3)
    copied, shared = array(source), NDArray(source)
    source[0, 0] = 9
    assert copied.numpy()[0, 0] == 0
    assert shared.numpy()[0, 0] == 9
    assert np.shares_memory(np.asarray(shared), source)
    assert array([1.5, 2.0]).dtype == "float32"
    assert array(source, dtype="float32").dtype == "float32"


def test_numpy_gives_a_copy() -> None:
    made = array([1.0, 2.0])
    made.numpy()[0] = 5
    assert made.numpy()[0] == 1


def test_copies_between_arrays() -> None:
    a, b = array(np.arange(4.0)), empty((4,), "float32")
    assert a.copyto(b) is b
    np.testing.assert_array_equal(b.numpy(), [0, 1, 2, 3])
    with pytest.raises(RunnerError, match=r"shape \(3,\) into one of shape \(4,\)"):
        b.copyfrom(np.zeros(3))
    assert a.copyto(cpu()).dtype == "float64"


def test_indexing_shares_memory() -> None:
    a = array(np.zeros((2, 2), np.float32))
    a[0][:] = 7
    a[1, 1] = array(3.0)
    np.testing.assert_array_equal(a.numpy(), [[7, 7], [0, 3]])


def test_dlpack_shares_memory_both_ways() -> None:
    a = array(np.arange(3, dtype=np.float32))
    view = np.from_dlpack(a)
    a[0] = 5
    assert view[0] == 5
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(3)
    shared = from_dlpack(tensor)
    tensor[1] = 4
    assert shared.numpy()[1] == 4
    assert torch.from_dlpack(a)[0] == 5
    with pytest.raises(RunnerError, match="int does not speak DLPack"):
        from_dlpack(3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "float16"])
def test_dlpack_of_numbers_that_numpy_lacks(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([[0, 1], [0.5, 2]]).to(getattr(torch, dtype))
    shared = from_dlpack(tensor)
    assert shared.dtype == dtype and shared.data.flags.writeable and shared.ptr == tensor.data_ptr()
    np.testing.assert_array_equal(shared.numpy().astype("float32"), tensor.float().numpy())
    back = torch.from_dlpack(shared)
    assert back.dtype == tensor.dtype and back.data_ptr() == tensor.data_ptr()


def test_dlpack_of_what_numpy_cannot_hold_is_refused() -> None:
    torch = pytest.importorskip("torch")

    class Unknown:
        def __dlpack__(self, **options: object) -> object:
            raise BufferError("no")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    with pytest.raises(RunnerError, match="Unknown cannot be shared through DLPack: no"):
        from_dlpack(Unknown())
    with pytest.raises(BufferError):
        torch.from_dlpack(array([1, 2], dtype="int4"))


def test_pickle() -> None:
    a = array(np.arange(3, dtype=np.float32))
    b = pickle.loads(pickle.dumps(a))
    np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert b.ptr % 64 == 0


def test_devices() -> None:
    assert runners.device("cpu") == cpu(0)
    assert runners.device("cuda:1") == runners.device("cuda", 1) == runners.cuda(1)
    assert repr(runners.device("llvm -mcpu=znver4")) == "cpu(0)"
    assert cpu().exist and not cpu(1).exist
    with pytest.raises(DeviceError, match="unknown device 'abacus'"):
        runners.device("abacus")
    with pytest.raises(DeviceError, match="unknown device ''"):
        runners.device("")


@pytest.mark.skipif(runners.cuda().exist, reason="there is a device")
def test_missing_cuda_is_explained() -> None:
    with pytest.raises(DeviceError, match="no CUDA driver|no device cuda"):
        empty((2,), "float32", runners.cuda())


@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16"])
@pytest.mark.parametrize("writeable", [True, False])
def test_addresses_of_all_kinds_of_arrays(shape: tuple[int, ...], dtype: str, writeable: bool) -> None:
    value = aligned_empty(shape, dtype)
    value.flags.writeable = writeable
    assert value.shape == shape
    assert not value.size or address_of(value) == value.ctypes.data


def test_masked_elements_have_no_value() -> None:
    values = np.arange(6, dtype="float32")
    masked, whole = np.ma.masked_less(values, 2), np.ma.array(values)
    made = empty((6,))
    for take in (
        from_dlpack,
        array,
        NDArray,
        made.copyfrom,
        lambda array: made.__setitem__(slice(None), array),
    ):
        with pytest.raises(RunnerError, match=r"give them one: array\.filled\(0\)"):
            take(masked)
        take(whole)
    np.testing.assert_array_equal(made.numpy(), values)


def test_the_name_of_a_device_is_none() -> None:
    for call in (
        lambda: array(np.ones(3), "cuda"),  # type: ignore[arg-type]
        lambda: empty((3,), "float32", "cuda"),  # type: ignore[arg-type]
        lambda: array(np.ones(3)).copyto("cuda"),  # type: ignore[arg-type]
    ):
        with pytest.raises(
            DeviceError,
            match=r"runners.cuda\(0\) makes it, or runners.device\('cuda'\), which reads a name; got 'cuda'",
        ):
            call()


def test_no_device_has_a_negative_number() -> None:
    assert not runners.cuda(-1).exist and not runners.cpu(-1).exist
