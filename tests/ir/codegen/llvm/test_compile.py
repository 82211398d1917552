"""Compiling, loading and linking of assembly text, and the messages when it goes wrong."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from ir.codegen.build import build
from ir.codegen.error import CodegenError
from ir.codegen.llvm import compile as native
from ir.codegen.llvm.loaded_object import LoadedObject
from ir.script import tir as T
from ir.target import Target

TEXT = """
define i32 @twice(i32 %x) {
  %y = shl i32 %x, 1
  ret i32 %y
}
define i32 @hidden(i32 %x) noinline {
  ret i32 %x
}
"""


def test_loaded_code_runs() -> None:
    loaded = LoadedObject(native.emit_object(native.optimize(TEXT)))
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(loaded.address("twice"))(21) == 42
    with pytest.raises(CodegenError, match="no symbol 'thrice'"):
        loaded.address("thrice")


def test_shared_library_exports_what_was_asked(tmp_path: Path) -> None:
    path = tmp_path / "twice.so"
    native.link_shared_library([native.emit_object(native.optimize(TEXT))], path, export=["twice"])
    library = ctypes.CDLL(str(path))
    assert library.twice(4) == 8
    with pytest.raises(AttributeError):
        library.hidden


def test_bad_assembly_is_quoted() -> None:
    with pytest.raises(CodegenError, match="rejects the generated code"):
        native.optimize("define i32 @f() { ret i32 %nothing }")


def test_missing_linker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPSMITH_LINKER", "no-such-linker")
    with pytest.raises(CodegenError, match="no-such-linker"):
        native.link_shared_library([], tmp_path / "x.so")


def test_a_linker_that_fails_is_quoted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CodegenError, match=r"linking .*x\.so with .* failed[^\n]*\n.*part0\.o"):
        native.link_shared_library([b"no object"], tmp_path / "x.so")
    assert capfd.readouterr().err == ""


def test_unknown_triple_is_named() -> None:
    with pytest.raises(CodegenError, match="quux"):
        native.target_machine(native.MachineOptions(triple="quux-none-none"))


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("llvm -mcpu=znver99", "'znver99' is not a recognized processor"),
        ("llvm -mcpu=znver4 -mattr=+avx2,+warp", "'\\+warp' is not a recognized feature"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=znver4", "'znver4' is not .* \\(aarch64-linux-gnu\\)"),
    ],
)
def test_a_processor_or_feature_that_llvm_does_not_know_is_refused(
    target: str, named: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """LLVM itself would go on with the oldest processor, or end the process."""
    with pytest.raises(CodegenError, match=named):
        native.target_machine(native.options_of(Target(target)))
    assert capfd.readouterr().err == ""


def test_what_others_write_while_llvm_is_asked_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    with native._llvm_complaints() as complaints:
        os.write(
            2, b"one line\n'x' is not a recognized processor for this target (ignoring processor)\nanother"
        )
    assert complaints == ["'x' is not a recognized processor for this target"]
    assert capfd.readouterr().err == "one line\nanother"


def test_assembly_of_the_host_uses_its_widest_fma() -> None:
    text = """
declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)
define void @f(ptr %p) {
  %x = load <16 x float>, ptr %p
  %y = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %x, <16 x float> %x, <16 x float> %x)
  store <16 x float> %y, ptr %p
  ret void
}
"""
    options = native.MachineOptions(triple="x86_64-unknown-linux-gnu", cpu="znver4")
    assert "zmm" in native.emit_assembly(native.optimize(text, options), options)


def test_the_calling_convention_is_that_of_the_target() -> None:
    def flags(abi: str) -> int:
        options = native.options_of(Target(f"llvm -mtriple=riscv64-linux-gnu -mattr=+d -mabi={abi}"))
        code = native.emit_object(
            native.optimize("define double @f(double %x) { ret double %x }", options), options
        )
        return int.from_bytes(code[48:52], "little")  # e_flags of the ELF header

    assert flags("lp64") & 6 == 0 and flags("lp64d") & 6 == 4


def test_threads_that_call_a_kernel_for_the_first_time_at_once() -> None:
    program = """
import threading
import numpy as np
from ir.codegen.build import build
from ir.script import from_source
source = '''@T.prim_func
def main(A: T.Buffer((4096,), "float32"), O: T.Buffer((4096,), "float32")):
    for i in range(4096):
        O[i] = A[i] + T.float32(1)
'''
a = np.arange(4096, dtype="float32")
wrong = []
def work(kernels, start):
    out = np.zeros_like(a)
    start.wait()
    for _ in range(20):
        kernels["main"](a, out)
    if not (out == a + 1).all():
        wrong.append(out)
