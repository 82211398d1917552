"""``emulate``: from CUDA C++ source to kernels that run on the CPU, with numpy arrays in place of device memory::

    module = emulate(source, ["scale"])
    module.launch("scale", (4, 1, 1), (256, 1, 1), 0, [array, np.float32(2)])

The source is compiled by the system's C++ compiler behind the headers beside this file, which are compiled once per process.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ...error import CudaDiagnostic
from .errors import (
    ArgumentError,
    BarrierError,
    EmulationError,
    EmulationMemoryError,
    KernelSourceError,
    LaunchError,
    NoCompilerError,
    TrapError,
)
from .shared_memory import static_shared_bytes
from .source import SOURCE_NAME, declared_kernels, to_cpp

COMPILERS = ("c++", "g++", "clang++")
"""Names that are looked up where the environment variable ``CXX`` names none."""
FLAGS = (
    *("-std=c++17", "-O1", "-fPIC", "-w"),
    # A product and a sum are rounded one by one, as the source says.
    "-ffp-contract=off",
    # Kernels read words of memory through pointers of other types, and their integers wrap.
    *("-fno-strict-aliasing", "-fwrapv"),
    # Each library has its own threads and shared memory; fibers are no stack that the library's checks of jumps know.
    *("-fvisibility=hidden", "-U_FORTIFY_SOURCE"),
)
MOST_THREADS = 1024
MOST_THREADS_PER_AXIS = (1024, 1024, 64)
MOST_BLOCKS_PER_AXIS = (2**31 - 1, 65535, 65535)
MOST_SHARED_BYTES = 227 * 1024
"""Shared memory of a block: the most that any device has."""
MOST_STATIC_SHARED_BYTES = 48 * 1024
"""What ``__shared__`` may declare; more is dynamic on every device."""

_FAULTS: dict[int, type[EmulationError]] = {1: BarrierError, 2: TrapError, 3: EmulationMemoryError}
_ERROR = re.compile(
    rf"^{re.escape(SOURCE_NAME)}:(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<message>.*)$",
    re.MULTILINE,
)
_HEADERS = Path(__file__).parent


@dataclass(frozen=True)
class Parameter:
    """A kernel's parameter: a pointer to elements of ``dtype``, or a value of it."""

    dtype: str
    """As numpy and ml_dtypes write it; ``void``, or ``bytes16`` for vectors and structures of 16 bytes."""
    is_pointer: bool
    is_const: bool

    @staticmethod
    def parse(text: str) -> Parameter:
        """From ``const*float32``, ``*float32`` or ``float32``."""
        before, star, dtype = text.rpartition("*")
        return Parameter(dtype, bool(star), before == "const")

    def __str__(self) -> str:
        return f"{'const ' if self.is_const else ''}{self.dtype}{'*' if self.is_pointer else ''}"


