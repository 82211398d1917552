"""Which files and folders confined workers may open: the code that they run, what the system tells of the machine, and little else."""

from __future__ import annotations

import glob
import os
import site
import sys
from pathlib import Path

from .. import lock
from . import landlock
from .sandbox import Sandbox

_SYSTEM = (
    *("/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local/lib", "/usr/local/cuda", "/usr/local/nvidia"),
    *("/lib", "/lib64", "/etc/ld.so.cache", "/proc", "/sys/devices", "/sys/class", "/sys/fs/cgroup"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_ACCELERATORS = ("/dev/nvidia*", "/dev/dri/*", "/dev/kfd")
_PROGRAMS = ("/usr", "/bin", "/lib", "/lib64", "/opt")


def python_folders(sandbox: Sandbox) -> list[str]:
    """Where the code of workers is: of Python, of installed packages, and of this project."""
    root = Path(__file__).resolve().parents[2]
    installed = {Path(path).resolve() for path in (*site.getsitepackages(), site.getusersitepackages())}
    own = [root] if root in installed else [root / "ir", root / "runners"]
    # The interpreter's own folders, not their prefix: that may be /usr, or a home.
    found = [Path(path).resolve() for path in sys.path if path] + [Path(os.__file__).resolve().parent]
    found = [path for path in found if path not in (root, Path.cwd())]
    return list(dict.fromkeys(map(str, [*own, *found, *map(Path, sandbox.readable)])))


def allowed_paths(sandbox: Sandbox) -> list[tuple[str, int]]:
    """Paths, each with the rights of :mod:`.landlock` that workers have there."""
    allowed = [(path, landlock.READ) for path in (*_SYSTEM, *python_folders(sandbox), *_library_folders())]
    allowed += [(path, landlock.USE_DEVICE) for path in _DEVICES]
    folder = os.environ.get("LOOPSMITH_REFERENCE_FOLDER")
    if folder:
        allowed.append((folder, landlock.WRITE if sandbox.has_devices else landlock.WRITE_FILES))
    allowed += [(str(path), landlock.LOCK) for path in lock.paths()]
    if sandbox.has_devices:
        allowed += [(path, landlock.USE_DEVICE) for name in _ACCELERATORS for path in glob.glob(name)]
        allowed += [(path, landlock.EXECUTE) for path in (*_PROGRAMS, sys.prefix, sys.base_prefix)]
    return allowed


def _library_folders() -> list[str]:
    """Of the interpreter's shared library, and what lies beside it."""
    return [str(Path(base, "lib")) for base in {sys.base_prefix, sys.prefix} if base != "/usr"]
