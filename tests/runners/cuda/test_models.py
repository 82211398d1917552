"""Whole models on a device: static functions as native code, others by the interpreter, all kernels in one module of the driver."""

from __future__ import annotations

import numpy as np
import pytest

import ir
import runners
from ir import relax
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from runners.cuda.context import context
from runners.cuda.driver import CudaError, driver
from runners.cuda.memory import allocator
from runners.program import ArgumentError, ExecutableError
from runners.virtual_machine import NativeFunction
from tests.runners.cuda import programs

TARGET = programs.TARGET
RNG = np.random.default_rng(0)

pytestmark = pytest.mark.usefixtures("nvrtc")


@pytest.fixture(autouse=True, scope="module")
def _some_time(device_library):
    """The stand-in, before fixtures of this module build something for it."""


def _random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def _machine(mod, target=TARGET, **options):
    return runners.VirtualMachine(relax.build(mod, target, **options), runners.cuda())


@I.ir_module
class Layer:
    @R.function
    def main(x: R.Tensor((8, 16), "float32"), w: R.Tensor((16, 32), "float32")) -> R.Tensor(
        (8, 32), "float32"
    ):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.softmax(R.nn.relu(y) + R.const(1.0))
            R.output(z)
        return z


@pytest.fixture(scope="module")
def layer(_some_time):
    weight = _random(16, 32)
    executable = relax.build(Layer, TARGET, params={"w": weight})
    x = _random(8, 16)
    return executable, x, evaluate(Layer, x, weight)


def test_a_static_function_is_native_and_its_result_is_on_the_device(layer):
    executable, x, expected = layer
    vm = runners.VirtualMachine(executable, runners.cuda())
    assert isinstance(vm["main"], NativeFunction) and vm.device == runners.cuda()
    found = vm["main"](x)
    assert found.device == runners.cuda()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)
    on_device = runners.array(x, runners.cuda())
    np.testing.assert_array_equal(vm["main"](on_device).numpy(), found.numpy())
    assert "2 kernels for sm_80" in executable.stats()
    assert "__global__" in executable.source() and ".version" in executable.source("ptx")


def test_constants_are_copied_to_the_device_once(layer):
    executable, x, _ = layer
    runners.VirtualMachine(executable, runners.cuda())["main"](x)
    before = allocator(0).used
    second = runners.VirtualMachine(executable, runners.cuda())
    second["main"]
    assert allocator(0).used == before
    second["main"](x)
    assert allocator(0).used - before <= 4096  # the workspace of another machine


