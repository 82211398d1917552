"""Executables: a built model, in this process or as a shared library with its weights inside.

An :class:`Executable` is machine code, constants and a description (:mod:`runners.program`). ``export_library`` links all
three into one file that a C program can call and that :func:`load_module` opens with ctypes and numpy alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .device import Device
from .device_code import DeviceCode
from .home import Home
from .library_file import read_description, seal
from .ndarray import numpy_dtype
from .program import CONSTANTS_SYMBOL, DEVICE_CODE_SYMBOL, FORMAT, ExecutableError, check_compatible


class Library:
    """Machine code by symbol: either loaded in process by the compiler, or a shared library."""

    def __init__(
        self, address_of: Callable[[str], int], last_error: Callable[[], str], keep_alive: Any = None
    ) -> None:
        """``keep_alive`` owns the memory that the addresses point into."""
        self._address_of = address_of
        self._last_error = last_error
        self._keep_alive = keep_alive
        self._addresses: dict[str, int] = {}

    def address(self, symbol: str) -> int:
        """The address of a function; raises ExecutableError when there is none of that name."""
        found = self._addresses.get(symbol)
        if found is None:
            found = self._addresses[symbol] = self._address_of(symbol)
        return found

    def last_error(self) -> str:
        """What went wrong in the function that returned a status other than zero."""
        return self._last_error()


class Executable:
    """A built model. ``relax.build`` makes it, :class:`~runners.virtual_machine.VirtualMachine` runs it.

    Args:
        metadata: the description, see :mod:`runners.program`.
        library: the machine code.
        constants: arrays by number, as the description refers to them.
        objects: object files for :meth:`export_library`; None for an executable that was loaded from a file.
        device_code: kernels of a model for a CUDA device.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        library: Library,
        constants: Sequence[np.ndarray[Any, Any]] = (),
        objects: Sequence[bytes] | None = None,
        path: str | None = None,
        *,
        device_code: DeviceCode | None = None,
    ) -> None:
        self.metadata: dict[str, Any] = {"format": FORMAT, **metadata}
        self.library = library
        self.constants = list(constants)
        self.path = path
        self.device_code = device_code
        self._objects = None if objects is None else list(objects)
        self._copying = threading.Lock()
        self._constants_at: dict[Device, list[Any]] = {}

    def constants_at(self, home: Home) -> list[Any]:
        """The constants as raw arrays of a place, copied there once; nobody may write to them."""
        if home.device.device_type == Device.kDLCPU:
            return self.constants
        with self._copying:
            found = self._constants_at.get(home.device)
            if found is None:
                found = self._constants_at[home.device] = [home.constant(value) for value in self.constants]
            return found

    @property
    def mod(self) -> Executable:
        """The executable itself, for programs that ask for the module in it."""
        return self

    @property
    def function_names(self) -> list[str]:
        """The functions that can be called."""
        return sorted(name for name, entry in self.metadata["functions"].items() if entry.get("public", True))

    def signature(self, name: str = "main") -> dict[str, Any]:
        """Inputs and outputs of a function as plain data."""
        entry = self.metadata["functions"].get(name)
        if entry is None:
            raise ExecutableError(
                f"the model has no function {name!r}; it has {', '.join(self.function_names)}"
            )
        return {key: entry[key] for key in ("params", "outputs") if key in entry}

    def set_num_threads(self, count: int) -> None:
        """Threads of the parallel loops of its code from the next call on; 0 means one per processor."""
        prefix = self.metadata.get("runtime_prefix", "loopsmith")
        address = self.library.address(f"{prefix}_set_num_threads")
        ctypes.CFUNCTYPE(None, ctypes.c_int32)(address)(count)

    def stats(self) -> str:
        """A few lines about what was built: functions, kernels, constants, and the memory that a call needs."""
        lines = []
        for name, entry in sorted(self.metadata["functions"].items()):
            if entry["kind"] == "native":
                plan = entry["memory"]
                lines.append(
                    f"{name}: native, {len(entry['calls'])} kernel calls, workspace {entry['workspace_bytes']} bytes for"
                    f" {plan['n_buffers']} intermediates ({plan['total_bytes']} bytes without reuse)"
                )
            else:
                lines.append(f"{name}: bytecode, {len(entry['code'])} instructions")
        if self.device_code is not None:
            count, arch = len(self.device_code.kernels), self.device_code.arch
            lines.append(f"{count} kernels for {arch}, {len(self.device_code.cubin)} bytes")
        total = sum(int(value.nbytes) for value in self.constants)
        lines.append(
            f"{len(self.constants)} constants, {total} bytes; {len(self.metadata.get('kernels', ()))} kernels"
        )
        return "\n".join(lines)

    def source(self, form: str = "cuda") -> str:
        """The kernels of a model for a CUDA device: ``"cuda"`` (C++) or ``"ptx"``.

        Raises:
            ExecutableError: the model runs on the processor alone.
            RunnerError: another form is asked for.
        """
        if self.device_code is None:
            raise ExecutableError("the model has no kernels of a device; it was built for the processor")
        return self.device_code.text(form)

    def as_text(self) -> str:
        """The description of the functions, with the instructions of those that are interpreted."""
        return json.dumps(self.metadata["functions"], indent=1)

    def jit(self) -> Executable:
        """The executable itself: its code is loaded already."""
        return self

    def export_library(
        self, file_name: str | os.PathLike[str], *, header: bool = True, prefix: str | None = None
    ) -> Path:
        """Write the model as one shared library with its weights, and ``<name>.h`` beside it for callers in C.

        Args:
            file_name: as ``model.so``.
            header: whether to write the header.
            prefix: what the names that C sees begin with, so that one program can have several models; ``loopsmith`` by default. Those of
                a library for CUDA devices are named after the file by default: ``loopsmith_model_create``.

        Raises:
            ExecutableError: the path cannot be written or is the header's, this executable was itself loaded from a file, or a kernel calls
                registered Python functions.
            CodegenError: there is no linker.
        """
        if self._objects is None:
            raise ExecutableError(
                f"this executable was loaded from {self.path}; it is a library already: copy the file, or build the model again"
            )
        if needed := self.metadata.get("python_functions"):
            raise ExecutableError(
                f"a kernel of the model calls the Python functions {', '.join(needed)}, which a shared library does not have; run the"
                " model in this process, or take the call out of the kernel: R.call_packed calls what the process registers"
            )
        path = Path(file_name)
        folder = path.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK) or path.is_dir():
            raise ExecutableError(f"cannot write {path}: {folder} is no folder that can be written to")
        if header and path.suffix == ".h":
            raise ExecutableError(
                f"cannot write {path}: the header would take its place; name the library {path.with_suffix('.so')}"
            )
        try:
            self._link(path, path.with_suffix(".h") if header else None, prefix)
        except OSError as error:
            raise ExecutableError(f"cannot write {path}: {error.strerror or error}") from error
        return path

    def _link(self, path: Path, header: Path | None, prefix: str | None) -> None:
        """Make the library beside its place and move it there: whoever has loaded an earlier one of that name keeps it."""
        # Linking needs the compiler; running does not, so the import stays here.
        from ir.codegen.model_library import link_model

        described, parts = dict(self.metadata), []
        if self.device_code is not None:
            described["device_code"] = self.device_code.described()
            parts = self.device_code.parts()
        assert self._objects is not None
        with tempfile.TemporaryDirectory(prefix=".loopsmith-", dir=path.parent) as folder:
            linked = Path(folder, path.name)
            made = None if header is None else Path(folder, header.name)
            text = link_model(
                described,
                self.constants,
                self._objects,
                linked,
                device_code=parts,
                header=made,
                prefix=prefix,
            )
            seal(linked, text)
            linked.replace(path)
            if header is not None and made is not None:
                made.replace(header)

    @staticmethod
    def load(file_name: str | os.PathLike[str]) -> Executable:
        """Open a shared library that :meth:`export_library` wrote; needs numpy only.

        What is wrong with the file is found before anything of it is loaded: its checksum is compared, and what it says of itself.

        Raises:
            ExecutableError: the file is missing, damaged or no model, or this machine cannot run it.
        """
        path = Path(file_name)
        metadata = read_description(path)
        check_compatible(metadata, str(path))
        try:
            handle = _opened(path.resolve())
        except OSError as error:
            raise ExecutableError(f"the system cannot load {path}: {error}") from error
        constants = _constants_of(handle, metadata)
        error_text = handle[f"{metadata['runtime_prefix']}_last_error"]
        error_text.restype = ctypes.c_char_p

        def address_of(symbol: str) -> int:
            try:
                return int(ctypes.cast(handle[symbol], ctypes.c_void_p).value or 0)
            except AttributeError:
                raise ExecutableError(
                    f"{path} has no symbol {symbol!r}; the file is damaged, build it again"
                ) from None

        library = Library(address_of, lambda: (error_text() or b"").decode("utf-8", "replace"), handle)
        device_code = _device_code_of(handle, metadata.pop("device_code", None))
        return Executable(metadata, library, constants, None, str(path), device_code=device_code)


