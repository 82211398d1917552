"""Object files in the memory of a process, however much else is there."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from ir.codegen.build import build
from ir.codegen.error import CodegenError
from ir.codegen.llvm.compile import emit_object, optimize
from ir.codegen.llvm.loaded_object import LoadedObject, symbol_exists
from ir.codegen.llvm.runtime import runtime
from ir.script import from_source

# Gigabytes of reserved addresses, with holes of a few pages between them: what is asked for page by page comes to lie far apart.
_FAR_APART = """
import ctypes, mmap
import numpy as np
from ir.codegen.build import build
from ir.script import from_source

def kernel(factor):
    return from_source(f'''
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.parallel(64):
        B[i] = T.exp(A[i]) * T.float32({factor})
''')

modules = [build(kernel(factor), "cpu") for factor in range(8)]
c = ctypes.CDLL(None)
c.mmap.restype, c.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
c.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
NOTHING, NORESERVE = 0, 0x4000
def reserve(size):
    return c.mmap(None, size, NOTHING, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE, -1, 0)
a, b = np.ones(64, "float32"), np.zeros(64, "float32")
modules[0]["main"](a, b)  # whatever Python loads for this is there now
FAR = (3 << 30) + mmap.PAGESIZE  # a multiple of huge pages would be aligned to them
first, size = reserve(FAR), 1 << 30
while size >= mmap.PAGESIZE:  # what is free above the first is filled up
    place = reserve(size)
    if place < first:
        c.munmap(place, size)
        size //= 2
holes = []
for pages in (1, 2, 3, 4, 8) * 60:
    reserve(FAR)
    holes.append((reserve(pages * mmap.PAGESIZE), pages * mmap.PAGESIZE))
reserve(FAR)
for hole in holes:
    c.munmap(*hole)
for factor, module in enumerate(modules):
    module["main"](a, b)
    assert abs(b - np.e * factor).max() < 1e-4
print("right")
"""


def test_a_process_may_have_gigabytes_between_the_pages_that_are_free() -> None:
    ran = subprocess.run([sys.executable, "-c", _FAR_APART], capture_output=True, text=True, check=False)
    assert ran.stdout == "right\n", (ran.returncode, ran.stderr[-2000:])


def test_objects_are_linked_to_each_other() -> None:
    user = emit_object(
        optimize(
            "declare i32 @give()\ndefine i32 @use() {\n %a = call i32 @give()\n %b = add i32 %a, 1\n ret i32 %b\n}"
        )
    )
    giver = emit_object(optimize("define i32 @give() {\n ret i32 41\n}"))
    loaded = LoadedObject(user, giver)
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(loaded.address("use"))() == 42


def test_two_objects_may_define_the_same_name() -> None:
    both = [
        LoadedObject(emit_object(optimize(f"define i32 @one() {{\n ret i32 {value}\n}}"))) for value in (1, 2)
    ]
    assert [ctypes.CFUNCTYPE(ctypes.c_int32)(item.address("one"))() for item in both] == [1, 2]


def test_a_symbol_that_is_not_there_is_named() -> None:
    loaded = LoadedObject(emit_object(optimize("define i32 @one() {\n ret i32 1\n}")))
    with pytest.raises(CodegenError, match="no symbol 'two'"):
        loaded.address("two")
    with pytest.raises(CodegenError, match="calls missing_function, which this process does not have"):
        LoadedObject(
            emit_object(
                optimize(
                    "declare void @missing_function()\ndefine void @f() {\n call void @missing_function()\n ret void\n}"
                )
            )
        )


def test_what_is_no_object_file_is_refused() -> None:
    with pytest.raises(CodegenError, match="cannot load"):
        LoadedObject(b"no object").address("f")


def test_symbols_of_the_runtime_and_of_the_system_exist() -> None:
    runtime()
    assert symbol_exists("loopsmith_parallel_for")
    assert symbol_exists("malloc")
    assert not symbol_exists("no_such_function_anywhere")


@pytest.mark.parametrize("name", ["fmodf", "memset", "exp", "__dso_handle", "__truncsfhf2"])
def test_a_kernel_may_be_called_as_what_llvm_calls(name: str) -> None:
    func = from_source(f"""
@T.prim_func
def {name}(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float16")):
    for i in range(64):
        B[i] = T.truncmod(A[i], T.float32(0.3))
        C[i] = T.Cast("float16", A[i])
""")
    a, b, c = np.linspace(0, 1, 64, dtype="float32"), np.ones(64, "float32"), np.ones(64, "float16")
    for target in ("cpu", "llvm -mcpu=x86-64"):
        build(func, target)[name](a, b, c)
        np.testing.assert_array_equal(b, np.fmod(a, np.float32(0.3)))
        np.testing.assert_array_equal(c, a.astype("float16"))


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_another_system_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    code = emit_object(optimize("define i32 @one() {\n ret i32 1\n}"))
    monkeypatch.setattr("sys.platform", system)
    with pytest.raises(CodegenError, match=f"run on Linux, from ELF object files; this is {system}"):
        LoadedObject(code)
