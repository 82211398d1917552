"""Where the CUDA toolkit's parts are that code generation uses: NVRTC, the headers, and (optional) ptxas and the disassemblers.

They are taken from the wheels that ``pip install 'loopsmith[cuda]'`` installs, from the folder that ``CUDA_PATH`` or ``CUDA_HOME``
names, or from where the system's loader finds NVRTC; the headers come from the same place as the library.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..error import CudaToolkitError

INSTALL_HINT = "pip install 'loopsmith[cuda]'"
"""What installs all parts."""

_LIBRARY = re.compile(r"libnvrtc\.so\.(\d+)(?:\.\d+)*")
_HEADER = "cuda_fp16.h"
_WHEELS = (  # folders of libraries and of headers below the wheels' package ``nvidia``: of CUDA 12, and of CUDA 13
    (
        ("cuda_nvrtc/lib",),
        ("cuda_runtime/include", "cuda_nvcc/include", "cuda_cccl/include"),
    ),
    (("cu13/lib",), ("cu13/include", "cu13/include/cccl")),
)
_WHEEL_PROGRAMS = ("cuda_nvcc/bin", "cu13/bin")
_TOOLKIT = (("lib64", "lib"), ("include", "include/cccl"), ("bin",))
_SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
"""By which the system's loader finds it."""


@dataclass(frozen=True)
class Toolkit:
    """The parts of one CUDA toolkit."""

    nvrtc: str
    """The path of the library, or the name by which the system's loader finds it."""
    include_folders: tuple[Path, ...]
    """Of the headers; empty where none are installed, as programs without includes need none."""
    program_folders: tuple[Path, ...]

    @property
    def has_headers(self) -> bool:
        """Whether the headers of the types and intrinsics of devices are there."""
        return any((folder / _HEADER).is_file() for folder in self.include_folders)

    def program(self, name: str) -> Path | None:
        """Where a program of the toolkit (``ptxas``, ``nvdisasm``) is: beside the library, else on PATH; None if nowhere."""
        folders = os.pathsep.join(str(folder) for folder in self.program_folders)
        found = shutil.which(name, path=folders) if folders else None
        found = found or shutil.which(name)
        return Path(found) if found else None


@lru_cache(maxsize=1)
def toolkit() -> Toolkit:
    """The toolkit that this process uses: the first that has headers, else the first.

    Raises:
        CudaToolkitError: there is none.
    """
    found = list(_toolkits())
    if not found:
        raise CudaToolkitError(
            f"NVRTC, which compiles CUDA C++, is not installed: {INSTALL_HINT}, or set CUDA_PATH to the folder of a CUDA toolkit"
        )
    return next((item for item in found if item.has_headers), found[0])


def _toolkits() -> Iterator[Toolkit]:
    for wheels in _wheel_folders():
        for libraries, includes in _WHEELS:
            yield from _toolkit_below(wheels, libraries, includes, _WHEEL_PROGRAMS)
    for name in ("CUDA_PATH", "CUDA_HOME"):
        if os.environ.get(name):
            yield from _toolkit_below(Path(os.environ[name]), *_TOOLKIT)
    for name in _SONAMES:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        yield Toolkit(name, _system_includes(), ())
        return


def _toolkit_below(
    root: Path, libraries: tuple[str, ...], includes: tuple[str, ...], programs: tuple[str, ...]
) -> Iterator[Toolkit]:
    library = next((found for name in libraries if (found := _newest_library(root / name))), None)
    if library is not None:
        yield Toolkit(str(library), _folders(root, includes), _folders(root, programs))


def _newest_library(folder: Path) -> Path | None:
    """The NVRTC of the highest version in a folder."""
    found = [
        (int(match[1]), path)
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (match := _LIBRARY.fullmatch(path.name))
    ]
    return max(found)[1] if found else None


def _folders(root: Path, names: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(root / name for name in names if (root / name).is_dir())


def _wheel_folders() -> list[Path]:
    """Folders of the package ``nvidia``, in which each of NVIDIA's wheels has a part."""
    spec = importlib.util.find_spec("nvidia")
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec is not None else []


def _system_includes() -> tuple[Path, ...]:
    """Headers that go with a library of the system: those beside the compiler on PATH."""
    compiler = shutil.which("nvcc")
    root = None if compiler is None else Path(compiler).resolve().parent.parent
    return () if root is None or not (root / "include" / _HEADER).is_file() else _folders(root, _TOOLKIT[1])
