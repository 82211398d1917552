"""A model's kernels on a device: code of another architecture gives way to PTX, and shared memory is asked for before any launch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from runners.cuda.code import LoadedCode, loaded_code
from runners.cuda.driver import CudaError
from runners.device_code import DeviceCode
from runners.error import RunnerError


class _Driver:
    """Takes some images, and notes what it is asked."""

    stands_in = False

    def __init__(self, *taken: bytes) -> None:
        self.taken, self.asked = taken, []

    def handle(self, name, *args):
        self.asked.append(name)
        if name == "cuModuleLoadData" and not args[0].startswith(self.taken):
            raise CudaError("refused", 209, "CUDA_ERROR_NO_BINARY_FOR_GPU")
        return 1000 + len(self.asked)

    def number(self, name, *args):
        return 1024

    def call(self, name, *args):
        self.asked.append((name, *args[1:]))


def _context(*taken: bytes):
    return SimpleNamespace(
        driver=_Driver(*taken), device="cuda(0)", name="a card", capability=(9, 0), most_shared_bytes=101376,
        make_current=lambda: None, unload=lambda handle: None,
    )  # fmt: skip


def _code(shared: int | None = 0) -> DeviceCode:
    return DeviceCode(
        "sm_80", [{"name": "k", "dynamic_shared_bytes": shared}], "// C++", "// PTX", b"\x7fELF"
    )


def test_ptx_takes_the_place_of_code_for_another_architecture():
    of = _context(b"// PTX")
    found = LoadedCode(_code(), of)
    assert of.driver.asked[:3] == ["cuModuleLoadData", "cuModuleLoadData", "cuModuleGetFunction"]
    assert found.names == ["k"] and found.table[0] == 1003


def test_a_device_that_runs_neither_is_told():
    with pytest.raises(
        CudaError, match=r"built for sm_80, and cuda\(0\) \(a card\) is an sm_90, which runs neither"
    ):
        LoadedCode(_code(), _context())


@pytest.mark.parametrize(
    ("shared", "asked"), [(0, None), (48128, None), (49152, 49152), (65536, 65536), (None, 100352)]
)
def test_shared_memory_is_asked_for_once(shared, asked):
    of = _context(b"\x7fELF")
    LoadedCode(_code(shared), of)
    wanted = [] if asked is None else [("cuFuncSetAttribute", 8, asked)]
    assert [item for item in of.driver.asked if isinstance(item, tuple)] == wanted


def test_more_shared_memory_than_there_is_names_the_kernel():
    with pytest.raises(CudaError, match="kernel k asks for 132096 bytes of shared memory"):
        LoadedCode(_code(131072), _context(b"\x7fELF"))


def test_code_is_loaded_once_for_a_device():
    of, code = _context(b"\x7fELF"), _code()
    of = type("Hashed", (SimpleNamespace,), {"__hash__": object.__hash__})(**vars(of))
    assert loaded_code(code, of) is loaded_code(code, of)
    assert loaded_code(None, of).names == []


def test_parts_are_put_together_again():
    code = _code(7)
    again = DeviceCode.of_parts(code.described(), b"".join(code.parts()))
    assert vars(again) == vars(code)
    assert (again.text("cuda"), again.text("ptx")) == ("// C++", "// PTX")
    with pytest.raises(RunnerError, match="'cuda' and 'ptx', not 'sass'"):
        again.text("sass")
