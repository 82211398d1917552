"""CUDA C++ text to code of a GPU by NVRTC: no device, no driver and no host compiler are needed.

Programs are compiled in this process, but for those with instructions at which a compiler may end its process.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ...target.gpu_facts import architecture_number
from ..error import CudaCompileError, CudaDiagnostic, CudaToolkitError
from ..forking import hold_at_fork
from .compiler_process import compile_apart
from .diagnostics import PTX_TEXT, located_in_source, parse_log
from .resources import KernelResources, resource_usage
from .toolkit import INSTALL_HINT, toolkit

_COMPILING = threading.Lock()
"""Held while NVRTC compiles, which takes one program after the other in any case: a fork then waits until its own locks are free."""
hold_at_fork(_COMPILING.acquire, _COMPILING.release)

_OPTIONS = (
    "--std=c++17",
    "--fmad=false",  # what is contracted is decided before, by the rules of docs/semantics.md, and printed as fmaf
    "-default-device",
    "-lineinfo",
)
_COMPILED_APART = "wgmma"
"""What stands in programs whose compiler may end its process: NVRTC 12.9 does at a descriptor of wgmma that is the constant zero."""
_RESOURCES_IN_LOG = "--ptxas-options=-v"
_INVALID_OPTION, _COMPILATION = 5, 6


@dataclass(frozen=True)
class CompiledKernels:
    """A program's code for one architecture."""

    arch: str
    cubin: bytes
    """What a driver loads: an ELF file."""
    ptx: str
    log: str
    """All that the compiler said; registers and spills are told there as well."""
    symbols: dict[str, str] = field(default_factory=dict)
    """The name in the cubin of each kernel that was asked for."""

    @cached_property
    def warnings(self) -> tuple[CudaDiagnostic, ...]:
        """What the compiler warns of."""
        return tuple(item for item in parse_log(self.log) if item.severity == "warning")

    @cached_property
    def resources(self) -> dict[str, KernelResources]:
        """What each kernel of the cubin uses, by its name there."""
        return resource_usage(self.cubin, self.log)


def compile_cuda(
    source: str,
    arch: str,
    *,
    name: str = "kernels.cu",
    options: Sequence[str] = (),
    kernels: Sequence[str] = (),
) -> CompiledKernels:
    """Compiles CUDA C++ for one architecture; threads may call at the same time.

    >>> text = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'
    >>> compile_cuda(text, "sm_80").resources["twice"].static_shared_bytes
    0

    Args:
        source: the program. Functions without ``__global__`` are the device's; products and sums are not contracted unless
            written as ``fmaf``.
        arch: such as ``"sm_75"`` or ``"sm_90a"``.
        name: the file that messages name.
        options: of NVRTC, behind the usual ones, such as ``"-DTILE=16"`` or ``"--maxrregcount=64"``.
        kernels: names of kernels that must be there, as C++ writes them: ``"scale<float>"`` instantiates a template. Their
            names in the cubin are in ``symbols``.

    Raises:
        CudaCompileError: the program is wrong or a kernel is too large for the architecture; the message has the lines. Or the compiler
            ended its process, which is another one than this.
        CudaToolkitError: there is no NVRTC, or it does not know the architecture.
        TargetError: ``arch`` is not written as an architecture is.
    """
    if _COMPILED_APART in source:
        found: CompiledKernels = compile_apart(source, arch, name, options, kernels)
        return found
    return compile_here(source, arch, name=name, options=options, kernels=kernels)


def compile_here(
    source: str,
    arch: str,
    *,
    name: str = "kernels.cu",
    options: Sequence[str] = (),
    kernels: Sequence[str] = (),
) -> CompiledKernels:
    """As :func:`compile_cuda`, always in this process."""
    _check_arch(arch)
    usual = [f"--gpu-architecture={arch}", *_common_options(), *options]
    program = _Program(source, name, kernels)
    try:
        status = program.compile([*usual, _RESOURCES_IN_LOG])
        if status:
            raise _compile_error(program, status, usual, arch)
        return CompiledKernels(
            arch,
            program.output("CUBIN"),
            _text(program.output("PTX")),
            program.log(),
            {kernel: program.lowered_name(kernel) for kernel in kernels},
        )
    finally:
        program.destroy()


