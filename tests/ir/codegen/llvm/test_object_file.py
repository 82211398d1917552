"""What object files need: LLVM's own calls are found before the loader ends the process."""

from __future__ import annotations

import pytest

from ir.codegen.error import CodegenError
from ir.codegen.llvm.compile import MachineOptions, emit_object, optimize
from ir.codegen.llvm.loaded_object import LoadedObject
from ir.codegen.llvm.object_file import code_bytes, symbols

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


def test_symbols_that_others_do_not_see_are_not_told() -> None:
    own = "define internal i32 @own() noinline {\n ret i32 1\n}\n"
    hidden = "define hidden i32 @hidden() {\n ret i32 2\n}\n"
    main = "define i32 @main() {\n %a = call i32 @own()\n ret i32 %a\n}"
    assert symbols(emit_object(optimize(own + hidden + main, level=0))).defined == ["main"]


def test_symbols_of_an_object_file() -> None:
    found = symbols(emit_object(optimize(CALLS)))
    assert found.undefined == ["somewhere"] and found.defined == ["main"]
    assert symbols(b"MZ and so on").undefined == []


def test_functions_that_llvm_calls_by_itself_are_found() -> None:
    assert symbols(emit_object(optimize(TO_HALF, PLAIN), PLAIN)).undefined == ["__truncsfhf2"]


def test_code_that_needs_a_missing_function_is_refused_before_the_process_ends() -> None:
    with pytest.raises(CodegenError, match="this machine calls somewhere, which this process does not have"):
        LoadedObject(emit_object(optimize(CALLS)))


def test_objects_may_define_what_others_use() -> None:
    other = emit_object(optimize("define void @somewhere(i32 %x) {\n ret void\n}"))
    assert LoadedObject(emit_object(optimize(CALLS)), other).address("main")


def test_bytes_of_instructions_are_those_of_the_functions() -> None:
    small, large = ("%y = add i32 %x, 1", "\n".join(f"%y{i} = call i32 @g{i}(i32 %x)" for i in range(40)))
    declared = "\n".join(f"declare i32 @g{i}(i32)" for i in range(40))
    sizes = [
        code_bytes(
            emit_object(optimize(f"{declared}\ndefine void @f(i32 %x) {{\n{body}\nret void\n}}", level=0))
        )
        for body in (small, large)
    ]
    assert sizes[0] is not None and sizes[1] is not None
    assert sizes[0] < 32 < 40 * 5 <= sizes[1] < 40 * 20  # a call has at least five bytes
    data = "@table = constant [4096 x i32] zeroinitializer\ndefine void @f(i32 %x) {\nret void\n}"
    constants = code_bytes(emit_object(optimize(data, level=0)))
    assert constants is not None and constants < 32
    assert code_bytes(b"MZ and so on") is None
