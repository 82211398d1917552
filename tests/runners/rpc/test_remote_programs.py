"""Models and kernels on servers, compared with numpy: arguments of all kinds, tuples, dynamic shapes, saved calls, times."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ir
import runners
from ir import relax
from ir.codegen.entry import KernelError
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from runners.program import ArgumentError, ExecutableError
from runners.rpc.remote_module import RemoteVirtualMachine
from runners.rpc.server import Server
from runners.rpc.session import LocalSession, RPCSession
from tests.programs.nodes import matmul
from tests.runners.rpc.conftest import LOOPBACK, connected


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        z: R.Tensor((3,), "float32") = R.add(x, y)
        w: R.Tensor((3,), "float32") = R.exp(z)
        return (z, (w, x))

    @R.function
    def rows(x: R.Tensor(("n", 4), "float32"), pair: R.Tuple(R.Tensor((4,), "float32"), R.Prim("int64"))):
        n = T.int64()
        y: R.Tensor((n, 4), "float32") = R.add(x, pair[0])
        return (y, R.shape([n, 4]))

    @R.function
    def narrow(x: R.Tensor((2, 3), "bfloat16"), y: R.Tensor((2, 3), "bfloat16")) -> R.Tensor(
        (2, 3), "bfloat16"
    ):
        z: R.Tensor((2, 3), "bfloat16") = R.multiply(x, y)
        return z

    @R.function
    def choose(c: R.Tensor((), "bool"), x: R.Tensor((0, 2), "int8")) -> R.Tensor((0, 2), "int8"):
        if c:
            r: R.Tensor((0, 2), "int8") = R.add(x, x)
        else:
            r: R.Tensor((0, 2), "int8") = R.negative(x)
        return r

    @R.function
    def adder(x: R.Tensor((3,), "float32")) -> R.Callable(
        (R.Tensor((3,), "float32"),), R.Tensor((3,), "float32")
    ):
        @R.function
        def inner(y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            s: R.Tensor((3,), "float32") = R.add(x, y)
            return s

        return inner

    @R.function
    def constant() -> R.Tensor((2,), "int32"):
        return R.const([1, 2], "int32")

    @R.function
    def different(x: R.Tensor((6,), "int32")):
        return R.unique(x)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.so"
    relax.build(relax.transform.LambdaLift()(Model), "llvm").export_library(path, header=False)
    return path


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("lone", LOOPBACK, workers=1) as made:
        yield made


@pytest.fixture(scope="module")
def remote(server: Server, library: Path) -> Iterator[RPCSession]:
    """One session for all tests here, with the model and a product of matrices."""
    with connected(server) as made:
        assert made.upload(library) == "model.so"
        made.upload(ir.build(matmul(6, 5, 4), "llvm"), "kernels")
        yield made


@pytest.fixture(scope="module")
def vm(remote: RPCSession) -> runners.VirtualMachine:
    return runners.VirtualMachine(remote.load_module("model.so"), remote.cpu(), profile=True)


X, Y = np.array([0.5, 1, 2], "float32"), np.array([1, -1, 0.25], "float32")


def test_a_model_runs_there_and_its_arrays_stay_there(vm: runners.VirtualMachine, remote: RPCSession) -> None:
    assert isinstance(vm, RemoteVirtualMachine) and vm.device == remote.cpu()
    x = runners.array(X, remote.cpu())
    z, (w, same) = vm["main"](x, Y)
    assert z.device == w.device == remote.cpu() and same is x
    np.testing.assert_array_equal(z.numpy(), X + Y)
    np.testing.assert_allclose(w.numpy(), np.exp(X + Y), rtol=1e-6)
    _, (_, sent) = vm["main"](X, Y)
    np.testing.assert_array_equal(sent.copyfrom(Y).numpy(), Y)
    again, _ = vm["main"](z, w)
    np.testing.assert_allclose(again.numpy(), X + Y + np.exp(X + Y), rtol=1e-6)


def test_constants_of_a_model_are_copied(vm: runners.VirtualMachine) -> None:
    first = vm["constant"]()
    first[...] = 7
    np.testing.assert_array_equal(vm["constant"]().numpy(), [1, 2])


def test_threads_call_one_after_the_other(vm: runners.VirtualMachine, remote: RPCSession) -> None:
    def calls(number: int) -> None:
        x = np.full(3, number, "float32")
        there = runners.array(x, remote.cpu())
        for count in range(10):
            z, _ = vm["main"](there, x + count)
            np.testing.assert_array_equal(z.numpy(), 2 * x + count)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(calls, range(8)))


def test_arguments_may_be_anything_that_they_may_be_here(vm: runners.VirtualMachine) -> None:
    torch = pytest.importorskip("torch")
    strided = np.array([0.5, 9, 1, 9, 2, 9], "float32")[::2]
    for x in (X, strided, runners.array(X), torch.tensor(X)):
        z, _ = vm["main"](x, Y)
        np.testing.assert_array_equal(z.numpy(), X + Y)


@pytest.mark.parametrize("rows", [0, 1, 5, 20_000])
def test_dynamic_shapes_and_tuples(vm: runners.VirtualMachine, rows: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, 4)).astype("float32")
    row = np.arange(4, dtype="float32")
    y, shape = vm["rows"](x, (row, 3))
    assert shape == (rows, 4) == y.shape
    np.testing.assert_array_equal(y.numpy(), x + row)


def test_narrow_floats_and_arrays_without_elements(vm: runners.VirtualMachine) -> None:
    x = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(vm["narrow"](x, x).numpy(), x * x)
    empty = np.zeros((0, 2), "int8")
    for chosen in (True, np.array(False), np.True_):
        found = vm["choose"](chosen, empty)
        assert found.shape == (0, 2) and found.dtype == "int8"


def test_the_machine_has_all_that_one_here_has(vm: runners.VirtualMachine, remote: RPCSession) -> None:
    assert {"adder", "choose", "different", "main", "narrow", "rows"} <= set(vm.module)
    np.testing.assert_array_equal(vm["main"](y=Y, x=X)[0].numpy(), X + Y)
    vm.set_input("main", X, y=Y)
    vm.invoke_stateful("main")
    z, _ = vm.get_outputs("main")
    np.testing.assert_array_equal(z.numpy(), X + Y)
    vm.save_function("main", "saved", runners.array(X, remote.cpu()), y=Y)
    np.testing.assert_array_equal(vm["saved"]()[0].numpy(), X + Y)
    vm.save_function("main", "quiet", X, Y, include_return=False)
    assert vm["quiet"]() is None
    for name, args in (("main", (X, Y)), ("saved", ()), ("quiet", ())):
        times = vm.time_evaluator(name, remote.cpu(), number=3, repeat=2, min_repeat_ms=1)(*args)
        assert len(times.results) == 2 and 0 < times.min <= times.mean < 0.1
    table = vm.profile("main", X, Y)
    assert "exp" in table and "add" in table and table.splitlines()[-1].endswith("all")
    assert "add" in vm.profile("saved")
    with pytest.raises(ExecutableError, match="profile=True"):
        runners.VirtualMachine(remote.load_module("model.so")).profile("main", X, Y)


def test_kernels_write_into_arrays_of_the_server(remote: RPCSession) -> None:
    module = remote.load_module("kernels")
    assert module.functions() == ["main"] and "main" in module and "other" not in module
    assert repr(module) == "<RemoteModule kernels: main>"
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype("float32") for shape in ((6, 4), (4, 5)))
    for call in (module["main"], module):
        out = runners.empty((6, 5), "float32", remote.cpu())
        assert call(a, runners.array(b, remote.cpu()), out) is None
        np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-5)
    times = module.time_evaluator("main", remote.cpu(), number=5, repeat=3)(a, b, out)
    assert len(times.results) == 3 and times.min > 0


def test_kernels_with_numbers(remote: RPCSession) -> None:
    @T.prim_func
    def main(x: T.Buffer((4,), "float32"), n: T.int32, factor: T.float32, y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("y"):
                vi = T.axis.spatial(4, i)
                y[vi] = x[vi] * factor + T.Cast("float32", n)

    remote.upload(ir.build(main, "llvm"), "numbers")
    module = remote.load_module("numbers")
    x, y = np.arange(4, dtype="float32"), runners.empty((4,), "float32", remote.cpu())
    for count, factor in ((3, 0.5), (np.int64(-2), np.float32(2))):
        module["main"](x, count, factor, y)
        np.testing.assert_array_equal(y.numpy(), x * np.float32(factor) + count)
    assert module.time_evaluator("main", number=2)(x, 1, 1.0, y).mean > 0


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("main", (X,), r"takes 2 arguments \(x, y\), got 1"),
        ("main", (X, Y, Y), "takes 2 arguments"),
        ("main", (X, Y[:2]), r"argument y must be float32\[3\], got float32\[2\]"),
        ("main", (X, Y.astype("int32")), r"convert it with .astype\('float32'\)"),
        ("main", (X, Y.astype(">f4")), "of the other byte order"),
        ("main", (X, [object()]), r"argument y\[0\] must be an array"),
        ("main", (X, np.array([None])), "elements of Python"),
        ("main", (X, np.ma.masked_array(Y, [True, False, False])), "masked"),
        ("rows", (np.zeros((1, 4), "float32"), (np.zeros(4, "float32"),)), "tuple"),
        ("rows", (np.zeros((1, 4), "float32"), (np.zeros(4, "float32"), 0.5)), "number of int64"),
    ],
)
def test_arguments_that_do_not_fit_are_errors_as_they_are_here(
    vm: runners.VirtualMachine, name: str, args: tuple, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message) as there:
        vm[name](*args)
    assert isinstance(there.value, TypeError | ValueError)
    np.testing.assert_array_equal(vm["main"](X, Y)[0].numpy(), X + Y)


def test_errors_of_kernels_are_those_of_kernels(remote: RPCSession) -> None:
    module = remote.load_module("kernels")
    out = runners.empty((6, 5), "float32", remote.cpu())
    with pytest.raises(KernelError, match=r"takes 3 arguments \(A, B, C\), got 2"):
        module["main"](np.zeros((6, 4), "float32"), out)
    with pytest.raises(KernelError, match="argument B"):
        module["main"](np.zeros((6, 4), "float32"), np.zeros((3, 5), "float32"), out)
    with pytest.raises(ArgumentError, match=r"argument C of main is overwritten.*remote.cpu\(\)"):
        module["main"](np.zeros((6, 4), "float32"), np.zeros((4, 5), "float32"), np.zeros((6, 5), "float32"))
    with pytest.raises(ExecutableError, match="kernels has no function 'other'; it has main"):
        module["other"]
    with pytest.raises(ExecutableError, match="need no VirtualMachine"):
        runners.VirtualMachine(module, remote.cpu())
    with pytest.raises(runners.RunnerError, match="repeat"):
        module.time_evaluator("main", number=0)(out, out, out)


def test_what_is_no_program_is_refused(
    remote: RPCSession, vm: runners.VirtualMachine, tmp_path: Path
) -> None:
    remote.upload(b"\x7fELF of another kind", "no.so")
    with pytest.raises(ExecutableError, match=r"no\.so is no model library"):
        remote.load_module("no.so")
    ir.build(matmul(6, 5, 4), "llvm").export_library(tmp_path / "for_c.so")
    with pytest.raises(ExecutableError, match=r"^for_c\.so is no model.*upload\(module, name\)"):
        remote.load_module(remote.upload(tmp_path / "for_c.so"))
    remote.upload(b"loopsmK1 and nothing", "no.kernel")
    with pytest.raises(ir.codegen.container.ContainerError, match="cut short"):
        remote.load_module("no.kernel")
    with pytest.raises(ExecutableError, match="the model has no function 'other'|no function 'other'"):
        vm["other"]
    with pytest.raises(ExecutableError, match="is a model; runners.VirtualMachine"):
        remote.load_module("model.so")["main"]
    with pytest.raises(runners.RunnerError, match=r"cannot read .*none\.so"):
        remote.upload(tmp_path / "none.so")
    with pytest.raises(runners.RunnerError, match="needs a name"):
        remote.upload(b"bytes")
    with pytest.raises(runners.RunnerError, match="module of kernels.*got a int"):
        remote.upload(3, "three")


def test_a_program_runs_where_it_is(remote: RPCSession, vm: runners.VirtualMachine, library: Path) -> None:
    here = runners.load_module(library)
    with pytest.raises(ExecutableError, match=r"is in this process, and cannot run on remote\["):
        runners.VirtualMachine(here, remote.cpu())
    module = remote.load_module("model.so")
    with pytest.raises(ExecutableError, match=r"is in a session with .* and cannot run on cpu\(0\)"):
        runners.VirtualMachine(module, runners.cpu())
    with pytest.raises(ExecutableError, match=r"not on cpu\(0\)"):
        vm.time_evaluator("main", runners.cpu())
    with pytest.raises(ArgumentError, match=r"argument x is on remote\[.*\.copyto\(cpu\(\)\)"):
        runners.VirtualMachine(here)["main"](runners.array(X, remote.cpu()), Y)
    with pytest.raises(ExecutableError, match=r"was built for the processor, it cannot run on cuda\(0\)"):
        runners.VirtualMachine(module, remote.cuda())


def test_arrays_of_another_session_are_refused(remote: RPCSession, vm: runners.VirtualMachine) -> None:
    with Server("other", LOOPBACK, workers=1) as server, connected(server) as other:
        foreign = runners.array(X, other.cpu())
        with pytest.raises(ArgumentError, match="argument x of main is on .* in another session"):
            vm["main"](foreign, Y)
        with pytest.raises(ExecutableError, match="is in a session with"):
            runners.VirtualMachine(remote.load_module("model.so"), other.cpu())
        np.testing.assert_array_equal(vm["main"](foreign.numpy(), Y)[0].numpy(), X + Y)


def test_files_of_a_session(remote: RPCSession) -> None:
    remote.upload(b"some bytes", "file")
    assert remote.listdir() == sorted({*remote.listdir(), "file", "model.so", "kernels"})
    assert remote.download("file") == bytearray(b"some bytes")
    remote.remove("file")
    for ask in (remote.download, remote.remove, remote.load_module):
        with pytest.raises(runners.RunnerError, match="nothing was uploaded as 'file'; there is .*model.so"):
            ask("file")
    with pytest.raises(runners.RunnerError, match="one folder"):
        remote.listdir("/etc")


def test_closures_are_called_where_they_are(vm: runners.VirtualMachine, remote: RPCSession) -> None:
    closure = vm["adder"](X)
    assert repr(closure).startswith("<Closure of remote[")
    np.testing.assert_array_equal(vm.invoke_closure(closure, Y).numpy(), X + Y)
    with pytest.raises(ExecutableError, match="closure is what a function of the model gave"):
        vm.invoke_closure(print)
    with pytest.raises(runners.RunnerError, match="a Closure has no elements"):
        remote.calls.read(closure.number, np.zeros(3))


def test_functions_that_the_server_registers(remote: RPCSession, vm: runners.VirtualMachine) -> None:
    assert vm["different"](np.array([3, 1, 3, 2, 1, 1], "int32")).numpy().tolist() == [1, 2, 3]
    assert remote.get_function("relax.run.shape_to_tensor")((2, 3)).numpy().tolist() == [2, 3]
    with pytest.raises(runners.RunnerError, match="registers no function 'no.such'"):
        remote.get_function("no.such")()


def test_a_local_session_does_the_same_here(library: Path) -> None:
    with LocalSession() as session:
        assert session.upload(library) == "model.so"
        session.upload(ir.build(matmul(6, 5, 4), "llvm"), "kernels")
        assert session.listdir() == ["kernels", "model.so"]
        vm = runners.VirtualMachine(session.load_module("model.so"), session.cpu())
        np.testing.assert_array_equal(vm["main"](X, Y)[0].numpy(), X + Y)
        module = session.load_module("kernels")
        a, b = np.ones((6, 4), "float32"), np.ones((4, 5), "float32")
        out = runners.empty((6, 5), "float32", session.device("cpu"))
        module["main"](a, b, out)
        np.testing.assert_array_equal(out.numpy(), a @ b)
        assert module.time_evaluator("main", number=2)(a, b, out).mean > 0
        assert session.download("kernels").startswith(b"loopsmK1")
        session.remove("kernels")
        with pytest.raises(runners.RunnerError, match="nothing was uploaded as 'kernels'"):
            session.load_module("kernels")
        with pytest.raises(runners.RunnerError, match="without slashes"):
            session.upload(b"", "../there")