def test_nothing_waits_between_kernels(layer, monkeypatch):
    executable, x, expected = layer
    vm = runners.VirtualMachine(executable, runners.cuda())
    given = runners.array(x, runners.cuda())
    vm["main"](given)
    asked = []
    call = driver().call
    monkeypatch.setattr(driver(), "call", lambda name, *args: (asked.append(name), call(name, *args))[1])
    found = vm["main"](given)
    assert not any("Synchronize" in name or "Query" in name for name in asked)
    monkeypatch.undo()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_library_brings_its_kernels_along(layer, tmp_path):
    executable, x, expected = layer
    path = executable.export_library(tmp_path / "model.so")
    assert "loopsmith_model_create(" in (tmp_path / "model.h").read_text()
    loaded = runners.load_module(path)
    found = runners.VirtualMachine(loaded, runners.cuda(1))["main"](x)
    assert found.device == runners.cuda(1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert (
        loaded.device_code.cubin == executable.device_code.cubin
        and executable.device_code.cubin[:4] == b"\x7fELF"
    )
    assert loaded.source() == executable.source() and loaded.source("ptx") == executable.source("ptx")


def test_methods_of_the_machine(layer):
    executable, x, expected = layer
    vm = runners.VirtualMachine(executable, runners.cuda(), profile=True)
    vm.set_input("main", x=x)
    vm.invoke_stateful("main")
    np.testing.assert_allclose(vm.get_outputs("main").numpy(), expected, rtol=1e-5, atol=1e-6)
    vm.save_function("main", "saved", x)
    np.testing.assert_allclose(vm["saved"]().numpy(), expected, rtol=1e-5, atol=1e-6)
    times = vm.time_evaluator("main", runners.cuda(), number=2, repeat=3)(x)
    assert len(times.results) == 3 and 0 < times.min <= times.max
    with pytest.raises(ExecutableError, match=r"timed where it runs, on cuda\(0\)"):
        vm.time_evaluator("main", runners.cpu())
    table = vm.profile("main", x)
    assert "softmax" in table and "matmul" in table
    assert vm.time_evaluator("saved", number=1)().mean > 0


def test_arguments_that_do_not_fit_are_named(layer):
    executable, x, _ = layer
    vm = runners.VirtualMachine(executable, runners.cuda())
    with pytest.raises(ArgumentError, match=r"argument x must be float32\[8, 16\], got float32\[4, 16\]"):
        vm["main"](x[:4])
    with pytest.raises(ArgumentError, match="argument x must be an array"):
        vm["main"]("text")
    with pytest.raises(ExecutableError, match="built for CUDA devices, it cannot run on cpu"):
        runners.VirtualMachine(executable, runners.cpu())
    with pytest.raises(runners.DeviceError, match=r"there is no device cuda\(7\)"):
        runners.VirtualMachine(executable, runners.cuda(7))


def test_arrays_of_any_order_and_of_other_devices_are_copied(layer):
    executable, x, expected = layer
    vm = runners.VirtualMachine(executable, runners.cuda())
    turned = runners.array(np.ascontiguousarray(x[:, ::-1]), runners.cuda())
    for given in (np.asfortranarray(x), turned[:, ::-1], runners.array(x, runners.cuda(1))):
        np.testing.assert_allclose(vm["main"](given).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_work_goes_to_the_stream_of_the_thread(layer):
    from runners.cuda.context import Stream

    executable, x, expected = layer
    vm = runners.VirtualMachine(executable, runners.cuda())
    of = context(0)
    with of.working_on(Stream(of)) as stream:
        found = vm["main"](x)
        assert not stream.done and of.own_stream.done
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_refused_launch_says_which(layer, monkeypatch):
    executable, x, _ = layer
    vm = runners.VirtualMachine(executable, runners.cuda())
    vm["main"](x)
    refusing = runners.cuda.home._LAUNCH(lambda *given: 701)
    vm.home._queue.fields.launch = runners.cuda.home.ctypes.cast(refusing, runners.cuda.home.ctypes.c_void_p)
    with pytest.raises(CudaError, match="function main: launch of kernel .*matmul.*_kernel") as caught:
        vm["main"](x)
    assert caught.value.code == 701


# ---- other functions ------------------------------------------------------------------------------------------


@I.ir_module
class Symbolic:
    @R.function
    def main(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 32), "float32")) -> R.Tensor(
        ("n", 32), "float32"
    ):
        n = T.int64()
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.softmax(R.nn.relu(y) + R.const(1.0))
            R.output(z)
        return z


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_symbolic_shapes(mode, tmp_path):
    executable = relax.build(Symbolic, TARGET, exec_mode=mode)
    weight = _random(16, 32)
    for made in (executable, runners.load_module(executable.export_library(tmp_path / "model.so"))):
        vm = runners.VirtualMachine(made, runners.cuda(), profile=True)
        for rows in (8, 5, 1, 0):
            x = _random(rows, 16)
            found = vm["main"](x, runners.array(weight, runners.cuda()))
            assert found.device == runners.cuda() and found.shape == (rows, 32)
            if rows:
                np.testing.assert_allclose(found.numpy(), evaluate(Symbolic, x, weight), rtol=1e-5, atol=1e-6)
        assert "softmax" in vm.profile("main", _random(3, 16), weight)


@I.ir_module
class Branches:
    @R.function(pure=False)
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        if c:
            a = R.exp(x)
            r = R.add(a, a)
        else:
            b: R.Tensor((3,), "float32") = R.call_packed(
                "test.cuda.twice", x, sinfo_args=R.Tensor((3,), "float32")
            )
            d = R.call_dps_packed("test.cuda.negate", (b,), out_sinfo=R.Tensor((3,), "float32"))
            r = R.multiply(d, x)
        y = R.add(r, x)
        return y


def test_branches_and_functions_of_python():
    where = []

    def twice(array):
        where.append(array.device)
        return 2 * array.numpy()

    ir.register_func("test.cuda.twice", twice, override=True)
    ir.register_func("test.cuda.negate", lambda a, out: out.copyfrom(-a.numpy()), override=True)
    try:
        vm, x = _machine(Branches), np.array([0.5, 1, 2], "float32")
        np.testing.assert_allclose(vm["main"](True, x).numpy(), 2 * np.exp(x) + x, rtol=1e-6)
        found = vm["main"](np.array(False), x)
        np.testing.assert_allclose(found.numpy(), -2 * x * x + x, rtol=1e-6)
        assert where == [runners.cuda()] and found.device == runners.cuda()
    finally:
        ir.remove_global_func("test.cuda.twice")
        ir.remove_global_func("test.cuda.negate")


