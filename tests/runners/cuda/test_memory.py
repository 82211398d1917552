"""Memory, streams and events of devices, and what the driver says of mistakes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import runners
from runners.cuda.context import Stream, context
from runners.cuda.driver import CudaError, CudaOutOfMemory, CudaUnavailable, Driver, driver
from runners.cuda.memory import Allocator, allocator, fill, surroundings, to_device, to_host
from runners.ndarray import aligned_bytes
from runners.verify.guards import Guarded


def test_the_driver_is_the_stand_in():
    assert driver().stands_in and driver() is driver()
    assert driver().device_count == 2
    assert context(0).name == "loopsmith stand-in" and context(0).capability == (8, 0)
    assert context(1).uuid.endswith("01") and context(0) is context(runners.cuda(0))


def test_devices_that_are_not_there():
    with pytest.raises(CudaUnavailable, match=r"no device cuda\(7\); this process may use 2"):
        context(7)
    with pytest.raises(CudaUnavailable, match="no CUDA driver"):
        Driver("libnothing.so")
    with pytest.raises(CudaUnavailable, match="has no function cu"):
        Driver("libm.so.6")
    assert runners.cuda(1).exist and not runners.cuda(2).exist


def test_a_forked_child_leaves_the_device_to_its_parent():
    program = (
        "import os, sys, runners\n"
        "x = runners.array([1.0], runners.cuda(0))\n"
        "if os.fork() == 0:\n"
        "    try:\n        runners.empty((1,), 'float32', runners.cuda(0))\n"
        "    except runners.DeviceError as error:\n        del x; print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait(); print(x.numpy()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ}, check=True
    )
    assert "forked from one that uses it" in done.stdout and done.stdout.endswith("1.0\n")


def test_work_is_done_in_order_and_is_waited_for():
    of, data = context(0), np.arange(1000, dtype=np.uint8)
    memory = allocator(of).allocate(1000)
    to_device(of, memory.address, data)
    fill(of, memory.address + 10, 7, 5)
    assert not of.stream.done
    back = np.empty_like(data)
    to_host(of, memory.address, back)
    assert of.stream.done
    data[10:15] = 7
    np.testing.assert_array_equal(back, data)


def test_a_stream_waits_for_another_one():
    of = context(0)
    one, two = Stream(of), Stream(of)
    memory, back = allocator(of).allocate(64), np.empty(64, np.uint8)
    with of.working_on(one):
        fill(of, memory.address, 3, 64)
        event = one.record()
    two.wait(event)
    with of.working_on(two):
        to_host(of, memory.address, back)
        after = two.record()
    assert (back == 3).all() and after.seconds_since(event) >= 0
    assert of.stream is of.own_stream


def test_memory_is_given_out_again_on_its_stream_only():
    of, other = context(0), Stream(context(0))
    own = Allocator(of)
    first = own.allocate(5000)
    address = first.address
    assert address % 256 == 0 and own.used >= 5000 and own.kept == 0
    del first
    gc.collect()
    assert own.used == 0 and own.kept >= 5000
    assert own.allocate(5000, other).address != address
    gc.collect()
    again = own.allocate(4999)
    assert again.address == address
    own.release()
    assert own.kept == 0


def test_no_memory_is_an_error_with_numbers():
    of = context(0)
    with pytest.raises(
        CudaOutOfMemory, match=r"no memory for \d+ bytes on cuda\(0\): \d+ are in use here, \d+ of 268435456"
    ):
        allocator(of).allocate(1 << 30)
    own = Allocator(of)
    own.limit = 1 << 20
    kept = own.allocate(1 << 19)
    with pytest.raises(CudaOutOfMemory, match="the limit of this process is 1048576"):
        own.allocate(1 << 20)
    assert kept.nbytes == 1 << 19


def test_what_was_freed_is_used_before_it_is_an_error():
    own = Allocator(context(0))
    for size in (100 << 20, 120 << 20, 140 << 20):
        assert own.allocate(size).nbytes >= size
    own.release()


def test_errors_of_the_driver_have_names():
    of = context(0)
    with pytest.raises(CudaError, match="cuMemcpyHtoDAsync_v2: CUDA_ERROR_INVALID_VALUE") as caught:
        to_device(of, 4096, np.zeros(8))
    assert (caught.value.code, caught.value.name) == (1, "CUDA_ERROR_INVALID_VALUE")
    assert isinstance(caught.value, runners.RunnerError)


def test_surroundings_are_the_guard_zones():
    guarded = Guarded((3, 5), "float32")
    around = surroundings(guarded.array)
    assert around.nbytes >= guarded.array.nbytes + 2 * guarded.zone
    plain = np.zeros((3, 5), np.float32)
    assert surroundings(plain).nbytes == plain.nbytes
    assert surroundings(aligned_bytes(7)).nbytes >= 7