for _ in range(4):
    kernels, start = build(from_source(source)), threading.Barrier(8)
    threads = [threading.Thread(target=work, args=(kernels, start)) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
assert not wrong
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("features", ["avx2", "+avx2,fma"])
def test_features_have_signs(features: str) -> None:
    with pytest.raises(CodegenError, match=r"-mattr takes features with a sign.*\+"):
        native.options_of(Target(f"llvm -mattr={features}"))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("llvm -mtriple=riscv64-linux-gnu", "code for riscv64 processors does not run on this one"),
        ("llvm -mcpu=x86-64-v3 -mattr=+not-there", "needs not-there, which this processor"),
    ],
)
def test_code_for_another_processor_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch, target: str, message: str
) -> None:
    """It would end the process with a signal."""
    has = {**native.llvm.get_host_cpu_features(), "not-there": False}
    monkeypatch.setattr(native.llvm, "get_host_cpu_features", lambda: has)
    with pytest.raises(CodegenError, match=message):
        LoadedObject(options=native.options_of(Target(target)))


def test_a_processor_without_its_vectors_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    has = {**native.llvm.get_host_cpu_features(), "avx512vl": False}
    monkeypatch.setattr(native.llvm, "get_host_cpu_features", lambda: has)
    with pytest.raises(CodegenError, match="code for sapphirerapids needs .*avx512vl"):
        native.require_host(native.MachineOptions(triple="x86_64-linux-gnu", cpu="sapphirerapids"))
    native.require_host(native.MachineOptions(triple=native.host_info().triple))


def test_which_machines_multiply_and_add_in_one_operation() -> None:
    fused = {
        cpu: native.has_fused_instructions(native.MachineOptions(cpu=cpu)) for cpu in ("nehalem", "x86-64-v3")
    }
    assert fused == {"nehalem": False, "x86-64-v3": True}
    assert not native.has_fused_instructions(native.MachineOptions(cpu="x86-64-v3", features="-fma"))


def test_which_machines_multiply_by_powers_of_two_in_one_operation() -> None:
    scaled = {
        cpu: native.has_scaling_instruction(native.MachineOptions(cpu=cpu))
        for cpu in ("x86-64-v3", "x86-64-v4")
    }
    assert scaled == {"x86-64-v3": False, "x86-64-v4": True}
    assert not native.has_scaling_instruction(native.MachineOptions(triple="aarch64-linux-gnu"))


def test_exponentials_are_scaled_in_one_operation_where_there_is_one() -> None:
    @T.prim_func
    def main(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):  # type: ignore[no-untyped-def]
        for i in range(128):
            for j in T.vectorized(32):
                B[i * 32 + j] = T.exp(A[i * 32 + j])

    scaled = {
        cpu: build(main, Target(f"llvm -mcpu={cpu}")).assembly.count("vscalefps")
        for cpu in ("x86-64-v3", "x86-64-v4")
    }
    assert scaled == {"x86-64-v3": 0, "x86-64-v4": 2}


_WITHOUT_LOCK = """
import llvmlite.binding as llvm
inner = llvm.ffi.lib

class Library:
    def __getattr__(self, name):
        if name == "_lock":
            raise AttributeError(name)
        return getattr(inner, name)

llvm.ffi.lib = Library()
import os, threading
import numpy as np
from ir.codegen.build import build
from ir.codegen.llvm.compile import LLVM_LOCK
from ir.script.parser import from_source

assert LLVM_LOCK is not inner._lock
func = from_source('''
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    for i in range(4):
        A[i] = A[i] * T.float32(2)
''')

def run():
    a = np.ones(4, "float32")
    build(func, "cpu")["main"](a)
    assert (a == 2).all()

threads = [threading.Thread(target=run) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
child = os.fork()
if not child:
    run()
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_a_llvmlite_without_its_lock_compiles_in_threads_and_in_children() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _WITHOUT_LOCK], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.stdout == "0\n", ran.stderr[-2000:]


def test_the_lock_of_llvmlite_is_taken_where_there_is_one() -> None:
    own = threading.RLock()
    assert native.lock_of_llvmlite(SimpleNamespace(_lock=own)) is own
    for library in (SimpleNamespace(), SimpleNamespace(_lock=None), SimpleNamespace(_lock=3)):
        with native.lock_of_llvmlite(library):
            pass
