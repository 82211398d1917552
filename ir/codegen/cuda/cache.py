"""Code of CUDA programs that was compiled before, kept by content in a folder: the same program is compiled once on a machine.

An entry's name is a digest of all that the code depends on: source, architecture, options and NVRTC. Entries are written beside
their place and moved there, so that processes that share the folder see whole ones; one that is damaged is compiled again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from .nvrtc import CompiledKernels, compile_cuda, compiler_identity

_FORMAT = b"loopsmith-cuda-1\n"
_SUFFIX = ".cuda"
_UNFINISHED = ".part"
_ABANDONED_S = 3600.0
"""An entry that was begun so long ago belongs to a process that was killed."""
_MOST_BYTES = 1 << 30


class KernelCache:
    """A folder of compiled programs; threads and processes may share it.

    Args:
        folder: where entries are; it is made when the first is written.
        max_bytes: how much the entries may take together; those that were used longest ago are removed first.
    """

    def __init__(self, folder: str | os.PathLike[str], max_bytes: int = _MOST_BYTES) -> None:
        self.folder = Path(folder)
        self.max_bytes = max_bytes
        self.hits = 0
        """Programs that were found."""
        self.misses = 0
        """Programs that were compiled."""
        self.damaged = 0
        """Entries that could not be read, among the misses."""
        self._counting = threading.Lock()

    def compile(
        self,
        source: str,
        arch: str,
        *,
        name: str = "kernels.cu",
        options: Sequence[str] = (),
        kernels: Sequence[str] = (),
    ) -> CompiledKernels:
        """As :func:`~ir.codegen.cuda.nvrtc.compile_cuda`, from the folder where it is there; programs that are wrong are not kept."""
        path = self.folder / f"{_key(source, arch, name, options, kernels)}{_SUFFIX}"
        found = self._read(path)
        if found is not None:
            self._count("hits")
            with suppress(OSError):
                os.utime(path)  # in a folder of somebody else's entries keep their times
            return found
        compiled = compile_cuda(source, arch, name=name, options=options, kernels=kernels)
        self._count("misses")
        self._write(path, _packed(compiled))
        return compiled

    def clear(self) -> None:
        """Removes all entries."""
        for path, _, _ in self._entries():
            path.unlink(missing_ok=True)

    def _count(self, what: str) -> None:
        with self._counting:
            setattr(self, what, getattr(self, what) + 1)

    def _read(self, path: Path) -> CompiledKernels | None:
        try:
            data = path.read_bytes()
        except OSError:
            return None
        try:
            return _unpacked(data)
        except (ValueError, KeyError, TypeError, zlib.error):
            self._count("damaged")
            return None

    def _write(self, path: Path, data: bytes) -> None:
        """Puts an entry into its place; a folder that cannot be written or is full keeps nothing."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, unfinished = tempfile.mkstemp(suffix=_UNFINISHED, dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                os.replace(unfinished, path)
            except BaseException:
                Path(unfinished).unlink(missing_ok=True)
                raise
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        entries = sorted(self._entries(), key=lambda entry: entry[1])
        excess = sum(size for _, _, size in entries) - self.max_bytes
        for path, used, size in entries:
            abandoned = path.suffix == _UNFINISHED and time.time() - used > _ABANDONED_S
            if abandoned or (excess > 0 and path.suffix == _SUFFIX):
                path.unlink(missing_ok=True)
                excess -= size

    def _entries(self) -> list[tuple[Path, float, int]]:
        """Files of the folder: path, when it was used last, bytes."""
        found = []
        for path in self.folder.glob("*"):
            with suppress(OSError):  # another process removed it
                if path.suffix in (_SUFFIX, _UNFINISHED):
                    status = path.stat()
                    found.append((path, status.st_mtime, status.st_size))
        return found


@lru_cache(maxsize=8)
def _cache_in(folder: str) -> KernelCache:
    return KernelCache(folder)


def default_cache() -> KernelCache | None:
    """The cache of this user: in ``LOOPSMITH_CUDA_CACHE_FOLDER``, else ``loopsmith/cuda`` in the user's folder for caches.

    None where ``LOOPSMITH_CUDA_CACHE_FOLDER`` is set and empty: then nothing is kept.
    """
    named = os.environ.get("LOOPSMITH_CUDA_CACHE_FOLDER")
    if named is not None:
        return _cache_in(named) if named else None
    of_user = os.environ.get("XDG_CACHE_HOME")
    return _cache_in(os.path.join(of_user or Path.home() / ".cache", "loopsmith", "cuda"))


def compile_cached(
    source: str,
    arch: str,
    *,
    name: str = "kernels.cu",
    options: Sequence[str] = (),
    kernels: Sequence[str] = (),
) -> CompiledKernels:
    """As :func:`~ir.codegen.cuda.nvrtc.compile_cuda`, through :func:`default_cache`."""
    cache = default_cache()
    compile_it = compile_cuda if cache is None else cache.compile
    return compile_it(source, arch, name=name, options=options, kernels=kernels)


def _key(source: str, arch: str, name: str, options: Sequence[str], kernels: Sequence[str]) -> str:
    parts = [source, arch, name, list(options), list(kernels), compiler_identity()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _packed(compiled: CompiledKernels) -> bytes:
    """The bytes of an entry: the format, a digest of what follows, sizes and names, and the code."""
    header: dict[str, Any] = {
        "arch": compiled.arch,
        "symbols": compiled.symbols,
        "log": compiled.log,
        "ptx": compiled.ptx,
    }
    body = zlib.compress(json.dumps(header).encode() + b"\n" + compiled.cubin, 1)
    return _FORMAT + hashlib.sha256(body).digest() + body


def _unpacked(data: bytes) -> CompiledKernels:
    size = len(_FORMAT) + hashlib.sha256().digest_size
    digest, body = data[len(_FORMAT) : size], data[size:]
    if not data.startswith(_FORMAT) or hashlib.sha256(body).digest() != digest:
        raise ValueError("the entry is damaged")
    text, _, cubin = zlib.decompress(body).partition(b"\n")
    return CompiledKernels(cubin=cubin, **json.loads(text))