class EmulatedModule:
    """Compiled kernels of one source; use :func:`emulate` to make it."""

    def __init__(self, library: Path, kernels: Sequence[str]) -> None:
        self._library = ctypes.CDLL(os.fspath(library))
        self._launching = threading.Lock()
        self._library.emulation_message.restype = ctypes.c_char_p
        declared = static_shared_bytes(library.read_bytes())
        self.static_shared_bytes = {name: declared[name] for name in kernels}
        """Bytes of shared memory that each kernel declares itself, without what functions that it calls declare."""
        self.parameters: dict[str, tuple[Parameter, ...]] = {}
        """The parameters of each kernel."""
        for name in kernels:
            describe = self._library[f"parameters_{name}"]
            describe.restype = ctypes.c_char_p
            self.parameters[name] = tuple(map(Parameter.parse, describe().decode().split()))
            self._library[f"launch_{name}"].restype = ctypes.c_longlong

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        args: Sequence[Any],
        seed: int = 0,
    ) -> None:
        """Runs a kernel to its end.

        Args:
            name: the kernel.
            grid: numbers of blocks along x, y and z; those left out are 1.
            block: numbers of threads along x, y and z; those left out are 1.
            shared_bytes: bytes of dynamic shared memory.
            args: one for each parameter. For a pointer an array in C order, whose dtype is that of the elements (any for ``void`` and
                for vectors, also bool for ``unsigned char``), an address as an integer, or None; for a value a number that its type
                can hold.
            seed: 0 runs the threads of a block in ascending order between barriers; other numbers choose random orders, of which a kernel
                without races is independent.

        Raises:
            LaunchError: there is no such kernel, or no device accepts such a grid, block or size of shared memory.
            ArgumentError: an argument does not fit its parameter.
            BarrierError: threads wait for others that never come.
            TrapError: a kernel ended itself.
            EmulationMemoryError: there is no memory for the threads' stacks.
        """
        if name not in self.parameters:
            raise LaunchError(
                f"no kernel {name!r} in this module; there are: {', '.join(self.parameters) or 'none'}"
            )
        blocks = _extents(name, "grid", grid, MOST_BLOCKS_PER_AXIS)
        threads = _extents(name, "block", block, MOST_THREADS_PER_AXIS)
        if (count := threads[0] * threads[1] * threads[2]) > MOST_THREADS:
            raise LaunchError(
                f"kernel {name}: a block has at most {MOST_THREADS} threads, got {tuple(block)}, that is {count}"
            )
        most_bytes = MOST_SHARED_BYTES - self.static_shared_bytes[name]
        if not 0 <= shared_bytes <= most_bytes:
            raise LaunchError(
                f"kernel {name}: a block has 0 to {most_bytes} bytes of dynamic shared memory beside the"
                f" {self.static_shared_bytes[name]} that the kernel declares, got {shared_bytes}"
            )
        values = self._encode(name, args)
        addresses = (ctypes.c_void_p * max(len(values), 1))(*(value.ctypes.data for value in values))
        axes = ctypes.c_uint * 3
        launch = self._library[f"launch_{name}"]
        done, total = 0, blocks[0] * blocks[1] * blocks[2]
        with self._launching:
            while done < total:  # it comes back from time to time, so that the process can be interrupted
                done = launch(
                    axes(*blocks),
                    axes(*threads),
                    ctypes.c_uint(shared_bytes),
                    addresses,
                    ctypes.c_longlong(done),
                    ctypes.c_ulonglong(seed),
                )
                if done < 0:
                    message = self._library.emulation_message().decode(errors="replace")
                    raise _FAULTS[self._library.emulation_fault()](f"kernel {name}, {message}")

    def _encode(self, name: str, args: Sequence[Any]) -> list[np.ndarray]:
        """Each argument as bytes that a parameter is copied from."""
        parameters = self.parameters[name]
        if len(args) != len(parameters):
            raise ArgumentError(
                f"kernel {name} has {len(parameters)} parameters ({', '.join(map(str, parameters))}), got {len(args)} arguments"
            )
        values = []
        for i, (parameter, arg) in enumerate(zip(parameters, args)):
            place = f"kernel {name}, argument {i} (parameter {parameter})"
            encode = _encode_address if parameter.is_pointer else _encode_value
            values.append(encode(place, parameter, arg))
        return values


def emulate(source: str, kernels: Sequence[str]) -> EmulatedModule:
    """Compiles CUDA C++ for the CPU, and loads it; arguments and errors are those of :func:`emulated_library`."""
    with tempfile.TemporaryDirectory(prefix="loopsmith-emulation-") as temporary:
        library = Path(temporary) / "kernels.so"
        library.write_bytes(emulated_library(source, kernels))
        return EmulatedModule(library, kernels)


def emulated_library(source: str, kernels: Sequence[str]) -> bytes:
    """Compiles CUDA C++ for the CPU to a shared library, which has ``launch_<kernel>`` for each kernel (launch.h).

    Args:
        source: CUDA C++. Headers of CUDA's that it includes need not exist.
        kernels: names of the ``__global__`` functions to launch, which are neither templates nor in a namespace.

    Raises:
        NoCompilerError: no C++ compiler is found.
        KernelSourceError: a kernel is not in the source or declares too much shared memory, or the source does not compile.
    """
    there = declared_kernels(source)
    for name in kernels:
        if name not in there:
            raise KernelSourceError(
                f"no kernel {name!r} in the source; there are: {', '.join(there) or 'none'}"
            )
    with tempfile.TemporaryDirectory(prefix="loopsmith-emulation-") as temporary:
        folder = Path(temporary)
        (folder / SOURCE_NAME).write_text(to_cpp(source), encoding="utf-8")
        launchers = "".join(f"EMULATION_LAUNCHER({name})\n" for name in kernels)
        (folder / "launchers.cpp").write_text(f'#include "{SOURCE_NAME}"\n{launchers}', encoding="utf-8")
        library = folder / "kernels.so"
        header = _precompiled_header(_compiler())
        done = _run(
            [_compiler(), *FLAGS, "-shared", "-include", str(header), "launchers.cpp", "-o", str(library)],
            folder,
        )
        if done.returncode != 0:
            raise KernelSourceError(
                f"{SOURCE_NAME} does not compile for the CPU", _diagnostics(source, done.stderr), done.stderr
            )
        code = library.read_bytes()
    shared = static_shared_bytes(code)
    for name in kernels:
        declared = shared[name]
        if declared > MOST_STATIC_SHARED_BYTES:
            raise KernelSourceError(
                f"kernel {name} declares {declared} bytes of shared memory, and {MOST_STATIC_SHARED_BYTES} is the most; use dynamic"
                " shared memory (extern __shared__), whose size is given with the launch"
            )
    return code


def has_compiler() -> bool:
    """Whether there is a C++ compiler, so that :func:`emulate` works."""
    return find_compiler() is not None