def test_closures_and_calls_between_functions():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32"), n: R.Prim("int64")) -> R.Tensor((4,), "float32"):
            cls = Module

            @R.function
            def add(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                return R.add(y, x)

            z = add(x)
            u: R.Tensor((4,), "float32") = cls.square(z)
            return u

        @R.function(private=True)
        def square(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.multiply(x, x)

    x = _random(4)
    vm = _machine(relax.transform.LambdaLift()(Module))
    np.testing.assert_allclose(vm["main"](x, 3).numpy(), 4 * x * x, rtol=1e-5)


def test_a_tuple_of_views_and_constants():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 6), "float32")):
            with R.dataflow():
                a = R.reshape(R.exp(x), (3, 4))
                c = R.const([1.0, 2.0])
                out = (a, x, c)
                R.output(out)
            return out

    x = runners.array(_random(2, 6), runners.cuda())
    a, same, c = _machine(Module)["main"](x)
    np.testing.assert_allclose(a.numpy(), np.exp(x.numpy()).reshape(3, 4), rtol=1e-6)
    assert same is x and c.device == runners.cuda()
    np.testing.assert_array_equal(c.numpy(), [1, 2])


def test_constants_are_read_only():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                c = R.const([1.0, 2.0, 3.0, 4.0])
                out = (R.add(x, c), c, R.reshape(c, (2, 2)))
                R.output(out)
            return out

    vm, x = _machine(Module), _random(4)
    _, c, view = vm["main"](x)
    for array in (c, view, c[1:]):
        with pytest.raises(ValueError, match="read-only: constants of a model are"):
            array.copyfrom(np.zeros(array.shape, "float32"))
        assert array.data.interface["data"][1]
        with pytest.raises(BufferError, match="read-only"):
            array.data.__dlpack__(copy=False)
        assert runners.from_dlpack(array).data.ptr != array.data.ptr  # a copy, as on the processor
    c.copyto(runners.cuda()).copyfrom(np.zeros(4, "float32"))
    np.testing.assert_array_equal(vm["main"](x)[0].numpy(), x + np.array([1, 2, 3, 4], "float32"))


class _Other:
    """An array of another library, of which only DLPack is known."""

    def __init__(self, array):
        self._array = array

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)


def test_arrays_of_other_libraries_are_shared():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                out = (R.add(x, x), x)
                R.output(out)
            return out

    vm, own = _machine(Module), runners.array(_random(4), runners.cuda())
    twice, same = vm["main"](_Other(own))
    np.testing.assert_array_equal(twice.numpy(), 2 * own.numpy())
    assert same.ptr == own.ptr
    host = _random(4)
    twice, copied = vm["main"](_Other(runners.array(host)))
    np.testing.assert_array_equal(twice.numpy(), 2 * host)
    assert copied.device == runners.cuda()


# ---- memory ----------------------------------------------------------------------------------------------------


