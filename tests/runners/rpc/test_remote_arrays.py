"""Arrays of a server: what numpy gives back, copies of all kinds, and what they refuse."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import runners
from runners import DeviceError, RunnerError
from runners.ndarray import numpy_dtype
from runners.rpc.server import Server
from runners.rpc.session import RPCSession
from tests.runners.rpc.conftest import LOOPBACK, connected

DTYPES = "float16 bfloat16 float32 float64 int8 uint8 int16 int64 uint32 bool float8_e4m3fn".split()


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    made = np.random.default_rng(7).integers(0, 100, shape)
    return (made % 2 if dtype == "bool" else made).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_gives_back_what_was_sent(remote: RPCSession, dtype: str) -> None:
    for shape in ((), (0,), (3, 0, 2), (5,), (2, 3, 4)):
        given = values(shape, dtype)
        array = runners.array(given, remote.cpu())
        assert (array.shape, array.dtype, array.ndim) == (shape, dtype, len(shape))
        assert (array.size, array.nbytes) == (given.size, given.nbytes)
        found = array.numpy()
        assert found.dtype == given.dtype and found.shape == shape
        np.testing.assert_array_equal(found, given)
        np.testing.assert_array_equal(np.asarray(array), given)


def test_larger_arrays_come_in_parts(remote: RPCSession) -> None:
    given = np.random.default_rng(0).standard_normal((3, 300_001)).astype("float32")
    np.testing.assert_array_equal(runners.array(given, remote.cpu()).numpy(), given)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::-1, ::2],
        lambda x: np.broadcast_to(x[:1], (6, 8)),
        lambda x: x.astype(">f4"),
        lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view("float32"),
    ],
    ids=["transposed", "strided", "broadcast", "big-endian", "unaligned"],
)
def test_arrays_of_any_layout_are_sent(remote: RPCSession, view: object) -> None:
    given = view(values((6, 8), "float32"))  # type: ignore[operator]
    np.testing.assert_array_equal(runners.array(given, remote.cpu(), "float32").numpy(), given)


def test_numbers_and_lists_become_arrays_as_they_do_here(remote: RPCSession) -> None:
    array = runners.array([1.5, 2.0], remote.cpu())
    assert array.dtype == "float32" and array.numpy().tolist() == [1.5, 2.0]
    assert int(runners.array(np.int32(7), remote.cpu())) == 7
    assert float(runners.array(1.5, remote.cpu())) == 1.5


def test_copies_convert_wherever_they_go(remote: RPCSession) -> None:
    given = np.array([1.75, -2.5, 3.0], "float32")
    there = runners.array(given, remote.cpu())
    again = there.copyto(remote.cpu())
    assert again.device == remote.cpu() and again.data.number != there.data.number
    halves = runners.empty((3,), "float16", remote.cpu()).copyfrom(there)
    np.testing.assert_array_equal(halves.numpy(), given.astype("float16"))
    here = there.copyto(runners.cpu())
    assert isinstance(here.data, np.ndarray)
    np.testing.assert_array_equal(here.numpy(), given)
    integers = runners.empty((3,), "int32")
    there.copyto(integers)
    np.testing.assert_array_equal(integers.numpy(), [1, -2, 3])
    np.testing.assert_array_equal(here.copyto(remote.cpu()).numpy(), given)
    there[...] = 4
    np.testing.assert_array_equal(there.numpy(), np.full(3, 4, "float32"))
    there[:] = runners.array(given)
    np.testing.assert_array_equal(there.numpy(), given)
    np.testing.assert_array_equal(again.numpy(), given)


def test_arrays_travel_from_one_session_to_another(remote: RPCSession) -> None:
    with Server("other", LOOPBACK, workers=1) as server, connected(server) as other:
        there = runners.array(np.arange(5), remote.cpu())
        copied = there.copyto(other.cpu())
        assert copied.device == other.cpu() != remote.cpu()
        np.testing.assert_array_equal(copied.numpy(), np.arange(5))


def test_devices_say_where_they_are(remote: RPCSession, lone_server: Server) -> None:
    device = remote.cpu()
    assert repr(device) == f"remote[{lone_server.address}]:cpu(0)" == repr(remote.device("cpu", 0))
    assert device == remote.device("llvm") and len({device, remote.cpu(), runners.cpu()}) == 2
    assert device != runners.cpu() and device.type == "cpu" and device.exist
    assert not remote.cpu(1).exist and not remote.cuda(99).exist
    assert f"device={device}" in repr(runners.array(1.0, device))
    device.sync()
    with pytest.raises(DeviceError, match="unknown device"):
        remote.device("vulcan")
    with pytest.raises(RunnerError, match=r"there is one processor, cpu\(0\), and no cpu\(1\)"):
        runners.empty((1,), "float32", remote.cpu(1))


def test_what_needs_memory_of_this_process_is_refused(remote: RPCSession) -> None:
    array = runners.array(values((2, 3), "float32"), remote.cpu())
    assert len(array) == 2 and not hasattr(array, "__cuda_array_interface__")
    with pytest.raises(TypeError, match="has no views"):
        array[0]
    with pytest.raises(TypeError, match="as a whole"):
        array[0] = 1.0
    with pytest.raises(RunnerError, match="no address"):
        _ = array.ptr
    with pytest.raises((BufferError, RunnerError), match="numpy"):
        np.from_dlpack(array)
    with pytest.raises(RunnerError, match="cannot be shared"):
        np.array(array, copy=False)
    with pytest.raises(RunnerError, match=r"shape \(2,\) into one of shape \(2, 3\)"):
        array.copyfrom(np.zeros(2))
    with pytest.raises(RunnerError, match="masked"):
        array.copyfrom(np.ma.masked_array(np.zeros((2, 3)), np.eye(2, 3)))
    with pytest.raises(DeviceError, match="not supported"):
        pickle.loads(pickle.dumps(array))


def test_arrays_that_cannot_be_are_refused(remote: RPCSession) -> None:
    with pytest.raises(TypeError, match="unknown dtype 'float33'"):
        runners.empty((1,), "float33", remote.cpu())
    with pytest.raises(RunnerError, match="have numbers as elements"):
        runners.empty((1,), object, remote.cpu())
    with pytest.raises(RunnerError, match="extents of 0 or more"):
        runners.empty((2, -1), "float32", remote.cpu())
    with pytest.raises(MemoryError, match="Unable to allocate"):
        runners.empty((1 << 40,), "float64", remote.cpu())
    assert runners.empty((2,), "float32", remote.cpu()).shape == (2,)


def test_arrays_that_nobody_has_are_freed(remote: RPCSession) -> None:
    kept = runners.array(np.zeros(3), remote.cpu())
    number = runners.array(np.zeros(3), remote.cpu()).data.number
    _ = runners.empty((1,), "float32", remote.cpu())
    with pytest.raises(RunnerError, match="not there any more"):
        remote.calls.read(number, np.zeros(3))
    np.testing.assert_array_equal(kept.numpy(), np.zeros(3))


def test_the_end_of_a_session_is_that_of_its_arrays(lone_server: Server) -> None:
    with connected(lone_server) as session:
        array = runners.array(np.zeros(3), session.cpu())
        assert "over" not in repr(session)
    assert not session.is_open and "over" in repr(session)
    with pytest.raises(RunnerError, match="the session is over"):
        array.numpy()