def find_compiler() -> str | None:
    """The C++ compiler that is used: the one that ``CXX`` names, else the first of :data:`COMPILERS` on PATH; None where there is none."""
    candidates = [os.environ["CXX"]] if os.environ.get("CXX") else COMPILERS
    return next((found for name in candidates if (found := shutil.which(name))), None)


def _compiler() -> str:
    found = find_compiler()
    if found is None:
        looked_for = os.environ.get("CXX") or ", ".join(COMPILERS)
        raise NoCompilerError(
            f"running CUDA kernels on the CPU needs a C++ compiler, and {looked_for} is not on PATH. Install g++ (Debian and Ubuntu:"
            " apt install g++; Fedora: dnf install gcc-c++) or clang++, or name one in the environment variable CXX"
        )
    return found


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoCompilerError(f"cannot run the C++ compiler {command[0]!r}: {error}") from error


@lru_cache(maxsize=4)
def _precompiled_header(compiler: str) -> Path:
    """The header to include, with its compiled form beside it, where g++ and clang++ look for it."""
    folder = Path(tempfile.mkdtemp(prefix="loopsmith-emulation-headers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    header = folder / "emulation.h"
    header.write_text(f'#include "{_HEADERS / "emulation.h"}"\n', encoding="utf-8")
    done = _run([compiler, *FLAGS, "-x", "c++-header", str(header), "-o", f"{header}.gch"], folder)
    if done.returncode != 0:
        raise NoCompilerError(
            f"{compiler} cannot compile the headers of the CUDA emulation on {sys.platform}; g++ 10 or newer and clang++ 12 or newer can"
            f" on Linux. It says:\n{done.stderr.strip()[:2000]}"
        )
    return header


def _diagnostics(source: str, log: str) -> list[CudaDiagnostic]:
    """The errors that a C++ compiler found in the source, each with its line as it was given."""
    lines = source.splitlines()
    found = []
    for match in _ERROR.finditer(log):
        number, column = int(match["line"]), int(match["column"])
        excerpt = f"  {lines[number - 1]}\n  {' ' * (column - 1)}^" if number <= len(lines) else ""
        found.append(CudaDiagnostic("error", match["message"], SOURCE_NAME, number, excerpt))
    return found


def _extents(name: str, what: str, given: Sequence[int], most: tuple[int, int, int]) -> tuple[int, int, int]:
    extents = [int(extent) for extent in given]
    if not 1 <= len(extents) <= 3:
        raise LaunchError(f"kernel {name}: a {what} has one to three extents, got {tuple(given)}")
    extents += [1] * (3 - len(extents))
    for axis, extent, limit in zip("xyz", extents, most):
        if not 1 <= extent <= limit:
            raise LaunchError(f"kernel {name}: a {what}'s extent along {axis} is 1 to {limit}, got {extent}")
    return extents[0], extents[1], extents[2]


def _encode_address(place: str, parameter: Parameter, arg: Any) -> np.ndarray:
    if arg is None or isinstance(arg, int | np.integer):
        return np.array([int(arg or 0)], np.uint64)
    if not isinstance(arg, np.ndarray):
        raise ArgumentError(f"{place} takes an array or an address, got {type(arg).__name__}")
    if not _holds(parameter.dtype, arg.dtype):
        raise ArgumentError(f"{place} takes an array of {parameter.dtype}, got {arg.dtype}")
    if not arg.flags.c_contiguous:
        raise ArgumentError(
            f"{place} takes an array in C order without gaps; pass np.ascontiguousarray of it"
        )
    if not (arg.flags.writeable or parameter.is_const):
        raise ArgumentError(f"{place} may be written by the kernel, and the array is read-only")
    return np.array([arg.ctypes.data], np.uint64)


def _encode_value(place: str, parameter: Parameter, arg: Any) -> np.ndarray:
    if not _has_dtype(parameter.dtype):
        size = int(parameter.dtype.removeprefix("bytes"))
        value = np.asarray(arg)
        if value.nbytes != size:
            raise ArgumentError(f"{place} takes an array of {size} bytes, got {value.nbytes}")
        return np.ascontiguousarray(value)
    dtype = _numpy_dtype(parameter.dtype)
    number = np.asarray(arg)
    if number.ndim != 0 or number.dtype == object:
        raise ArgumentError(f"{place} takes a number, got {arg!r}")
    if dtype.kind in "iub" and number.dtype.kind not in "iub":
        raise ArgumentError(f"{place} takes an integer, got {arg!r}")
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= int(number) <= np.iinfo(dtype).max:
        raise ArgumentError(f"{place} cannot hold {arg!r}")
    return number.astype(dtype).reshape(1)


def _holds(parameter: str, dtype: np.dtype[Any]) -> bool:
    """Whether an array has the elements of a parameter; bool is a byte, as which kernels may take it."""
    if not _has_dtype(parameter):
        return True
    return dtype == _numpy_dtype(parameter) or (dtype == np.bool_ and parameter == "uint8")


def _has_dtype(name: str) -> bool:
    return name != "void" and not name.startswith("bytes")


def _numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))
