"""build: calling, checking arguments, symbolic shapes, saving, exporting, and the C side."""

from __future__ import annotations

import ctypes
import pickle
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ir
from ir import IRModule, te, tir
from ir import dtype as dt
from ir.codegen.build import KernelError, NativeModule, build
from ir.codegen.error import CodegenError
from ir.conversion import round_float
from ir.script import tir as T
from runners.native import build_native
from schedules import Schedule


@T.prim_func
def add(a: T.handle, b: T.handle, c: T.handle, scale: T.float32):
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    C = T.match_buffer(c, (n, 4), "float32")
    for i in T.parallel(n):
        for j in range(4):
            C[i, j] = A[i, j] + B[i, j] * scale


@pytest.fixture(scope="module")
def native() -> NativeModule:
    return build(add)


def arrays(n: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, n, 4), dtype="float32")
    return a, b, np.zeros((n, 4), "float32")


def test_symbolic_extents_come_from_arrays(native: NativeModule) -> None:
    for n in (1, 5, 100):
        a, b, c = arrays(n)
        native["add"](a, b, c, 2.0)
        np.testing.assert_allclose(c, a + b * 2, rtol=1e-6)


def test_a_module_of_one_kernel_is_called_without_its_name(native: NativeModule) -> None:
    a, b, c = arrays()
    native(a, b, c, 2.0)
    np.testing.assert_allclose(c, a + b * 2, rtol=1e-6)


def test_a_module_of_several_kernels_wants_a_name() -> None:
    both = build(
        IRModule(
            {
                "first": add.with_attr("global_symbol", "first"),
                "second": add.with_attr("global_symbol", "second"),
            }
        )
    )
    with pytest.raises(
        KernelError, match=r"2 kernels; name one, as in module\[name\]\(...\), of: first, second"
    ):
        both(*arrays(), 1.0)


def test_wrong_arguments_are_named(native: NativeModule) -> None:
    a, b, c = arrays()
    with pytest.raises(KernelError, match=r"takes 4 arguments \(A, B, C, scale\), got 3"):
        native["add"](a, b, c)
    with pytest.raises(KernelError, match=r"argument B must be float32, got float64; .*astype\('float32'\)"):
        native["add"](a, b.astype("float64"), c, 1)
    with pytest.raises(KernelError, match=r"argument C must have shape \(n=5, 4\), got \(6, 4\)"):
        native["add"](a, b, np.zeros((6, 4), "float32"), 1)
    with pytest.raises(KernelError, match="argument A must be contiguous"):
        native["add"](np.zeros((4, 5), "float32").T, b, c, 1)
    with pytest.raises(KernelError, match="argument A must be an array, got int"):
        native["add"](3, b, c, 1)
    with pytest.raises(KernelError, match="no kernel 'sub'; there are: add"):
        native["sub"]


def test_dlpack_arguments_are_not_copied(native: NativeModule) -> None:
    torch = pytest.importorskip("torch")
    a, b, c = (torch.from_numpy(x) for x in arrays())
    native["add"](a, b, c, 1.0)
    torch.testing.assert_close(c, a + b)


def test_a_module_travels_between_processes(native: NativeModule) -> None:
    copy = pickle.loads(pickle.dumps(native))
    a, b, c = arrays()
    copy["add"](a, b, c, 1.0)
    np.testing.assert_allclose(c, a + b)


def test_several_functions_in_one_module() -> None:
    x = te.placeholder((8,), name="x")
    double = te.create_prim_func([x, te.compute((8,), lambda i: x[i] * 2.0, "y")])
    square = te.create_prim_func([x, te.compute((8,), lambda i: x[i] * x[i], "y")])
    module = build(
        IRModule(
            {"double": double.without_attr("global_symbol"), "square": square.without_attr("global_symbol")}
        )
    )
    assert sorted(module.functions()) == ["double", "square"]
    data, out = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    module["double"](data, out)
    np.testing.assert_array_equal(out, data * 2)
    module["square"](data, out)
    np.testing.assert_array_equal(out, data * data)


