"""A stand-in for the CUDA driver and NVML: a library that runs kernels on the processor, for tests and for machines without a GPU::

    with stand_in.used():
        module = build_module(program, "nvidia/nvidia-a100")

It has the driver's asynchronous streams, its errors and its limits; kernels are those of :mod:`ir.codegen.cuda.emulation`. It tells nothing
about speed. Environment variables say what its devices are: ``LOOPSMITH_STAND_IN_DEVICES`` (their number, 1), ``LOOPSMITH_STAND_IN_BYTES``
(their memory, 1 GiB), ``LOOPSMITH_STAND_IN_CAPABILITY`` (80 for 8.0), ``LOOPSMITH_STAND_IN_THROTTLE`` (NVML's reasons for lower clocks, 0).
Programs that bring cubins and PTX get them run by images in a folder that ``LOOPSMITH_STAND_IN_IMAGES`` names (:func:`keep_image`).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from ir.codegen.cuda import emulation
from ir.codegen.cuda.emulation.compile import emulated_library, find_compiler
from ir.codegen.cuda.emulation.errors import NoCompilerError
from ir.codegen.cuda.emulation.shared_memory import static_shared_bytes
from ir.error import did_you_mean
from ir.target.cuda_device import DRIVER_VARIABLE, cuda_attributes

from ...device_code import DeviceCode
from ...error import RunnerError
from ..nvml import NVML_VARIABLE

IMAGES_VARIABLE = "LOOPSMITH_STAND_IN_IMAGES"
_SETTINGS = ("devices", "bytes", "capability", "throttle")
_SOURCE = Path(__file__).with_name("stand_in.cpp")
_REAL_CODE = Path(__file__).with_name("real_code.h")
_TENSOR_MAP = Path(emulation.__file__).with_name("tensor_map.h")
"""What maps are for the emulation, which runs the kernels."""
_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-U_FORTIFY_SOURCE")


@lru_cache(maxsize=1)
def library() -> Path:
    """The library, compiled by the system's C++ compiler and kept in the user's folder for caches.

    Raises:
        NoCompilerError: there is no compiler, or it refuses the source.
    """
    compiler = find_compiler()
    if compiler is None:
        raise NoCompilerError("the stand-in for a CUDA driver needs a C++ compiler: install g++ or clang++")
    text = b"".join(path.read_bytes() for path in (_SOURCE, _REAL_CODE, _TENSOR_MAP))
    digest = hashlib.sha256(text + " ".join([compiler, *_FLAGS]).encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loopsmith" / "stand_in"
    path = folder / f"{digest}.so"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            made = Path(temporary) / "stand_in.so"
            command = [compiler, *_FLAGS, f"-I{_TENSOR_MAP.parent}", str(_SOURCE), "-o", str(made), "-ldl"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise NoCompilerError(
                    f"{compiler} cannot compile the stand-in for a CUDA driver:\n{done.stderr[:2000]}"
                )
            os.replace(made, path)
    return path


def image(source: str, kernels: Sequence[str]) -> bytes:
    """What the stand-in loads instead of a cubin.

    Args:
        source: CUDA C++.
        kernels: names of its kernels.

    Raises:
        EmulationError: the source does not compile.
    """
    code = emulated_library(source, kernels)
    shared = static_shared_bytes(code)
    head = [f"loopsmith-stand-in {len(code)}", *(f"{name} {shared[name]}" for name in kernels)]
    return "\n".join(head).encode() + b"\n\n" + code


def keep_image(code: DeviceCode | None, folder: Path | str) -> None:
    """Put into a folder what the stand-in runs in the place of a model's cubin and of its PTX.

    Args:
        code: ``device_code`` of an executable for a CUDA device.
        folder: is there.

    Raises:
        RunnerError: the executable has no kernels of a device.
        EmulationError: the kernels do not compile for the processor.
    """
    if code is None:
        raise RunnerError("there are no kernels to keep: the executable was built for the processor")
    folder = Path(folder)
    made = image(code.source, [kernel["name"] for kernel in code.kernels])
    for ending, data in (("cubin", code.cubin), ("ptx", code.ptx.encode() + b"\0")):
        name = hashlib.sha256(data).hexdigest()[:16]
        (folder / f"{name}.{ending}").write_bytes(data)
        (folder / f"{name}.image").write_bytes(made)


@contextmanager
def used(**settings: int) -> Iterator[Path]:
    """Within, this process and those that it starts find the stand-in instead of a driver.

    Args:
        settings: of its devices: ``devices``, ``bytes``, ``capability`` and ``throttle``, see above; what the library is told when it is
            first loaded holds for the process.

    Raises:
        RunnerError: its devices have no such setting.
        NoCompilerError: there is no C++ compiler.
    """
    for name in settings.keys() - set(_SETTINGS):
        raise RunnerError(
            f"the stand-in has no setting {name!r}{did_you_mean(name, _SETTINGS) or '; it has ' + ', '.join(_SETTINGS)}"
        )
    path = library()
    told = {f"LOOPSMITH_STAND_IN_{name.upper()}": str(value) for name, value in settings.items()}
    variables = {DRIVER_VARIABLE: str(path), NVML_VARIABLE: str(path), **told}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    cuda_attributes.cache_clear()
    try:
        yield path
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        cuda_attributes.cache_clear()
