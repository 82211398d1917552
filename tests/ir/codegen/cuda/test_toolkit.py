"""Where the parts of the CUDA toolkit are found: wheels, a folder that is named, the system."""

from __future__ import annotations

import ctypes
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from ir.codegen.cuda import toolkit as module
from ir.codegen.cuda.disassemble import disassemble
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.codegen.cuda.toolkit import Toolkit, toolkit
from ir.codegen.error import CodegenError, CudaToolkitError


def _files(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    return root


@pytest.fixture
def nothing_installed(monkeypatch):
    """A machine without any part, whose toolkit is looked for again."""

    def no_library(name: str) -> None:
        raise OSError(f"{name}: no such file")

    monkeypatch.setattr(module, "_wheel_folders", list)
    monkeypatch.setattr(ctypes, "CDLL", no_library)
    monkeypatch.setenv("PATH", "")
    for name in ("CUDA_PATH", "CUDA_HOME"):
        monkeypatch.delenv(name, raising=False)
    toolkit.cache_clear()
    yield
    toolkit.cache_clear()


@pytest.mark.usefixtures("nothing_installed")
def test_without_a_compiler_the_error_says_what_to_install():
    with pytest.raises(
        CudaToolkitError, match=r"pip install 'loopsmith\[cuda\]', or set CUDA_PATH"
    ) as raised:
        toolkit()
    assert isinstance(raised.value, CodegenError)


@pytest.mark.usefixtures("nothing_installed")
def test_wheels_of_cuda_12_and_13_have_their_own_folders(monkeypatch, tmp_path):
    twelve = _files(
        tmp_path / "12",
        "cuda_nvrtc/lib/libnvrtc.so.12",
        "cuda_nvrtc/lib/libnvrtc-builtins.so.12.9",
        "cuda_runtime/include/cuda_fp16.h",
        "cuda_nvcc/include/crt/mma.h",
    )
    thirteen = _files(tmp_path / "13", "cu13/lib/libnvrtc.so.13", "cu13/include/cuda_fp16.h")
    monkeypatch.setattr(module, "_wheel_folders", lambda: [twelve])
    found = toolkit()
    assert found.nvrtc == str(twelve / "cuda_nvrtc/lib/libnvrtc.so.12")
    assert found.include_folders == (twelve / "cuda_runtime/include", twelve / "cuda_nvcc/include")
    assert found.has_headers
    toolkit.cache_clear()
    monkeypatch.setattr(module, "_wheel_folders", lambda: [thirteen])
    assert toolkit().nvrtc == str(thirteen / "cu13/lib/libnvrtc.so.13")


@pytest.mark.usefixtures("nothing_installed")
def test_a_library_with_headers_goes_before_one_without(monkeypatch, tmp_path):
    bare = _files(tmp_path / "wheels", "cuda_nvrtc/lib/libnvrtc.so.12")
    whole = _files(
        tmp_path / "cuda", "lib64/libnvrtc.so.13", "lib64/libnvrtc.so.13.0.48", "include/cuda_fp16.h"
    )
    monkeypatch.setattr(module, "_wheel_folders", lambda: [bare])
    assert toolkit() == Toolkit(str(bare / "cuda_nvrtc/lib/libnvrtc.so.12"), (), ())
    toolkit.cache_clear()
    monkeypatch.setenv("CUDA_PATH", str(whole))
    assert Path(toolkit().nvrtc).parent == whole / "lib64"
    assert toolkit().include_folders == (whole / "include",)


@pytest.mark.usefixtures("nothing_installed")
def test_the_loaders_library_has_the_headers_beside_the_compiler(monkeypatch, tmp_path):
    root = _files(tmp_path / "cuda", "include/cuda_fp16.h", "bin/nvcc")
    (root / "bin/nvcc").chmod(0o755)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert toolkit().include_folders == ()
    toolkit.cache_clear()
    monkeypatch.setenv("PATH", str(root / "bin"))
    assert toolkit() == Toolkit("libnvrtc.so.13", (root / "include",), ())


@pytest.mark.usefixtures("nvrtc")
def test_a_program_that_needs_headers_says_that_they_are_not_installed(monkeypatch):
    bare = replace(toolkit(), include_folders=())
    monkeypatch.setattr("ir.codegen.cuda.nvrtc.toolkit", lambda: bare)
    with pytest.raises(
        CodegenError, match=r"headers of CUDA are not installed: pip install 'loopsmith\[cuda\]'"
    ):
        compile_cuda("#include <cuda_fp16.h>", "sm_80")


def _program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_programs_are_found_beside_the_library_before_path(monkeypatch, tmp_path):
    _program(tmp_path / "beside", "ptxas", "")
    _program(tmp_path / "path", "ptxas", "")
    _program(tmp_path / "path", "nvdisasm", "")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    found = Toolkit("unused", (), (tmp_path / "beside",))
    assert found.program("ptxas") == tmp_path / "beside/ptxas"
    assert found.program("nvdisasm") == tmp_path / "path/nvdisasm"
    assert found.program("cuobjdump") is None


def test_machine_code_is_shown_by_the_disassembler_that_is_there(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "ir.codegen.cuda.disassemble.toolkit", lambda: Toolkit("unused", (), (tmp_path / "bin",))
    )
    monkeypatch.setenv("PATH", os.defpath)
    (tmp_path / "bin").mkdir()
    with pytest.raises(CudaToolkitError, match="neither nvdisasm nor cuobjdump is installed; pip install"):
        disassemble(b"\x7fELF")
    _program(tmp_path / "bin", "cuobjdump", 'echo "$1"; cat "$2"')
    assert disassemble(b"the code") == "--dump-sass\nthe code"
    _program(tmp_path / "bin", "nvdisasm", "echo truncated >&2; exit 1")
    with pytest.raises(CodegenError, match="nvdisasm does not read the cubin: truncated"):
        disassemble(b"the code")