def test_inspection(native: NativeModule) -> None:
    assert "define i32 @add(" in native.llvm_ir
    assert "add:" in native.assembly
    assert native.entry_pointer("add") == native["add"].address


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def test_an_array_that_a_kernel_writes_must_be_writeable(native: NativeModule) -> None:
    """Inputs may be read-only, also those of parallel loops, whose bodies become functions of their own."""
    a, b, c = arrays()
    native["add"](_read_only(a), _read_only(b), c, 1.0)
    np.testing.assert_allclose(c, a + b)
    before = c.copy()
    with pytest.raises(KernelError, match="add: argument C is written, but the array is read-only"):
        native["add"](a, b, _read_only(c), 3.0)
    with pytest.raises(KernelError, match=r"add: argument A has masked elements.*filled\(0\)"):
        native["add"](np.ma.masked_less(a, a.max()), b, c, 3.0)
    np.testing.assert_array_equal(c, before)


def test_a_bound_call_is_refused_when_it_is_bound() -> None:
    kernel = build_native(IRModule({"main": main}), "cpu")
    a, b = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    kernel.bind(_read_only(a), b)()
    np.testing.assert_array_equal(b, a + 1)
    with pytest.raises(KernelError, match="main: argument b is written"):
        kernel.bind(a, _read_only(b))


def test_an_untyped_pointer_that_is_written_must_be_writeable_and_a_call_is_no_store() -> None:
    @T.prim_func
    def through_pointer(p: T.handle, A: T.Buffer((4,), "float32")):
        B = T.decl_buffer((4,), "float32", data=p)
        B[0] = A[0]

    @T.prim_func
    def only_calls(A: T.Buffer((4,), "float32")):
        T.evaluate(T.call_extern("int32", "abs", T.Cast("int32", A[0])))

    a = _read_only(np.full(4, -1, "float32"))
    build(only_calls)["only_calls"](a)
    with pytest.raises(KernelError, match="argument p is written"):
        build(through_pointer)["through_pointer"](_read_only(np.zeros(4, "float32")), a)


def test_export_and_call_through_ctypes(native: NativeModule, tmp_path: Path) -> None:
    native.export_library(tmp_path / "add.so", header=tmp_path / "add.h")
    library = ctypes.CDLL(str(tmp_path / "add.so"))
    a, b, c = arrays()
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
    assert library.add(*pointers, ctypes.c_float(3), ctypes.c_int64(5)) == 0
    np.testing.assert_allclose(c, a + b * 3, rtol=1e-6)
    library.loopsmith_set_num_threads(1)
    assert library.loopsmith_get_num_threads() == 1
    header = (tmp_path / "add.h").read_text()
    assert "int32_t add(void* A, void* B, void* C, float scale, int64_t n);" in header


