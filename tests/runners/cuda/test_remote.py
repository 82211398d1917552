"""CUDA devices of a server: arrays, kernels and models there, on the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("grpc")

import runners
from ir import relax
from ir.codegen.entry import KernelError
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from runners.cuda.module import build_module
from runners.program import ArgumentError
from runners.rpc.connection import Address
from runners.rpc.sandbox import Sandbox
from runners.rpc.server import Server
from runners.rpc.session import RPCSession, connect
from tests.runners.cuda import programs

VALUES = np.arange(128, dtype="float32")


@I.ir_module
class Layer:
    @R.function
    def main(x: R.Tensor((4, 16), "float32"), w: R.Tensor((16, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            R.output(y)
        return y


@pytest.fixture(scope="module")
def remote(device_library: Path) -> Iterator[RPCSession]:
    with (
        Server(
            "gpu",
            Address("127.0.0.1", 0),
            workers=1,
            sandbox=Sandbox(has_devices=True, readable=(str(device_library.parent),)),
        ) as server,
        connect(server.address.host, server.address.port) as made,
    ):
        yield made


def test_arrays_on_devices_of_the_server(remote: RPCSession) -> None:
    for dtype in ("float32", "bfloat16", "bool", "int8"):
        for shape in ((), (0, 3), (5, 7)):
            given = np.ones(shape).astype(runners.ndarray.numpy_dtype(dtype))
            array = runners.array(given, remote.cuda(1))
            assert array.device == remote.cuda(1) and repr(array.device).endswith(":cuda(1)")
            np.testing.assert_array_equal(array.numpy(), given)
    large = np.random.default_rng(0).standard_normal(300_001)
    array = runners.array(large, remote.device("cuda", 1))
    copies = [array.copyto(remote.cuda(0)), array.copyto(remote.cpu()), array.copyto(runners.cuda(0))]
    for copied in [*copies, *(item.copyto(remote.cuda(0)) for item in copies)]:
        np.testing.assert_array_equal(copied.numpy(), large)
    assert remote.cuda(1).exist and not remote.cuda(2).exist


def test_kernels_run_where_their_arrays_are(remote: RPCSession) -> None:
    remote.upload(build_module(programs.bound(programs.turned, "twice", "turn"), programs.TARGET), "turned")
    module = remote.load_module("turned")
    assert module.metadata["device"] == "cuda"
    a, c = runners.array(VALUES, remote.cuda(1)), runners.empty((128,), "float32", remote.cuda(1))
    module["turned"](a, c)
    np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))
    times = module.time_evaluator("turned", remote.cuda(1), number=3, repeat=2)(a, c)
    assert len(times.results) == 2 and times.min > 0
    with pytest.raises(KernelError, match="is on the processor"):
        module["turned"](VALUES, c)
    with pytest.raises(KernelError, match=r"is on cuda\(0\)|are on cuda"):
        module["turned"](a.copyto(remote.cuda(0)), c)
    with pytest.raises(ArgumentError, match="is overwritten"):
        module["turned"](a, VALUES)


@pytest.mark.usefixtures("nvrtc")
def test_models_run_on_a_device_of_the_server(remote: RPCSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype("float32") for shape in ((4, 16), (16, 8)))
    relax.build(Layer, programs.TARGET).export_library(tmp_path / "layer.so", header=False)
    remote.upload(tmp_path / "layer.so")
    vm = runners.VirtualMachine(remote.load_module("layer.so"), profile=True)
    assert vm.device == remote.cuda(0)
    for given in (x, runners.array(x, remote.cuda(0)), runners.array(x, remote.cpu())):
        found = vm["main"](given, w)
        assert found.device == remote.cuda(0)
        np.testing.assert_allclose(found.numpy(), evaluate(Layer, x, w), rtol=1e-5, atol=1e-6)
    assert vm.time_evaluator("main", remote.cuda(0), number=2)(x, w).mean > 0
    assert "matmul" in vm.profile("main", x, w)


def test_arrays_here_may_be_on_a_device_too(remote: RPCSession) -> None:
    here = runners.array(VALUES, runners.cuda(0))
    there = here.copyto(remote.cpu())
    np.testing.assert_array_equal(there.numpy(), VALUES)
    back = runners.empty((128,), "float32", runners.cuda(0)).copyfrom(there)
    np.testing.assert_array_equal(back.numpy(), VALUES)
