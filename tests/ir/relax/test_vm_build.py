"""Building whole models: native functions, exported libraries, bytecode; numbers against numpy and torch."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import runners
from ir import relax as rx
from ir import tir
from ir.codegen.build import build
from ir.codegen.llvm import compile
from ir.dtype import to_numpy
from ir.error import IRError
from ir.relax.struct_info import TensorStructInfo
from ir.relax.testing import evaluate
from ir.script import from_source
from runners.program import ArgumentError, ExecutableError
from tests.programs.expressions import elementwise

op = rx.op
ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(0)


def conv_net():
    """A small network with its numpy inputs and what torch computes."""
    torch = pytest.importorskip("torch")
    w1 = (0.1 * RNG.standard_normal((8, 3, 3, 3))).astype("float32")
    b1 = RNG.standard_normal((1, 8, 1, 1)).astype("float32")
    w2 = (0.05 * RNG.standard_normal((512, 10))).astype("float32")
    b2 = RNG.standard_normal((10,)).astype("float32")
    builder = rx.BlockBuilder()
    x = rx.Var("x", TensorStructInfo((1, 3, 16, 16)))
    with builder.function("main", [x]):
        with builder.dataflow():
            h = builder.emit(op.nn.conv2d(x, rx.const(w1), padding=1))
            h = builder.emit(op.nn.relu(builder.emit(op.add(h, rx.const(b1)))))
            h = builder.emit(op.nn.max_pool2d(h, pool_size=(2, 2), strides=(2, 2)))
            h = builder.emit(op.reshape(h, (1, 512)))
            h = builder.emit(op.add(builder.emit(op.matmul(h, rx.const(w2))), rx.const(b2)))
            out = builder.emit_output(op.nn.softmax(h))
        builder.emit_func_output(out)
    data = RNG.standard_normal((1, 3, 16, 16)).astype("float32")
    functional = torch.nn.functional
    t = functional.conv2d(torch.tensor(data), torch.tensor(w1), padding=1) + torch.tensor(b1)
    t = functional.max_pool2d(functional.relu(t), 2).reshape(1, -1) @ torch.tensor(w2) + torch.tensor(b2)
    return builder.finalize(), data, torch.softmax(t, -1).numpy()


@pytest.fixture(scope="module")
def built():
    mod, data, expected = conv_net()
    return rx.build(mod, "llvm"), data, expected


def test_conv_net_is_one_native_function_with_torchs_numbers(built):
    executable, data, expected = built
    entry = executable.metadata["functions"]["main"]
    assert entry["kind"] == "native"
    # conv+bias+relu, pool, matmul+bias, softmax, and a transpose at either border; the reshape is a view
    assert len(entry["calls"]) == 6
    memory = entry["memory"]
    assert memory["lower_bound_bytes"] <= memory["arena_bytes"] < memory["total_bytes"] + 1
    result = runners.VirtualMachine(executable, runners.cpu())["main"](data)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_exported_library_gives_the_same_numbers(built, tmp_path):
    executable, data, expected = built
    path = executable.export_library(tmp_path / "model.so")
    loaded = runners.load_module(path)
    result = runners.VirtualMachine(loaded, runners.cpu())["main"](data)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ExecutableError, match="copy the file"):
        loaded.export_library(tmp_path / "again.so")


def test_library_runs_with_numpy_and_runners_alone(built, tmp_path):
    executable, data, expected = built
    path = executable.export_library(tmp_path / "model.so")
    np.save(tmp_path / "x.npy", data)
    program = textwrap.dedent(
        f"""
        import sys
        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("ir", "llvmlite", "schedules", "tuner", "database", "cost_models"):
                    raise ModuleNotFoundError(name + " is blocked", name=name)
        sys.meta_path.insert(0, Blocker())
        import numpy as np
        import runners
        vm = runners.VirtualMachine(runners.load_module({str(path)!r}), runners.cpu())
        np.save({str(tmp_path / "y.npy")!r}, vm["main"](np.load({str(tmp_path / "x.npy")!r})).numpy())
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=60)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_c_program_runs_the_library(built, tmp_path):
    executable, data, expected = built
    executable.export_library(tmp_path / "libmodel.so")
    data.tofile(tmp_path / "x.bin")
    (tmp_path / "main.c").write_text(
        textwrap.dedent(
            """
            #include <stdio.h>
            #include "libmodel.h"
            static float x[1 * 3 * 16 * 16], y[10];
            int main(void) {
              FILE *file = fopen("x.bin", "rb");
              if (!file || fread(x, sizeof x, 1, file) != 1) return 2;
              if (loopsmith_main_run(x, y) != 0) { puts(loopsmith_last_error()); return 1; }
              for (int i = 0; i < 10; ++i) printf("%.9g\\n", y[i]);
              return 0;
            }
            """
        )
    )
    subprocess.run(
        ["cc", "-Wall", "-Werror", "main.c", "-o", "main", "-L.", "-lmodel", "-Wl,-rpath,."],
        check=True,
        cwd=tmp_path,
        timeout=60,
    )
    done = subprocess.run(["./main"], check=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    np.testing.assert_allclose(np.array(done.stdout.split(), "float32"), expected[0], rtol=1e-5, atol=1e-6)


def test_library_of_another_processor_is_refused(built, tmp_path):
    executable, *_ = built
    foreign = runners.Executable(
        {
            **executable.metadata,
            "target": {
                **executable.metadata["target"],
                "cpu": "future",
                "features": ["avx512fp16", "amx-bf16"],
            },
        },
        executable.library,
        executable.constants,
        executable._objects,
    )
    path = foreign.export_library(tmp_path / "model.so")
    from runners import program

    flags = program.host_flags()
    if flags is None or {"avx512_fp16", "amx_bf16"} <= flags:
        pytest.skip("this processor has the features, or does not tell")
    with pytest.raises(ExecutableError, match="future and needs"):
        runners.load_module(path)
    older = runners.Executable(
        {**executable.metadata, "format": 0}, executable.library, executable.constants, executable._objects
    )
    with pytest.raises(ExecutableError, match="format 0"):
        runners.load_module(older.export_library(tmp_path / "older.so"))


def test_loading_what_is_no_model(tmp_path):
    with pytest.raises(ExecutableError, match="there is no file"):
        runners.load_module(tmp_path / "absent.so")
    (tmp_path / "text.so").write_text("hello")
    with pytest.raises(ExecutableError, match="no model library of loopsmith: `loopsmith build` makes one"):
        runners.load_module(tmp_path / "text.so")
    kernels = build(elementwise())
    kernels.export_library(tmp_path / "kernels.so")
    with pytest.raises(ExecutableError, match="describes no model; one of kernels, .*, is for C"):
        runners.load_module(tmp_path / "kernels.so")


def test_loading_what_was_cut_short(built, tmp_path):
    whole = built[0].export_library(tmp_path / "model.so").read_bytes()
    for size in (len(whole) // 2, len(whole) - 50, 100, 0):
        (tmp_path / "short.so").write_bytes(whole[:size])
        with pytest.raises(ExecutableError, match="cut short" if size >= 64 else "no model library"):
            runners.load_module(tmp_path / "short.so")


def test_threads_that_call_a_model_for_the_first_time_at_once():
    program = """
import threading
import numpy as np
import runners
from ir import relax
from ir.script import from_source
source = '''@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", 64), "float32")):
        return R.nn.relu(R.add(x, x))
'''
x = np.arange(-640, 640, dtype="float32").reshape(20, 64)
wrong = []
def work(model, start):
    start.wait()
    for _ in range(10):
        if not (model["main"](x).numpy() == np.maximum(2 * x, 0)).all():
            wrong.append(1)
model, start = runners.VirtualMachine(relax.build(from_source(source))), threading.Barrier(8)
threads = [threading.Thread(target=work, args=(model, start)) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not wrong
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


def test_unwritable_path(built):
    with pytest.raises(ExecutableError, match="no folder that can be written to"):
        built[0].export_library("/nowhere/at/all/model.so")


def test_wrong_arguments_name_the_argument(built):
    executable, data, _ = built
    main = runners.VirtualMachine(executable, runners.cpu())["main"]
    with pytest.raises(
        ArgumentError, match=r"argument x must be float32\[1, 3, 16, 16\], got float32\[1, 2, 16, 16\]"
    ):
        main(data[:, :2])
    with pytest.raises(ArgumentError, match="convert it with .astype"):
        main(data.astype("float64"))
    with pytest.raises(ArgumentError, match="takes 1 arguments"):
        main(data, data)
    with pytest.raises(ArgumentError, match="must be an array"):
        main("text")


def test_strided_input_and_dlpack_input(built):
    torch = pytest.importorskip("torch")
    executable, data, expected = built
    main = runners.VirtualMachine(executable, runners.cpu())["main"]
    strided = np.ascontiguousarray(data.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert not strided.flags.c_contiguous
    np.testing.assert_allclose(main(strided).numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        torch.from_dlpack(main(torch.tensor(data))).numpy(), expected, rtol=1e-5, atol=1e-6
    )


def test_stateful_interface_saved_functions_and_timing(built):
    executable, data, expected = built
    vm = runners.VirtualMachine(executable, runners.cpu())
    vm.set_input("main", x=data)
    vm.invoke_stateful("main")
    np.testing.assert_allclose(vm.get_outputs("main").numpy(), expected, rtol=1e-5, atol=1e-6)
    vm.save_function("main", "saved", data)
    np.testing.assert_allclose(vm["saved"]().numpy(), expected, rtol=1e-5, atol=1e-6)
    times = vm.time_evaluator("main", runners.cpu(), number=2, repeat=3)(data)
    with pytest.raises(ExecutableError, match="timed where it runs, on cpu"):
        vm.time_evaluator("main", runners.device("cuda"))
    assert len(times.results) == 3 and 0 < times.min <= times.median <= times.max
    with pytest.raises(ExecutableError, match=r"profile of 'main'.*profile=True"):
        vm.profile("main", data)
    vm = runners.VirtualMachine(executable, runners.cpu(), profile=True)
    vm.save_function("main", "saved", data)
    assert "saved" in vm.profile("saved")
    with pytest.raises(ExecutableError, match="it has main"):
        vm["other"]
    with pytest.raises(ArgumentError, match="no argument 'z'"):
        vm.set_input("main", z=data)


def test_profile_has_a_line_for_each_kernel_of_a_native_function(built, tmp_path):
    executable, data, expected = built
    kernels = sorted(executable.metadata["functions"]["main"]["calls"])
    for loaded in (executable, runners.load_module(executable.export_library(tmp_path / "model.so"))):
        vm = runners.VirtualMachine(loaded, runners.cpu(), profile=True)
        begin = time.perf_counter()
        lines = vm.profile("main", data).splitlines()[1:]
        assert sorted(line.split()[-1] for line in lines[:-1]) == kernels
        times = [float(line.split()[0]) for line in lines]
        assert times[:-1] == sorted(times[:-1], reverse=True) and times[0] > 0 and min(times) >= 0
        assert times[-1] == pytest.approx(sum(times[:-1]), abs=0.1 * len(times))
        assert times[-1] < (time.perf_counter() - begin) * 1e6
        np.testing.assert_allclose(vm["main"](data).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_metadata_is_plain_data(built):
    assert json.loads(json.dumps(built[0].metadata)) == built[0].metadata
    assert built[0].signature("main")["outputs"] == [
        {"name": "output0", "shape": [1, 10], "dtype": "float32"}
    ]
    assert ctypes.sizeof(ctypes.c_void_p) == 8


def dynamic_module():
    """softmax(x @ w + x[:, :4]) for any number of rows, twice the rows in y."""
    n = tir.Var("n", "int64")
    w = RNG.standard_normal((8, 8)).astype("float32")
    builder = rx.BlockBuilder()
    x = rx.Var("x", TensorStructInfo((n, 8)))
    y = rx.Var("y", TensorStructInfo((2 * n, 8)))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            h = builder.emit(op.add(builder.emit(op.matmul(x, rx.const(w))), x))
            h = builder.emit(op.concat([h, y], axis=0))
            flat = builder.emit(op.reshape(h, (3 * n * 8,)))
            out = builder.emit_output(rx.Tuple([builder.emit(op.nn.relu(h)), flat]))
        builder.emit_func_output(out)
    return builder.finalize(), w


def test_symbolic_shapes_run_in_the_virtual_machine(tmp_path):
    mod, w = dynamic_module()
    executable = rx.build(mod, "llvm")
    assert executable.metadata["functions"]["main"]["kind"] == "bytecode"
    for loaded in (executable, runners.load_module(executable.export_library(tmp_path / "dynamic.so"))):
        vm = runners.VirtualMachine(loaded, runners.cpu(), profile=True)
        for rows in (1, 5):
            x, y = (RNG.standard_normal((k, 8)).astype("float32") for k in (rows, 2 * rows))
            relu, flat = vm["main"](x, y)
            joined = np.concatenate([x @ w + x, y])
            np.testing.assert_allclose(relu.numpy(), np.maximum(joined, 0), rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(flat.numpy(), joined.reshape(-1), rtol=1e-5, atol=1e-5)
        with pytest.raises(ArgumentError, match="argument y must have extent 6 on axis 0"):
            vm["main"](np.zeros((3, 8), "float32"), np.zeros((5, 8), "float32"))
        with pytest.raises(ArgumentError, match="argument x must be a float32 tensor of 2 dimensions"):
            vm["main"](np.zeros((3, 8, 1), "float32"), np.zeros((6, 8), "float32"))
        profile = vm.profile("main", x, y)
        assert all(word in profile for word in ("fused_matmul", "concat", "relu", "reshape"))


def test_results_that_are_inputs_constants_and_views():
    builder = rx.BlockBuilder()
    x = rx.Var("x", TensorStructInfo((2, 3)))
    c = np.arange(4, dtype="float32")
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.add(x, x))
            out = builder.emit_output(rx.Tuple([x, rx.const(c), y, builder.emit(op.reshape(y, (6,)))]))
        builder.emit_func_output(out)
    vm = runners.VirtualMachine(rx.build(builder.finalize(), "llvm"), runners.cpu())
    data = np.arange(6, dtype="float32").reshape(2, 3)
    same, constant, double, flat = (value.numpy() for value in vm["main"](data))
    np.testing.assert_array_equal(same, data)
    np.testing.assert_array_equal(constant, c)
    np.testing.assert_array_equal(double, 2 * data)
    np.testing.assert_array_equal(flat, 2 * data.reshape(-1))


def test_one_array_is_one_constant_however_often_it_is_named():
    weight, other = np.ones((4, 5), "float32"), np.zeros((4, 5), "float32")
    builder = rx.BlockBuilder()
    x = rx.Var("x", TensorStructInfo((4, 5)))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.add(x, rx.const(weight)))
            y = builder.emit(op.multiply(y, rx.Constant(weight)))
            y = builder.emit(op.add(op.subtract(y, rx.const(other)), rx.const(weight[::-1])))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    executable = rx.build(builder.finalize(), "llvm")
    assert len(executable.constants) == 3


@pytest.mark.parametrize(
    "stored",
    [
        lambda a: a,
        np.asfortranarray,
        lambda a: np.ascontiguousarray(a.T).T,
        lambda a: np.repeat(a, 2, 1)[:, ::2],
        lambda a: np.ascontiguousarray(a[::-1])[::-1],
        lambda a: a.astype(a.dtype.newbyteorder(">")),
    ],
    ids=["rows", "columns", "transposed", "strided", "reversed", "big-endian"],
)
def test_weights_are_the_same_however_numpy_stores_them(tmp_path, stored):
    """A mask that an ONNX importer sliced was kept in columns, and read in rows."""
    mask, weight = np.tril(np.ones((4, 5), bool)), np.arange(20, dtype="float32").reshape(4, 5)
    builder = rx.BlockBuilder()
    x, w = rx.Var("x", TensorStructInfo((4, 5))), rx.Var("w", TensorStructInfo((4, 5)))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(op.where(rx.const(stored(mask)), x, w)))
        builder.emit_func_output(out)
    bound = rx.transform.BindParams("main", {"w": stored(weight)})(builder.finalize())
    data = RNG.standard_normal((4, 5)).astype("float32")
    executable = rx.build(bound, "llvm")
    for built in (executable, runners.load_module(executable.export_library(tmp_path / "model.so"))):
        found = runners.VirtualMachine(built, runners.cpu())["main"](data).numpy()
        np.testing.assert_array_equal(found, np.where(mask, data, weight))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "uint4"])
def test_constants_of_every_dtype_are_exported(tmp_path, dtype):
    values = (np.arange(10) % 5).astype(to_numpy(dtype))
    builder = rx.BlockBuilder()
    x = rx.Var("x", TensorStructInfo((10,), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(
                rx.Tuple([builder.emit(op.maximum(x, rx.Constant(values))), rx.Constant(values[0])])
            )
        builder.emit_func_output(out)
    path = rx.build(builder.finalize(), "llvm").export_library(tmp_path / "model.so")
    found, first = runners.VirtualMachine(runners.load_module(path))["main"](np.ones(10, values.dtype))
    np.testing.assert_array_equal(found.numpy().astype(int), np.maximum(np.arange(10) % 5, 1))
    assert first.numpy() == values[0]


def test_a_returned_constant_is_not_written_through_dlpack():
    torch = pytest.importorskip("torch")
    builder = rx.BlockBuilder()
    x = rx.Var("x", TensorStructInfo((3,)))
    constant = rx.const(np.zeros(3, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(rx.Tuple([constant, builder.emit(op.add(x, constant))]))
        builder.emit_func_output(out)
    main = runners.VirtualMachine(rx.build(builder.finalize(), "llvm"))["main"]
    ones = np.ones(3, "float32")
    torch.from_dlpack(main(ones)[0]).fill_(5)
    np.testing.assert_array_equal(main(ones)[1].numpy(), ones)
    with pytest.raises(BufferError, match="read-only"):
        main(ones)[0].__dlpack__(copy=False)


def test_params_are_bound_and_tuple_arguments_taken():
    builder = rx.BlockBuilder()
    pair = rx.Var("pair", rx.TupleStructInfo([TensorStructInfo((4,)), TensorStructInfo((4,))]))
    w = rx.Var("w", TensorStructInfo((4,)))
    with builder.function("main", [pair, w]):
        a, b = builder.emit(rx.TupleGetItem(pair, 0)), builder.emit(rx.TupleGetItem(pair, 1))
        builder.emit_func_output(builder.emit(op.multiply(builder.emit(op.add(a, b)), w)))
    weight = np.arange(4, dtype="float32")
    vm = runners.VirtualMachine(rx.build(builder.finalize(), "llvm", params={"w": weight}), runners.cpu())
    ones = np.ones(4, "float32")
    np.testing.assert_array_equal(vm["main"]((ones, 2 * ones)).numpy(), 3 * weight)
    with pytest.raises(ArgumentError, match=r"argument pair\[1\] must be float32\[4\]"):
        vm["main"]((ones, np.ones(5, "float32")))


def test_unknown_pipeline_and_mode():
    from ir.error import IRValueError

    with pytest.raises(IRValueError, match="unknown pipeline 'ultra'"):
        rx.get_pipeline("ultra")
    with pytest.raises(IRValueError, match="exec_mode"):
        rx.build(rx.BlockBuilder().finalize(), "llvm", exec_mode="fast")


@pytest.mark.parametrize("make", [conv_net, dynamic_module])
def test_lowered_to_explicit_memory(make):
    """The default_build pipeline, run by the interpreter, computes what the program before it means."""
    mod = make()[0]
    lowered = rx.get_pipeline("default")(mod)
    names = {
        getattr(b.value.op, "name", "")
        for block in lowered["main"].body.blocks
        for b in block.bindings
        if hasattr(b.value, "op")
    }
    assert {"relax.vm.alloc_storage", "relax.vm.alloc_tensor", "relax.vm.kill_object"} <= names
    assert not any(name.startswith(("relax.call_tir", "relax.builtin")) for name in names)
    executable = rx.build(lowered, "llvm", pipeline=None)
    kind = executable.metadata["functions"]["main"]["kind"]
    assert kind == ("native" if make is conv_net else "bytecode")
    shapes = [(1, 3, 16, 16)] if make is conv_net else [(3, 8), (6, 8)]
    inputs = [RNG.standard_normal(shape).astype("float32") for shape in shapes]
    got = runners.VirtualMachine(executable, runners.cpu())["main"](*inputs)
    expected = evaluate(mod, *inputs)
    for a, b in zip(*[(x,) if not isinstance(x, tuple) else x for x in (got, expected)], strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-5)


def test_target_of_a_named_processor_is_described(built):
    from ir.error import IRError

    mod, *_ = conv_net()
    executable = rx.build(mod, "llvm -mcpu=x86-64-v3")
    described = executable.metadata["target"]
    assert described["cpu"] == "x86-64-v3" and {"avx2", "fma"} <= set(described["features"])
    assert "avx512f" not in described["features"]
    with pytest.raises(IRError, match="code for target kind 'opencl' is not generated yet"):
        rx.build(mod, "opencl")
    with pytest.raises(IRError, match="there is no system library"):
        rx.build(mod, system_lib=True)


@pytest.mark.parametrize(("name", "right"), [("matmul", (2, 4, 5)), ("add", (2, 3, 4))])
def test_a_broadcast_that_only_a_run_decides_is_refused_with_the_way_out(name, right):
    """Extents n and 2 may meet where n is 1 or 2: which of them the result has is not known while building."""

    def program(known):
        text = f"""
@I.ir_module
class Module:
    @R.function
    def main(a: R.Tensor(("n", 3, 4), "float32"), b: R.Tensor({right}, "float32")):
        c = {"R.match_cast(a, R.Tensor((2, 3, 4), 'float32'))" if known else "a"}
        d = R.{name}(c, b)
        return d
"""
        return from_source(text)

    with pytest.raises(IRError, match=rf"relax.{name} .*result is not known .*\(n, 3, 4\).*R.match_cast"):
        rx.build(program(False), "llvm")
    machine = runners.VirtualMachine(rx.build(program(True), "llvm"), runners.cpu())
    a, b = np.ones((2, 3, 4), "float32"), np.ones(right, "float32")
    expected = a @ b if name == "matmul" else a + b
    np.testing.assert_array_equal(machine["main"](a, b).numpy(), expected)
    with pytest.raises(runners.RunnerError, match="must have extent 2 on axis 0"):
        machine["main"](np.ones((1, 3, 4), "float32"), b)


@pytest.mark.parametrize("name", ["main", "twice"])
def test_a_function_alone_is_a_module_of_it(name):
    func = from_source(
        """
@R.function
def twice(x: R.Tensor((3,), "float32")):
    return R.add(x, x)
"""
    )
    func = func.without_attr("global_symbol") if name == "main" else func.with_attr("global_symbol", name)
    machine = runners.VirtualMachine(rx.build(func, "llvm"), runners.cpu())
    np.testing.assert_array_equal(machine[name](np.ones(3, "float32")).numpy(), [2, 2, 2])


def test_what_is_no_relax_program_is_refused_with_the_way_out():
    kernel = from_source('@T.prim_func\ndef f(A: T.Buffer((3,), "float32")):\n    A[0] = T.float32(1)\n')
    with pytest.raises(
        IRError, match=r"takes an IRModule or a Relax function, got PrimFunc; ir\.codegen\.build builds"
    ):
        rx.build(kernel, "llvm")
    with pytest.raises(IRError, match="takes an IRModule or a Relax function, got str"):
        rx.build("main", "llvm")


def test_a_model_says_what_its_dot_products_need():
    builder = rx.BlockBuilder()
    x, w = rx.Var("x", TensorStructInfo((8, 64), "int8")), rx.Var("w", TensorStructInfo((64, 32), "int8"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(op.matmul(x, w, out_dtype="int32"))
        builder.emit_func_output(out)
    mod = builder.finalize()
    needs = {
        cpu: rx.build(mod, f"llvm -mcpu={cpu}").metadata["target"]["features"]
        for cpu in ("znver4", "alderlake", "skylake-avx512")
    }
    assert "avx512vnni" in needs["znver4"] and "avxvnni" in needs["alderlake"]
    assert not any("vnni" in item for item in needs["skylake-avx512"])


def test_a_model_says_which_dot_products_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a processor that has none of them, they would end the process."""
    builder = rx.BlockBuilder()
    x = rx.Var("x", TensorStructInfo((4, 64), "int8"))
    weight = rx.const(RNG.integers(-128, 128, (64, 32)).astype("int8"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(op.matmul(x, weight, out_dtype="int32"))
        builder.emit_func_output(out)
    executable = rx.build(builder.finalize(), "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu")
    assert "avx512vnni" in executable.metadata["target"]["features"]
    has = dict.fromkeys(compile.llvm.get_host_cpu_features(), True) | {"avx512vnni": False}
    monkeypatch.setattr(compile.llvm, "get_host_cpu_features", lambda: has)
    with pytest.raises(compile.CodegenError, match="needs avx512vnni"):
        runners.VirtualMachine(executable)["main"](np.zeros((4, 64), "int8"))


def test_functions_whose_names_differ_in_what_c_does_not_allow(tmp_path) -> None:
    """Each runs its own code, from memory and from a library."""
    info = TensorStructInfo((3,), "float32")
    names = ["f.a", "f_a", "f a", "größe", "gr__e", "native_f_a", "last_error", "F_A"]
    builder = rx.BlockBuilder()
    for number, name in enumerate(names):
        x = rx.Var("x", info)
        with builder.function(name, [x], attrs={"global_symbol": name}):
            builder.emit_func_output(builder.emit(rx.op.add(x, rx.const(np.float32(number)))))
    executable = rx.build(builder.finalize(), "llvm")
    executable.export_library(tmp_path / "libnames.so")
    for item in (executable, runners.load_module(tmp_path / "libnames.so")):
        vm = runners.VirtualMachine(item, runners.cpu())
        found = [vm[name](np.zeros(3, "float32")).numpy()[0] for name in names]
        assert found == list(range(len(names)))