def test_call_from_a_c_program(native: NativeModule, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    native.export_library(tmp_path / "libadd.so", header=tmp_path / "add.h")
    (tmp_path / "main.c").write_text(
        '#include "add.h"\n#include <stdio.h>\n'
        "int main(void) {\n"
        "  float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8] = {1, 1, 1, 1, 1, 1, 1, 1}, c[8];\n"
        "  if (add(a, b, c, 0.5f, 2) != 0) { puts(loopsmith_last_error()); return 1; }\n"
        '  for (int i = 0; i < 8; ++i) printf("%g ", c[i]);\n'
        "  return 0;\n}\n"
    )
    command = [compiler, "main.c", "-o", "main", "-L.", "-ladd", "-Wl,-rpath,."]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1.5", "2.5", "3.5", "4.5", "5.5", "6.5", "7.5", "8.5"]


@T.prim_func
def main(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
    for i in range(4):
        b[i] = a[i] + T.float32(1)


def test_a_kernel_called_main_is_called_from_a_c_program(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    native = build(IRModule({"main": main, "double": add.with_attr("global_symbol", "double")}))
    a, b = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    native["main"](a, b)
    np.testing.assert_array_equal(b, a + 1)
    native.export_library(tmp_path / "libmain.so", header=tmp_path / "kernels.h")
    header = (tmp_path / "kernels.h").read_text()
    assert "int32_t loopsmith_main(void* a, void* b);" in header
    assert "int32_t loopsmith_double(" in header
    (tmp_path / "main.c").write_text(
        '#include "kernels.h"\n#include <stdio.h>\n'
        "int main(void) {\n"
        "  float a[4] = {1, 2, 3, 4}, b[4];\n"
        "  if (loopsmith_main(a, b) != 0) return 1;\n"
        '  for (int i = 0; i < 4; ++i) printf("%g ", b[i]);\n'
        "  return 0;\n}\n"
    )
    command = [compiler, "-Wall", "-Werror", "main.c", "-o", "main", "-L.", "-lmain", "-Wl,-rpath,."]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "3", "4", "5"]


def test_saved_object_is_an_object_file(native: NativeModule, tmp_path: Path) -> None:
    native.save_object(tmp_path / "add.o")
    assert (tmp_path / "add.o").read_bytes()[:4] == b"\x7fELF"


def test_library_with_python_calls_is_refused(tmp_path: Path) -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.evaluate(T.call_packed("my.function", T.address_of(A[0])))

    module = build(main)
    with pytest.raises(CodegenError, match=r"my\.function"):
        module.export_library(tmp_path / "x.so")
    with pytest.raises(KernelError, match=r"my\.function"):
        module["main"](np.zeros(4, "float32"))  # nobody registered it


def test_ir_build_and_compile_take_kernels() -> None:
    for compile_function in (ir.build, ir.compile):
        a, b, c = arrays()
        compile_function(add)["add"](a, b, c, 1.0)
        np.testing.assert_allclose(c, a + b)


def test_targets_choose_the_instruction_set() -> None:
    x = te.placeholder((64,), name="x")
    func = te.create_prim_func([x, te.compute((64,), lambda i: x[i] * 2.0, "y")])
    for cpu, register in (("skylake-avx512", "zmm"), ("haswell", "ymm")):
        module = build(func, f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}")
        assert register in module.assembly
        assert cpu == "skylake-avx512" or "zmm" not in module.assembly


@pytest.mark.parametrize("target", ["c", "metal", "rocm"])
def test_what_no_code_is_generated_for_is_refused(target: str) -> None:
    message = f"code for target kind '{ir.target.Target(target).kind.name}' is not generated yet"
    with pytest.raises(CodegenError, match=message):
        build(add, target)
    with pytest.raises(CodegenError, match=message), ir.target.Target(target):
        build(add)
    with pytest.raises(CodegenError, match=message):
        ir.build(add, target)
    with pytest.raises(CodegenError, match=message):
        ir.compile(IRModule({"main": add}), target)


def test_a_processor_is_its_own_host() -> None:
    build(add, ir.target.Target("llvm -mcpu=x86-64-v2", host="llvm -mcpu=x86-64-v2"))
    with pytest.raises(CodegenError, match="a processor is its own host"):
        build(add, ir.target.Target("llvm", host="llvm -mcpu=x86-64-v2"))


def test_vectors_are_no_parameters() -> None:
    result, value = tir.decl_buffer((4,), "int32"), tir.Var("value", "int32x4")
    func = tir.PrimFunc([result, value], tir.BufferStore(result, value, [tir.Ramp(0, 1, 4)]))
    with pytest.raises(CodegenError, match="parameter value of .*int32x4 has no C type; pass a buffer"):
        build(func)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_narrow_floats_are_passed_as_floats(dtype: str) -> None:
    result, value = tir.decl_buffer((1,), dtype), tir.Var("value", dtype)
    native = build(tir.PrimFunc([result, value], tir.BufferStore(result, value, [0])))
    assert "(void* buffer, float value)" in native.header()
    for number in (1 + 2.0**-11 + 2.0**-40, -3.3, float("inf"), 0.0):  # the first one must be rounded once
        stored = np.zeros(1, dt.to_numpy(dtype))
        native["main"](stored, number)
        np.testing.assert_array_equal(stored.astype(float), [round_float(number, dtype)])
    with pytest.raises(KernelError, match=f"argument value must be {dtype}, got 1e\\+39"):
        native["main"](stored, 1e39)


@pytest.mark.parametrize("program", ["main", None])
def test_what_is_no_program_is_named(program: object) -> None:
    with pytest.raises(CodegenError, match="build takes a PrimFunc or an IRModule, got"):
        build(program, "cpu")  # type: ignore[arg-type]


def test_what_is_bound_to_threads_is_named_with_the_ways_out() -> None:
    x = te.placeholder((64,), name="x")
    sch = Schedule(te.create_prim_func([x, te.compute((64,), lambda i: x[i] + 1.0, name="y")]))
    with pytest.raises(CodegenError, match="got Schedule; its program is .mod"):
        build(sch, "cpu")  # type: ignore[arg-type]
    sch.bind(sch.get_loops("y")[0], "threadIdx.x")
    with pytest.raises(
        CodegenError, match="bound to threadIdx.x .* the target cuda, or schedule with parallel"
    ):
        build(sch.mod, "cpu")