def _opened(path: Path) -> ctypes.CDLL:
    """The library as the file is now. The system knows what it has loaded by its name first, so a file that took the place of another
    one is opened by a name that was never used; a file that is loaded already is the same library by any name.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="loopsmith-")
    except OSError:  # nowhere to write: there, nobody puts another library at a path either
        return ctypes.CDLL(str(path))
    with folder as name:
        link = Path(name, path.name)
        link.symlink_to(path)
        return ctypes.CDLL(str(link))


def _constants_of(handle: ctypes.CDLL, metadata: Mapping[str, Any]) -> list[np.ndarray[Any, Any]]:
    """Read-only views of the weights in the library; nothing is copied."""
    entries = metadata.get("constants", ())
    if not entries:
        return []
    base = ctypes.addressof(ctypes.c_char.in_dll(handle, CONSTANTS_SYMBOL))
    arrays = []
    for entry in entries:
        kind = numpy_dtype(entry["dtype"])
        count = int(np.prod(entry["shape"], dtype=np.int64))
        if count == 0:
            arrays.append(np.empty(entry["shape"], kind))
            continue
        buffer = (ctypes.c_char * (count * kind.itemsize)).from_address(base + entry["offset"])
        value = np.frombuffer(memoryview(buffer), kind, count).reshape(entry["shape"])
        value.flags.writeable = False
        arrays.append(value)
    return arrays


def _device_code_of(handle: ctypes.CDLL, described: Any) -> DeviceCode | None:
    """What a device runs of a library that was built for one."""
    if described is None:
        return None
    base = ctypes.addressof(ctypes.c_char.in_dll(handle, DEVICE_CODE_SYMBOL))
    return DeviceCode.of_parts(described, ctypes.string_at(base, sum(described["sizes"])))


def load_module(path: str | os.PathLike[str]) -> Executable:
    """Open a model that ``export_library`` wrote: the same as :meth:`Executable.load`."""
    return Executable.load(path)