def nvrtc_version() -> tuple[int, int]:
    """Major and minor version.

    Raises:
        CudaToolkitError: there is no NVRTC.
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


@lru_cache(maxsize=1)
def compiler_identity() -> str:
    """What tells this compiler from others: its version, the size of its library, the headers, and the options that are always given.

    Raises:
        CudaToolkitError: there is no NVRTC.
    """
    library()
    path = Path(toolkit().nvrtc)
    size = path.stat().st_size if path.is_file() else 0
    return " ".join([*map(str, (*nvrtc_version(), size)), *_common_options()])


@lru_cache(maxsize=1)
def supported_architectures() -> tuple[int, ...]:
    """Numbers of the architectures that this NVRTC knows, such as 75 and 90, in ascending order.

    Raises:
        CudaToolkitError: there is no NVRTC.
    """
    count = ctypes.c_int()
    library().nvrtcGetNumSupportedArchs(ctypes.byref(count))
    numbers = (ctypes.c_int * count.value)()
    library().nvrtcGetSupportedArchs(numbers)
    return tuple(sorted(numbers))


def _common_options() -> list[str]:
    return [*_OPTIONS, *(f"--include-path={folder}" for folder in toolkit().include_folders)]


def _check_arch(arch: str) -> None:
    number = architecture_number(arch)
    known = supported_architectures()
    if number not in known:
        version = ".".join(map(str, nvrtc_version()))
        needed = "an older" if number < known[0] else "a newer"
        raise CudaToolkitError(
            f"NVRTC {version} does not know {arch}: the newest that it knows is sm_{known[-1]}, the oldest sm_{known[0]};"
            f" {needed} one may ({INSTALL_HINT} installs the wheels nvidia-cuda-nvrtc-cu12 and its like)"
        )


def _compile_error(program: _Program, status: int, options: list[str], arch: str) -> CudaCompileError:
    log = program.log()
    diagnostics = parse_log(log)
    if not any(item.severity == "error" for item in diagnostics):
        # Asked for resources, ptxas keeps to itself that a kernel takes too much of them.
        with program.again() as another:
            another.compile(options)
            log = another.log()
        diagnostics = parse_log(log)
    if any(item.file == PTX_TEXT for item in diagnostics):
        with program.again() as another:
            if not another.compile([_as_ptx(item) for item in options]):
                ptx = _text(another.output("PTX"))
                diagnostics = located_in_source(diagnostics, ptx, program.source, program.name)
    if status not in (_INVALID_OPTION, _COMPILATION):
        reason = library().nvrtcGetErrorString(status).decode()
        log = f"{reason}\n{log}"
    summary = f"{program.name} does not compile for {arch}"
    if not toolkit().has_headers and "could not open source file" in log:
        summary += f" (the headers of CUDA are not installed: {INSTALL_HINT})"
    return CudaCompileError(summary, diagnostics, log)


def _as_ptx(option: str) -> str:
    """The same option for a compilation that ends with PTX text."""
    return option.replace("--gpu-architecture=sm_", "--gpu-architecture=compute_")


def _text(output: bytes) -> str:
    return output.rstrip(b"\0").decode("utf-8", "replace")


class _Program:
    """NVRTC's program object."""

    def __init__(self, source: str, name: str, kernels: Sequence[str]) -> None:
        self.source = source
        self.name = name
        self.kernels = tuple(kernels)
        self._handle = ctypes.c_void_p()
        status = library().nvrtcCreateProgram(
            ctypes.byref(self._handle), source.encode(), name.encode(), 0, None, None
        )
        if status:
            raise CudaCompileError(
                f"{name} cannot be compiled: {library().nvrtcGetErrorString(status).decode()}"
            )
        for kernel in kernels:
            library().nvrtcAddNameExpression(self._handle, kernel.encode())

    def again(self) -> _Program:
        """The same program, not compiled yet."""
        return _Program(self.source, self.name, self.kernels)

    def __enter__(self) -> _Program:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.destroy()

    def compile(self, options: Sequence[str]) -> int:
        """NVRTC's status: 0 where it went well."""
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        with _COMPILING:
            return int(library().nvrtcCompileProgram(self._handle, len(options), given))

    def log(self) -> str:
        return _text(self.output("ProgramLog"))

    def output(self, what: str) -> bytes:
        """What ``nvrtcGet<what>`` gives."""
        size = ctypes.c_size_t()
        getattr(library(), f"nvrtcGet{what}Size")(self._handle, ctypes.byref(size))
        memory = ctypes.create_string_buffer(size.value)
        getattr(library(), f"nvrtcGet{what}")(self._handle, memory)
        return memory.raw

    def lowered_name(self, kernel: str) -> str:
        """The name in the cubin of a kernel that was named before compiling."""
        found = ctypes.c_char_p()
        status = library().nvrtcGetLoweredName(self._handle, kernel.encode(), ctypes.byref(found))
        if status or found.value is None:
            raise CudaCompileError(f"{self.name} has no kernel {kernel!r}")
        return found.value.decode()

    def destroy(self) -> None:
        library().nvrtcDestroyProgram(ctypes.byref(self._handle))


@lru_cache(maxsize=1)
def library() -> Any:
    """NVRTC, loaded once into the process.

    Raises:
        CudaToolkitError: there is none, or it cannot be loaded.
    """
    path = toolkit().nvrtc
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise CudaToolkitError(
            f"NVRTC at {path} cannot be loaded: {error}; install it again with {INSTALL_HINT}"
        ) from error
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library
