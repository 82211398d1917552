"""Native modules as bytes: the other process has the same functions, and forged descriptions are errors."""

from __future__ import annotations

import subprocess
import sys
import zlib

import numpy as np
import pytest

from ir.codegen.build import NativeModule, build
from ir.codegen.container import ContainerError, pack, unpack
from ir.codegen.error import CodegenError
from ir.codegen.native_code import packed_native, unpacked_native
from ir.script import tir as T


@T.prim_func
def scale(a: T.handle, b: T.handle, factor: T.float32):
    n = T.int64()
    A = T.match_buffer(a, (n * 2, 4), "float32", strides=(8, 1))
    B = T.match_buffer(b, (n, 4), "float32")
    for i, j in T.grid(n, 4):
        B[i, j] = A[i, j] * factor


@pytest.fixture(scope="module")
def module() -> NativeModule:
    return build(scale)


@pytest.fixture(scope="module")
def data(module: NativeModule) -> bytes:
    return packed_native(module)


def test_everything_is_the_same(module: NativeModule, data: bytes) -> None:
    found = unpacked_native(data)
    for name in ("signatures", "options", "externals", "code", "llvm_ir", "scratch_bytes", "scalar_loops"):
        assert getattr(found, name) == getattr(module, name), name
    assert found.features == module.features and packed_native(found) == data


def test_another_process_runs_it(data: bytes, tmp_path) -> None:
    """One that has nothing of this one: it reads a file."""
    (tmp_path / "kernel").write_bytes(data)
    text = """
import sys, numpy as np
from pathlib import Path
from ir.codegen.native_code import unpacked_native
a = np.arange(64, dtype="float32").reshape(8, 8)[:6, :4]
b = np.zeros((3, 4), "float32")
unpacked_native(Path(sys.argv[1]).read_bytes())["scale"](a, b, 2.0)
print(b.tolist())
"""
    command = [sys.executable, "-c", text, str(tmp_path / "kernel")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expected = 2 * np.arange(64, dtype="float32").reshape(8, 8)[:3, :4]
    assert shown.strip() == str(expected.tolist())


def test_code_that_calls_python_stays() -> None:
    @T.prim_func
    def calls(A: T.Buffer((1,), "int32")):
        A[0] = T.call_packed("tests.nobody", 1, dtype="int32")

    with pytest.raises(CodegenError, match="tests.nobody"):
        packed_native(build(calls))


def _changed(data: bytes, **changes: object) -> bytes:
    described, sections = unpack(data)
    return pack({**described, **changes}, sections)


def _with_parameter(data: bytes, **changes: object) -> bytes:
    described, sections = unpack(data)
    described["signatures"][0]["parameters"][0].update(changes)
    return pack(described, sections)


@pytest.mark.parametrize(
    "forge",
    [
        lambda data: pack({}, []),
        lambda data: _changed(data, kind="cuda"),
        lambda data: _changed(data, options={"triple": "", "unknown": 1}),
        lambda data: _changed(data, options=None),
        lambda data: _changed(data, signatures=[{}]),
        lambda data: _changed(data, signatures=3),
        lambda data: _changed(data, externals=None),
        lambda data: _changed(data, scratch_bytes="many"),
        lambda data: _with_parameter(data, shape=[["*", "n"]]),
        lambda data: _with_parameter(data, shape=[["exec", "n", 1]]),
        lambda data: _with_parameter(data, shape=[1.5]),
        lambda data: _with_parameter(data, shape=[[["*"], "n", 2]]),
        lambda data: _with_parameter(data, offset=None),
        lambda data: pack(unpack(data)[0], unpack(data)[1][:1]),
        lambda data: pack(unpack(data)[0], [unpack(data)[1][0], b"not compressed"]),
    ],
)
def test_forged_descriptions_are_errors(data: bytes, forge) -> None:
    with pytest.raises(ContainerError):
        unpacked_native(forge(data))


@pytest.mark.parametrize("text", [zlib.compress(b"x" * 2048), zlib.compress(b"x" * 900)[:-6]])
def test_assembly_that_unfolds_to_too_much_or_is_cut_is_refused(
    text: bytes, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    described, (code, _) = unpack(data)
    monkeypatch.setattr("ir.codegen.native_code._MOST_TEXT", 1024)
    with pytest.raises(ContainerError, match="cut short, or too long"):
        unpacked_native(pack(described, [code, text]))
