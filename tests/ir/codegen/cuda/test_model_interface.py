"""The C interface of models for CUDA devices as LLVM assembly: what calls it is in tests/runners/cuda/test_c_libraries.py."""

from __future__ import annotations

import re

import pytest

from ir.codegen.cuda.model_interface import (
    function_symbol,
    interface_prefix,
    interface_symbols,
    interface_text,
    native_functions,
)
from ir.codegen.llvm.compile import MachineOptions, emit_object, optimize
from ir.codegen.llvm.object_file import symbols

X = {"name": 'x"\n', "shape": [3], "dtype": "float32"}
Y = {"name": "y", "shape": [65], "dtype": "float16"}
ENTRY = {"kind": "native", "symbol": "code", "inputs": [X], "outputs": [Y], "workspace_bytes": 4000}
CODE = {
    "arch": "sm_80",
    "kernels": [{"name": "k", "dynamic_shared_bytes": 65536}, {"name": "l", "dynamic_shared_bytes": None}],
    "sizes": [1000, 2000, 3000],
}


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("layer.so", "loopsmith_layer"),
        ("out/liblayer.so.1.2", "loopsmith_layer"),
        ("lib.so", "loopsmith_lib"),
        ("bert-base v2.so", "loopsmith_bert_base_v2"),
        ("é.so", "loopsmith__"),
    ],
)
def test_prefixes_of_libraries(path, prefix):
    assert interface_prefix(path) == prefix


@pytest.mark.parametrize("triple", ["", "aarch64-unknown-linux-gnu"])
@pytest.mark.parametrize("code", [None, CODE])
def test_what_an_object_file_has_for_others_and_needs(triple, code):
    functions = {"main": ENTRY, "b.c": {**ENTRY, "symbol": "more"}, "grow": {"kind": "bytecode"}}
    metadata = {"functions": functions, **({"device_code": code} if code else {})}
    options = MachineOptions(triple=triple)
    text = "@loopsmith_constants = external constant i8\n" + interface_text(metadata, "net", [0, 64], 100)
    found = symbols(emit_object(optimize(text, options), options))
    called = {"create", "destroy", "last_error", "launchv_main", "launchv_b_c", "runv_main", "runv_b_c"}
    assert set(found.defined) == {f"net_{name}" for name in called} == set(interface_symbols(metadata, "net"))
    libc = {"dlopen", "dlsym", "dlclose", "dlerror", "getenv", "calloc", "free", "snprintf", "__tls_get_addr"}
    model = {"loopsmith_constants", "loopsmith_last_error", "code", "more"}
    needed = set(found.undefined) - {"_GLOBAL_OFFSET_TABLE_"}
    assert needed - libc == model | ({"loopsmith_device_code"} if code else set())


def test_the_plan_of_memory():
    text = interface_text({"functions": {"main": ENTRY}, "device_code": CODE}, "net", [0, 64], 100)
    assert "@allocate(ptr %model, ptr %memory.p, i64 4256," in text  # 100 bytes, rounded up to 256, and 4000
    assert "getelementptr i8, ptr %memory, i64 256" in text
    assert "ptr getelementptr (i8, ptr @loopsmith_device_code, i64 1000))" in text
    inputs, outputs = re.findall(r"%array \{ ptr @text\.\d+, (.*?) \}", text)
    assert inputs == "i64 12, i64 0, i32 1" and outputs == "i64 130, i64 256, i32 2"
    assert "i64 512, ptr @text" in text  # where both have copies
    assert not re.search(r'@[A-Z_]+@|\$"', text)


def test_names_of_functions():
    assert function_symbol("net", "run", "a_b") == "net_run_a_b"
    symbols = interface_symbols({"functions": {"a.b": ENTRY, "a_b": ENTRY}}, "net")
    assert symbols[3:] == ["net_launchv_a_b", "net_runv_a_b", "net_launchv_a_b_", "net_runv_a_b_"]
    text = interface_text({"functions": {"a.b": ENTRY, "a_b": ENTRY}, "device_code": CODE}, "net", [0], 100)
    assert all(text.count(f"@{symbol}(") == 1 for symbol in symbols)
    assert list(native_functions({"functions": {"b": ENTRY, "a": ENTRY, "c": {"kind": "bytecode"}}})) == [
        "a",
        "b",
    ]