def test_kernels_that_hand_over_memory_have_it_in_the_plan():
    turned = programs.bound(programs.turned, "twice", "turn")["main"]

    bb = relax.BlockBuilder()
    gv = bb.add_func(turned.without_attr("global_symbol"), "turned")
    x = relax.Var("x", R.Tensor((128,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.call_tir(gv, x, R.Tensor((128,), "float32")))
            z = bb.emit_output(relax.call_tir(gv, y, R.Tensor((128,), "float32")))
        bb.emit_func_output(z)
    vm = _machine(bb.finalize(), pipeline=None)
    given = _random(128)
    found = vm["main"](given)
    np.testing.assert_allclose(
        found.numpy(), programs.turned_values(programs.turned_values(given)), rtol=1e-6
    )
    assert vm.executable.metadata["functions"]["main"]["memory"]["n_buffers"] == 3


def test_what_is_overwritten_is_an_array_of_the_device():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def increment(A: T.Buffer((32,), "float32")):
            for i in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("A"):
                    vi = T.axis.spatial(32, i)
                    A[vi] = A[vi] + T.float32(1)

        @R.function(pure=False)
        def main(x: R.Tensor((32,), "float32")) -> R.Tensor((32,), "float32"):
            cls = Module
            y = R.call_tir_inplace(
                cls.increment, (x,), inplace_indices=[0], out_sinfo=R.Tensor((32,), "float32")
            )
            return y

    vm, x = _machine(Module), _random(32)
    given = runners.array(x, runners.cuda())
    vm["main"](given)
    np.testing.assert_array_equal(given.numpy(), x + 1)
    with pytest.raises(ArgumentError, match="argument x is overwritten, and the model runs on cuda"):
        vm["main"](x)
    given.data.layout.flags.writeable = False
    with pytest.raises(ArgumentError, match="argument x is overwritten, but the array is read-only"):
        vm["main"](given)
    np.testing.assert_array_equal(given.numpy(), x + 1)


def test_a_constant_that_is_overwritten_is_copied_by_a_kernel():
    """The copy is made behind the passes that schedule, for each call anew."""
    builder = relax.BlockBuilder()
    info = relax.TensorStructInfo((300,), "float32")
    kernel = builder.add_func(_add_to, "add_to")
    x = relax.Var("x", info)
    begin = np.arange(300, dtype="float32")
    with builder.function("main", [x]):
        y = builder.emit(relax.op.call_tir_inplace(kernel, (relax.const(begin), x), 0, info))
        builder.emit_func_output(builder.emit(relax.op.call_tir_inplace(kernel, (y, y), 0, info)))
    vm, x = _machine(builder.finalize()), _random(300)
    for _ in range(2):
        np.testing.assert_array_equal(vm["main"](x).numpy(), (begin + x) * 2)


@T.prim_func(private=True)
def _add_to(A: T.Buffer((300,), "float32"), B: T.Buffer((300,), "float32")):
    for i in range(300):
        with T.block("add"):
            vi = T.axis.spatial(300, i)
            A[vi] = A[vi] + B[vi]


# ---- building --------------------------------------------------------------------------------------------------


def test_entries_of_the_package_build_models():
    assert len(ir.build(Layer, "nvidia/nvidia-a100").device_code.kernels) == 2
    with ir.target.Target("nvidia/tesla-t4"):
        assert ir.compile(Layer).device_code.arch == "sm_75"


def test_a_kernel_without_threads_is_refused_by_name():
    with pytest.raises(ir.error.IRError, match="accesses .*, which lies on the device; bind the loops"):
        relax.build(Layer, TARGET, tir_pipeline=None)


@pytest.fixture(scope="module")
def hopper(_some_time):
    """A product by warp groups, of weights that the model has, behind another one."""

    @I.ir_module
    class Products:
        @R.function
        def main(
            x: R.Tensor((128, 64), "float16"),
            w: R.Tensor((64, 64), "float16"),
            v: R.Tensor((64, 128), "float16"),
        ) -> R.Tensor((128, 128), "float16"):
            with R.dataflow():
                y = R.matmul(x, w)
                z = R.matmul(R.nn.relu(y), v)
                R.output(z)
            return z

    return Products, relax.build(Products, "nvidia/nvidia-h200")


def test_models_for_hopper_have_tensor_maps(hopper):
    mod, executable = hopper
    source = executable.source()
    assert "wgmma" in source and source.count("CUtensorMap ") > 2
    assert all(kernel["dynamic_shared_bytes"] >= 2 * 64 * 64 * 2 for kernel in executable.device_code.kernels)
    vm = runners.VirtualMachine(executable, runners.cuda())
    assert isinstance(vm["main"], NativeFunction)
    values = [_random(*shape).astype("float16") for shape in ((128, 64), (64, 64), (64, 128))]
    x, w, v = (item.astype("float32") for item in values)
    expected = np.maximum(x @ w, 0).astype("float16").astype("float32") @ v
    for device in (runners.cuda(0), runners.cuda(1)):
        found = runners.VirtualMachine(executable, device)["main"](*values).numpy()
        np.testing.assert_allclose(found.astype("float32"), expected, rtol=0, atol=0.5)


def test_a_refused_tensor_map_is_named(hopper, monkeypatch):
    _, executable = hopper
    values = [_random(*shape).astype("float16") for shape in ((128, 64), (64, 64), (64, 128))]
    monkeypatch.delitem(driver()._functions, "cuTensorMapEncodeTiled")
    with pytest.raises(
        CudaError, match="cuTensorMapEncodeTiled: the CUDA driver at .* is older than CUDA 12.0"
    ):
        runners.VirtualMachine(executable, runners.cuda())["main"](*values)
