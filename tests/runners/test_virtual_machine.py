"""The virtual machine on functions that are no native function: branches, calls, closures, Python functions, checks."""

from __future__ import annotations

import numpy as np
import pytest

import ir
import runners
from ir import relax, tir
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from runners import virtual_machine
from runners.arguments import as_numpy
from runners.builtins import BUILTINS
from runners.interpreter import MOST_NESTED_CALLS
from runners.program import ArgumentError, ExecutableError
from runners.virtual_machine import VirtualMachine


def _vm(mod, **options):
    return runners.VirtualMachine(relax.build(mod, "llvm", **options), runners.cpu())


def test_branches_take_the_condition():
    @I.ir_module
    class Module:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            if c:
                a = R.exp(x)
                r = R.add(a, a)
            else:
                b = R.negative(x)
                r = R.multiply(b, x)
            y = R.add(r, x)
            return y

    vm = _vm(Module)
    x = np.array([0.5, 1, 2], "float32")
    np.testing.assert_allclose(vm["main"](np.array(True), x).numpy(), 2 * np.exp(x) + x, rtol=1e-6)
    np.testing.assert_allclose(vm["main"](False, x).numpy(), x - x * x, rtol=1e-6)


def test_recursion_over_a_symbolic_value():
    @I.ir_module
    class Module:
        @R.function
        def main(n: R.Prim("int64"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            cls = Module
            y: R.Tensor((2,), "float32") = cls.power(R.shape([3]), x)
            return y

        @R.function(private=True)
        def power(s: R.Shape(["k"]), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            k = T.int64()
            cls = Module
            done = R.prim_value(k <= 0)
            if done:
                r = x
            else:
                inner: R.Tensor((2,), "float32") = cls.power(R.shape([k - 1]), x)
                r = R.multiply(inner, x)
            return r

    x = np.array([2, 3], "float32")
    np.testing.assert_allclose(_vm(Module)["main"](0, x).numpy(), x**4)


@I.ir_module
class CountsDown:
    @R.function
    def main(n: R.Tensor((), "int32"), x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        cls = CountsDown
        done: R.Tensor((), "bool") = R.equal(n, R.const(0, "int32"))
        if done:
            y: R.Tensor((1,), "float32") = x
        else:
            m: R.Tensor((), "int32") = R.subtract(n, R.const(1, "int32"))
            more: R.Tensor((1,), "float32") = R.add(x, R.const([1.0], "float32"))
            y: R.Tensor((1,), "float32") = cls.main(m, more)
        return y


@pytest.mark.meaning("relax-depth")
@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_calls_nest_up_to_a_depth(mode):
    """The deepest call that is allowed computes; a deeper one ends with an error, and leaves the machine as it was."""
    vm, zero = _vm(CountsDown, exec_mode=mode), np.zeros(1, "float32")
    deepest = MOST_NESTED_CALLS - 1
    for depth in (100_000, deepest + 1):
        with pytest.raises(ExecutableError, match="main is called 2000 calls deep, which is the limit"):
            vm["main"](np.array(depth, "int32"), zero)
    np.testing.assert_array_equal(vm["main"](np.array(deepest, "int32"), zero).numpy(), [deepest])


@pytest.mark.meaning("relax-depth")
def test_a_recursion_that_does_not_end_ends_with_an_error():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            cls = Module
            y: R.Tensor((1,), "float32") = cls.main(x)
            return y

    with pytest.raises(ExecutableError, match="does the recursion end"):
        _vm(Module)["main"](np.zeros(1, "float32"))


def test_functions_of_python():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y: R.Tensor((3,), "float32") = R.call_packed(
                "test.vm.twice", x, sinfo_args=R.Tensor((3,), "float32")
            )
            z = R.call_dps_packed("test.vm.negate", (y,), out_sinfo=R.Tensor((3,), "float32"))
            return z

    def negate(source, target):
        target.copyfrom(-source.numpy())

    vm = _vm(Module)
    with pytest.raises(ExecutableError, match="'test.vm.twice', which is not registered"):
        vm["main"](np.ones(3, "float32"))
    ir.register_func("test.vm.twice", lambda x: runners.array(2 * x.numpy()), override=True)
    ir.register_func("test.vm.negate", negate, override=True)
    np.testing.assert_array_equal(vm["main"](np.ones(3, "float32")).numpy(), np.full(3, -2))
    ir.remove_global_func("test.vm.twice")
    ir.remove_global_func("test.vm.negate")


@pytest.fixture
def squares():
    """A registered function that kernels call."""
    ir.register_func("test.vm.square", lambda number: int(number) ** 2, override=True)
    yield
    ir.remove_global_func("test.vm.square")


@I.ir_module
class CallsPython:
    @T.prim_func(private=True)
    def add_squares(A: T.Buffer((4,), "int32"), O: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("O"):
                vi = T.axis.spatial(4, i)
                O[vi] = A[vi] + T.call_packed("test.vm.square", vi)

    @T.prim_func(private=True)
    def squared(A: T.Buffer((4,), "int32"), O: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("O"):
                vi = T.axis.spatial(4, i)
                O[vi] = T.call_packed("test.vm.square", A[vi])

    @R.function
    def main(x: R.Tensor((4,), "int32")) -> R.Tensor((4,), "int32"):
        cls = CallsPython
        y = R.call_tir(cls.add_squares, (x,), out_sinfo=R.Tensor((4,), "int32"))
        z = R.call_tir(cls.squared, (y,), out_sinfo=R.Tensor((4,), "int32"))
        w: R.Tensor((4,), "int32") = R.add(z, x)
        return w


@pytest.mark.parametrize("options", [{}, {"tir_pipeline": None}, {"exec_mode": "compiled"}])
def test_kernels_call_functions_of_python(squares, options):
    x = np.array([1, 2, 3, 4], "int32")
    found = _vm(CallsPython, **options)["main"](x).numpy()
    np.testing.assert_array_equal(found, (x + np.arange(4) ** 2) ** 2 + x)


def test_kernels_of_symbolic_shapes_call_functions_of_python(squares):
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def squared(a: T.handle, o: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "int32")
            O = T.match_buffer(o, (n,), "int32")
            for i in range(n):
                with T.block("O"):
                    vi = T.axis.spatial(n, i)
                    O[vi] = T.call_packed("test.vm.square", A[vi])

        @R.function
        def main(x: R.Tensor(("n",), "int32")) -> R.Tensor(("n",), "int32"):
            n = T.int64()
            cls = Module
            y = R.call_tir(cls.squared, (x,), out_sinfo=R.Tensor((n,), "int32"))
            return y

    np.testing.assert_array_equal(_vm(Module)["main"](np.array([2, 3], "int32")).numpy(), [4, 9])


def test_what_a_function_of_python_raises_in_a_kernel_is_said(squares):
    vm = _vm(CallsPython)

    def fail(number):
        raise OverflowError(f"{number} is too much")

    ir.register_func("test.vm.square", fail, override=True)
    with pytest.raises(ExecutableError, match="OverflowError: 0 is too much"):
        vm["main"](np.zeros(4, "int32"))


def test_a_library_of_kernels_that_call_python_is_refused(squares, tmp_path):
    executable = relax.build(CallsPython, "llvm")
    with pytest.raises(
        ExecutableError, match=r"functions test\.vm\.square, which a shared library does not have; run"
    ):
        executable.export_library(tmp_path / "model.so")
    assert not list(tmp_path.iterdir())


def test_python_may_return_arrays_of_any_order():
    """Kernels read dense arrays; numpy's views of another order, also in tuples, are made such."""

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            y = R.call_packed("test.vm.turned", x, sinfo_args=R.Tensor((3, 2), "float32"))
            both = R.call_packed(
                "test.vm.pair", x, sinfo_args=R.Tuple(R.Tensor((3, 2), "float32"), R.Tensor((2,), "float32"))
            )
            z = R.add(y, both[0])
            return (R.exp(y), z, R.add(both[1], both[1]))

    ir.register_func("test.vm.turned", lambda x: runners.array(x.numpy()).data.T, override=True)
    ir.register_func("test.vm.pair", lambda x: (x.numpy().T, x.numpy()[:, 1]), override=True)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    e, z, w = (item.numpy() for item in _vm(Module)["main"](x))
    np.testing.assert_allclose(e, np.exp(x.T), rtol=1e-6)
    np.testing.assert_array_equal(z, 2 * x.T)
    np.testing.assert_array_equal(w, 2 * x[:, 1])
    ir.remove_global_func("test.vm.turned")
    ir.remove_global_func("test.vm.pair")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones(2, "float32"), r"a float32 tensor of shape \[2\]"),
        (np.ones(3), r"a float64 tensor of shape \[3\]"),
        (2.5, "it gave a float"),
        ((np.ones(3, "float32"),), r"it gave \(a float32 tensor of shape \[3\]\)"),
    ],
)
def test_what_python_returns_is_what_the_model_says(value, message):
    """Kernels would read other memory than there is."""

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.call_packed("test.vm.given", x, sinfo_args=R.Tensor((3,), "float32"))
            return R.add(y, y)

    ir.register_func("test.vm.given", lambda x: value, override=True)
    said = r"says that 'test.vm.given' gives a float32 tensor of shape \[3\]; .*"
    with pytest.raises(ExecutableError, match=said + message):
        _vm(Module)["main"](np.ones(3, "float32"))
    ir.remove_global_func("test.vm.given")


def test_match_cast_binds_and_checks():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=2)) -> R.Tensor(dtype="float32", ndim=1):
            n, m = T.int64(), T.int64()
            y = R.match_cast(x, R.Tensor((n, m), "float32"))
            z = R.reshape(y, (n * m,))
            w = R.add(z, z)
            return w

    vm = _vm(Module)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(vm["main"](x).numpy(), 2 * x.reshape(-1))
    with pytest.raises(ArgumentError, match="argument x must be a float32 tensor of 2 dimensions"):
        vm["main"](x.reshape(-1))
    with pytest.raises(ArgumentError, match="convert it with"):
        vm["main"](x.astype("int32"))
    with pytest.raises(
        ArgumentError, match=r"got one of float32 of the other byte order \([<>]f4\); convert"
    ):
        vm["main"](x.astype(x.dtype.newbyteorder()))


def test_shapes_as_values():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32"), s: R.Shape(["n", 2])) -> R.Shape(ndim=2):
            n = T.int64()
            y: R.Shape([n + 1, 4]) = R.shape([n + 1, 4])
            return y

    vm = _vm(Module)
    assert vm["main"](np.zeros((5, 2), "float32"), (5, 2)) == (6, 4)
    with pytest.raises(ArgumentError, match="argument s must have extent 5 on axis 0"):
        vm["main"](np.zeros((5, 2), "float32"), (4, 2))


def test_several_functions_call_each_other():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            cls = Module
            y: R.Tensor((n,), "float32") = cls.helper(x)
            z = R.add(y, y)
            return z

        @R.function(private=True)
        def helper(x: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
            m = T.int64()
            y = R.exp(x)
            return y

    executable = relax.build(Module, "llvm")
    assert executable.function_names == ["main"]
    x = np.linspace(0, 1, 7, dtype="float32")
    np.testing.assert_allclose(
        runners.VirtualMachine(executable)["main"](x).numpy(), 2 * np.exp(x), rtol=1e-6
    )


def test_native_functions_are_called_from_bytecode():
    @I.ir_module
    class Module:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            if c:
                r: R.Tensor((4,), "float32") = cls.static(x)
            else:
                r = x
            return r

        @R.function(private=True)
        def static(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.exp(x)
            return y

    executable = relax.build(Module, "llvm")
    kinds = {name: entry["kind"] for name, entry in executable.metadata["functions"].items()}
    assert kinds == {"main": "bytecode", "static": "native"}
    x = np.ones(4, "float32")
    np.testing.assert_allclose(
        runners.VirtualMachine(executable)["main"](True, x).numpy(), np.exp(x), rtol=1e-6
    )


def test_assertions_and_printing(capsys):
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2,), "float32"):
            _ = R.print(x, format="x is {}")
            _1 = R.assert_op(c, format="the condition does not hold")
            return x

    vm = _vm(Module)
    vm["main"](np.ones(2, "float32"), True)
    assert capsys.readouterr().out == "x is [1.0, 1.0]\n"
    with pytest.raises(ExecutableError, match="the condition does not hold"):
        vm["main"](np.ones(2, "float32"), False)


def test_builtins_are_functions_of_raw_values():
    assert BUILTINS["vm.builtin.shape_of"](np.zeros((2, 3))) == (2, 3)
    np.testing.assert_array_equal(BUILTINS["relax.run.shape_to_tensor"]((4, 5)), [4, 5])
    assert BUILTINS["vm.builtin.tensor_to_shape"](np.array([4, 5])) == (4, 5)


def test_tuples_are_checked_for_their_size():
    check = BUILTINS["vm.builtin.check_tuple_info"]
    assert check((1, 2), 2) == ()
    for value in ((1, 2, 3), [1, 2], 5):
        with pytest.raises(ArgumentError, match="must be a tuple of 2 values"):
            check(value, 2)


def test_an_array_of_the_other_byte_order_is_called_that():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
            y = R.add(x, x)
            return y

    x = np.ones((4, 6), "float32")
    with pytest.raises(
        ArgumentError, match=r"got float32 of the other byte order \([<>]f4\)\[4, 6\]; convert"
    ):
        _vm(Module)["main"](x.astype(x.dtype.newbyteorder()))


def test_arguments_share_their_memory():
    array = runners.array(np.arange(3, dtype="float32"))
    assert as_numpy(array, "x") is array.data and as_numpy(array.data, "x") is array.data
    assert as_numpy(3, "n", "int32").dtype == "int32" and as_numpy(2.5, "n").dtype == "float64"
    with pytest.raises(ArgumentError, match="argument x must be an array .* got str"):
        as_numpy("text", "x")
    unmasked = np.ma.array([1.0, 2.0])
    assert as_numpy(unmasked, "x") is unmasked
    with pytest.raises(ArgumentError, match=r"argument x is a masked array.*x\.filled\(0\)"):
        as_numpy(np.ma.masked_less(unmasked, 2), "x")


@pytest.mark.meaning("entry")
@pytest.mark.parametrize("size", [2, "n"], ids=["native", "bytecode"])
@pytest.mark.parametrize(
    "dtype, value",
    [
        ("int32", 3.7), ("int8", np.int64(300)), ("uint8", np.int8(-1)), ("int8", 300), ("int32", float("nan")),
        ("uint64", 1 << 64), ("bool", 2), ("float16", 70000), ("float32", 1e300), ("float32", 1j), ("int4", 8),
    ],
)  # fmt: skip
def test_numbers_fit_the_dtype_that_is_declared(size, dtype, value):
    n = tir.Var("n", "int64") if size == "n" else size
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((), dtype))
    y = relax.Var("y", relax.TensorStructInfo((n,), "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.astype(x, "float64"))
        builder.emit_func_output(out)
    main = _vm(builder.finalize())["main"]
    with pytest.raises(ArgumentError, match="argument x must be"):
        main(value, np.zeros(2, "float32"))
    for fitting in (1, 1.0, True, np.float32(1), np.int64(1)):
        assert main(fitting, np.zeros(2, "float32")).numpy() == 1


@pytest.mark.meaning("entry")
def test_numbers_of_functions_fit_their_dtype():
    """As arguments, in tuples, and from Python."""

    @I.ir_module
    class Module:
        @R.function
        def main(p: R.Prim(value="n")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            return R.full(R.shape([n]), R.const(1, "float32"), "float32")

        @R.function
        def pair(x: R.Tuple(R.Prim("int32"), R.Tensor((), "int8"))) -> R.Tensor((), "int8"):
            return x[1]

    main = _vm(Module)["main"]
    for value in (3, 3.0, np.int64(3), np.array(3)):
        assert main(value).shape == (3,)
    for value in (3.7, np.array(3.7), "3", np.ones(1), 1 << 63):
        with pytest.raises(ArgumentError, match="argument p must be a number of int64, got"):
            main(value)
    pair = _vm(Module)["pair"]
    assert pair((1, 5)).numpy() == 5
    with pytest.raises(ArgumentError, match=r"argument x\[0\] must be a number of int32"):
        pair((1.5, 5))
    with pytest.raises(ArgumentError, match=r"argument x\[1\] must be a number of int8"):
        pair((1, 500))


@pytest.mark.meaning("relax-shape")
def test_a_number_that_is_declared_with_its_value_is_compared():
    @I.ir_module
    class Module:
        @R.function
        def main(p: R.Prim(value=3)) -> R.Prim(value=3):
            return p

    main = _vm(Module)["main"]
    assert main(3) == 3
    with pytest.raises(ArgumentError, match="argument p must have extent 3"):
        main(4)


def test_a_tensor_of_bfloat16_from_torch_is_an_argument():
    torch = pytest.importorskip("torch")
    for n in (3, tir.Var("n", "int64")):
        builder = relax.BlockBuilder()
        x = relax.Var("x", relax.TensorStructInfo((n,), "bfloat16"))
        with builder.function("main", [x]):
            with builder.dataflow():
                out = builder.emit_output(relax.op.add(x, x))
            builder.emit_func_output(out)
        found = _vm(builder.finalize())["main"](torch.ones(3, dtype=torch.bfloat16, requires_grad=True))
        assert torch.equal(torch.from_dlpack(found), torch.full((3,), 2, dtype=torch.bfloat16))


@pytest.mark.parametrize(("every", "pauses"), [(1, [3, 4, 5, 6]), (2, [4, 6]), (3, [5])])
def test_timing_cools_down_after_so_many_repeats(monkeypatch, every, pauses):
    calls, slept = [], []
    monkeypatch.setattr(virtual_machine.time, "sleep", lambda seconds: slept.append((len(calls), seconds)))
    monkeypatch.setattr(virtual_machine, "_timed_call", lambda *given: lambda n: calls.append(n) or n)
    vm = VirtualMachine(runners.Executable({"functions": {}}, None), runners.cpu())
    vm._functions["main"] = lambda: None
    timer = vm.time_evaluator("main", number=5, repeat=4, cooldown_interval_ms=20, repeats_to_cooldown=every)
    assert timer().results == (1.0,) * 4
    assert slept == [(count - 1, 0.02) for count in pauses]


def test_wrong_number_of_arguments_and_kinds():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(
            ("n",), "float32"
        ):
            n = T.int64()
            z = R.add(x, y)
            return z

    vm = _vm(Module)
    with pytest.raises(ArgumentError, match=r"takes 2 arguments \(x, y\), got 1"):
        vm["main"](np.ones(2, "float32"))
    with pytest.raises(ArgumentError, match="argument y must be an array .* got str"):
        vm["main"](np.ones(2, "float32"), "text")


def test_virtual_machine_rejects_what_is_no_executable():
    with pytest.raises(ExecutableError, match="takes an Executable, got str"):
        runners.VirtualMachine("model.so")
    with pytest.raises(ExecutableError, match="built for the processor"):
        runners.VirtualMachine(runners.Executable({"functions": {}}, None), runners.cuda())


def test_a_library_that_was_cut_short_is_refused(tmp_path):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.add(x, x)

    path = relax.build(Module, "llvm").export_library(tmp_path / "model.so")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ExecutableError, match="was cut short; copy it again"):
        runners.load_module(path)


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_library_that_takes_the_place_of_another_is_loaded(tmp_path, is_kept):
    machines = []
    for factor in (1, 2, 3):
        x = relax.Var("x", R.Tensor((2,), "float32"))
        builder = relax.BlockBuilder()
        with builder.function("main", [x]):
            builder.emit_func_output(builder.emit(R.multiply(x, R.const(float(factor), "float32"))))
        path = relax.build(builder.get(), "llvm").export_library(tmp_path / "model.so")
        machine = runners.VirtualMachine(runners.load_module(path), runners.cpu())
        machines = [*machines, machine] if is_kept else [machine]
        for number, known in enumerate(machines, start=1 if is_kept else factor):
            np.testing.assert_array_equal(known["main"](np.ones(2, "float32")).numpy(), np.full(2, number))


def test_threads_have_their_own_workspace():
    from concurrent.futures import ThreadPoolExecutor

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((64, 64), "float32")) -> R.Tensor((64, 64), "float32"):
            with R.dataflow():
                a = R.matmul(x, x)
                b = R.nn.softmax(a)
                c = R.matmul(b, x)
                R.output(c)
            return c

    vm = _vm(Module)
    inputs = [np.random.default_rng(i).standard_normal((64, 64)).astype("float32") for i in range(8)]
    expected = [vm["main"](x).numpy() for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for got, wanted in zip(pool.map(lambda x: vm["main"](x).numpy(), inputs), expected, strict=True):
                np.testing.assert_array_equal(got, wanted)


def test_a_bound_call_writes_into_its_arrays():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            result = bb.emit_output(bb.emit(relax.op.add(x, x)))
        bb.emit_func_output(result)
    main = runners.VirtualMachine(relax.build(bb.get(), "llvm"), runners.cpu())["main"]
    (given,) = main.check(main.flatten([np.arange(4, dtype="float32")]))
    (out,) = main.call_flat([given])
    call = main.bind([given], [out])
    given[...] = 5
    call()
    np.testing.assert_array_equal(out, 10.0)
    # arrays that are not aligned, not contiguous or read-only are taken as they are or copied, never refused
    raw = np.zeros(17, np.uint8)[1:].view("float32")
    strided = np.arange(8, dtype="float32")[::2]
    constant = np.broadcast_to(np.float32(2), (4,))
    for value in (raw, strided, constant):
        np.testing.assert_array_equal(main(value).numpy(), 2 * value)


def test_a_machine_takes_devices_and_no_names():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.add(x, x)
            return y

    executable = relax.build(Module, "llvm")
    with pytest.raises(runners.DeviceError, match=r"or runners.device\('cpu'\), .*; got 'cpu'"):
        runners.VirtualMachine(executable, "cpu")
    with pytest.raises(runners.DeviceError, match="got 'cpu'"):
        runners.VirtualMachine(executable, ["cpu"])


@pytest.mark.parametrize("rows", [3, "n"])
def test_arguments_may_be_given_by_name(rows):
    """Of a function in native code, and of one that the interpreter runs."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((rows,), "float32"), y: R.Tensor((rows,), "float32")) -> R.Tensor(
            (rows,), "float32"
        ):
            with R.dataflow():
                z = R.subtract(x, y)
                R.output(z)
            return z

    main = _vm(Module)["main"]
    x, y = np.array([1, 2, 3], "float32"), np.array([5, 5, 6], "float32")
    for found in (main(x, y=y), main(y=y, x=x)):
        np.testing.assert_array_equal(found.numpy(), x - y)
    for message, args, named in [
        ("no argument 'z'; its arguments are x, y", (x,), {"z": y}),
        ("argument x is given twice", (x,), {"x": x, "y": y}),
        ("argument y is missing", (), {"x": x}),
        ("argument x is given twice", (x, y), {"x": x}),
    ]:
        with pytest.raises(ArgumentError, match=message):
            main(*args, **named)
