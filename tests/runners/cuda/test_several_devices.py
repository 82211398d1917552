"""Models with tensors on a CUDA device and on the processor beside it: copies are explicit, and kernels run where their outputs are."""

from __future__ import annotations

import numpy as np
import pytest

import ir
import runners
from ir import relax
from ir.error import IRValueError
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from tests.runners.cuda.programs import TARGET

RNG = np.random.default_rng(0)

pytestmark = pytest.mark.usefixtures("nvrtc")


def _random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


@I.ir_module
class Mixed:
    I.module_global_infos({"vdevice": [I.vdevice("cuda", 0), I.vdevice("llvm", 0)]})

    @R.function
    def main(x: R.Tensor((8, 16), "float32"), h: R.Tensor((16, 16), "float32", "llvm")):
        with R.dataflow():
            y = R.exp(x)
            z = R.to_vdevice(y, "llvm")
            u = R.matmul(z, h)
            v = R.add(u, R.const(np.full((8, 16), 2, "float32")))
            w = R.to_vdevice(v, "cuda")
            q = R.multiply(w, y)
            R.output(q, v)
        return (q, v)


def test_kernels_run_where_their_outputs_are(tmp_path):
    executable = relax.build(Mixed, TARGET)
    x, h = _random(8, 16), _random(16, 16)
    wanted = np.exp(x) @ h + 2
    loaded = runners.load_module(executable.export_library(tmp_path / "model.so"))
    for made in (executable, loaded):
        vm = runners.VirtualMachine(made, runners.cuda())
        q, v = vm["main"](runners.array(x, runners.cuda()), runners.array(h))
        assert (q.device, v.device) == (runners.cuda(), runners.cpu())
        np.testing.assert_allclose(v.numpy(), wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(q.numpy(), wanted * np.exp(x), rtol=1e-4, atol=1e-4)
    text = executable.source()
    assert "exp" in text and "matmul" not in text


@I.ir_module
class Hinted:
    I.module_global_infos({"vdevice": [I.vdevice("cuda", 0), I.vdevice("llvm", 0)]})

    @R.function
    def main(x: R.Tensor(("n", 16), "float32", "cuda")):
        n = T.int64()
        with R.dataflow():
            y = R.exp(x)
            z = R.hint_on_device(y, I.vdevice("llvm", 0))
            u = R.nn.softmax(z)
            R.output(u, y)
        return (u, y)


def test_hints_become_copies_and_shapes_may_be_symbolic():
    vm = runners.VirtualMachine(relax.build(Hinted, TARGET), runners.cuda())
    for rows in (3, 8):
        x = _random(rows, 16)
        u, y = vm["main"](x)
        assert (u.device, y.device) == (runners.cpu(), runners.cuda())
        exps = np.exp(np.exp(x) - np.exp(x).max(-1, keepdims=True))
        np.testing.assert_allclose(u.numpy(), exps / exps.sum(-1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_functions_of_python_get_and_give_arrays_of_the_processor():
    @I.ir_module
    class Module:
        I.module_global_infos({"vdevice": [I.vdevice("cuda", 0), I.vdevice("llvm", 0)]})

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            y = R.to_vdevice(R.exp(x), "llvm")
            z = R.call_packed("test.devices.sorted", y, sinfo_args=R.Tensor((4,), "float32", "llvm"))
            w = R.to_vdevice(z, "cuda")
            return R.add(w, w)

    seen = []

    def ordered(array):
        seen.append(array.device)
        return np.sort(array.numpy())

    ir.register_func("test.devices.sorted", ordered, override=True)
    try:
        x = _random(4)
        vm = runners.VirtualMachine(relax.build(Module, TARGET), runners.cuda())
        found = vm["main"](x)
    finally:
        ir.remove_global_func("test.devices.sorted")
    assert seen == [runners.cpu()] and found.device == runners.cuda()
    np.testing.assert_allclose(found.numpy(), 2 * np.sort(np.exp(x)), rtol=1e-5)


def test_devices_that_a_model_does_not_have_are_refused():
    with pytest.raises(IRValueError, match="has tensors on cuda:0, and it is built for llvm"):
        relax.build(Mixed, "llvm")

    @I.ir_module
    class Second:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return R.to_vdevice(R.exp(x), I.vdevice("cuda", 1))

    with pytest.raises(IRValueError, match="has tensors on cuda:1"):
        relax.build(Second, TARGET)
