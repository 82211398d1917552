"""What object files need: LLVM's own calls are found before the loader ends the process."""

from __future__ import annotations

import pytest

from ir.codegen.llvm.compile import CodegenError, LoadedObject, MachineOptions, emit_object, optimize
from ir.codegen.llvm.object_file import symbols

CALLS = """declare void @somewhere(i32)
declare extern_weak void @perhaps()
define void @main(i32 %x) {
  %there = icmp ne ptr @perhaps, null
  %y = zext i1 %there to i32
  %z = add i32 %x, %y
  tail call void @somewhere(i32 %z)
  ret void
}"""
TO_HALF = "define half @f(float %x) {\n %y = fptrunc float %x to half\n ret half %y\n}"
PLAIN = MachineOptions(cpu="x86-64")


def test_symbols_of_an_object_file() -> None:
    found = symbols(emit_object(optimize(CALLS)))
    assert found.undefined == ["somewhere"] and "main" in found.defined
    assert symbols(b"MZ and so on").undefined == []


def test_functions_that_llvm_calls_by_itself_are_found() -> None:
    assert symbols(emit_object(optimize(TO_HALF, PLAIN), PLAIN)).undefined == ["__truncsfhf2"]


def test_code_that_needs_a_missing_function_is_refused_before_the_process_ends() -> None:
    with pytest.raises(CodegenError, match="this machine calls somewhere, which this process does not have"):
        LoadedObject(emit_object(optimize(CALLS)))


def test_objects_may_define_what_others_use() -> None:
    other = emit_object(optimize("define void @somewhere(i32 %x) {\n ret void\n}"))
    assert LoadedObject(emit_object(optimize(CALLS)), other).address("main")
