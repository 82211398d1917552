"""Executables: a built model, in this process or as a shared library with its weights inside.

An :class:`Executable` is machine code, constants and a description (:mod:`runners.program`). ``export_library`` links all
three into one file that a C program can call and that :func:`load_module` opens with ctypes and numpy alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .ndarray import numpy_dtype
from .program import CONSTANTS_SYMBOL, FORMAT, METADATA_SYMBOL, ExecutableError, check_compatible


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
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        library: Library,
        constants: Sequence[np.ndarray[Any, Any]] = (),
        objects: Sequence[bytes] | None = None,
        path: str | None = None,
    ) -> None:
        self.metadata: dict[str, Any] = {"format": FORMAT, **metadata}
        self.library = library
        self.constants = list(constants)
        self.path = path
        self._objects = None if objects is None else list(objects)

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
        total = sum(int(value.nbytes) for value in self.constants)
        lines.append(
            f"{len(self.constants)} constants, {total} bytes; {len(self.metadata.get('kernels', ()))} kernels"
        )
        return "\n".join(lines)

    def as_text(self) -> str:
        """The description of the functions, with the instructions of those that are interpreted."""
        return json.dumps(self.metadata["functions"], indent=1)

    def jit(self) -> Executable:
        """The executable itself: its code is loaded already."""
        return self

    def export_library(self, file_name: str | os.PathLike[str], *, header: bool = True) -> Path:
        """Write the model as one shared library with its weights, and ``<name>.h`` beside it for callers in C.

        Args:
            file_name: as ``model.so``.
            header: whether to write the header (only for models with at least one native function).

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
        # Linking needs the compiler; running does not, so the import stays here.
        from ir.codegen.model_library import link_model, write_header

        link_model(self.metadata, self.constants, self._objects, path)
        if header:
            write_header(self.metadata, path.with_suffix(".h"))
        return path

    @staticmethod
    def load(file_name: str | os.PathLike[str]) -> Executable:
        """Open a shared library that :meth:`export_library` wrote; needs numpy only.

        Raises:
            ExecutableError: the file is missing or no model, or this machine cannot run it.
        """
        path = Path(file_name)
        if path.is_dir():
            raise ExecutableError(
                f"{path} is a folder; name a model's shared library in it, such as model.so"
            )
        if not path.is_file():
            raise ExecutableError(
                f"there is no file {path}; check the path, or make the file: `loopsmith build MODEL.onnx -o {path}`, or"
                f" export_library({str(path)!r}) of an executable"
            )
        _require_whole(path)
        try:
            handle = _opened(path.resolve())
            text = ctypes.c_char.in_dll(handle, METADATA_SYMBOL)
        except OSError as error:
            raise ExecutableError(
                f"{path} is no model library of loopsmith: `loopsmith build` makes one of a model ({error})"
            ) from error
        except ValueError as error:
            raise ExecutableError(
                f"{path} is no model library of loopsmith: it describes no model; one of kernels, which build(...).export_library"
                " writes, is for C, as its header says"
            ) from error
        metadata = json.loads(ctypes.string_at(ctypes.addressof(text)))
        check_compatible(metadata, str(path))
        constants = _constants_of(handle, metadata)
        error_text = handle.loopsmith_last_error
        error_text.restype = ctypes.c_char_p

        def address_of(symbol: str) -> int:
            try:
                return int(ctypes.cast(handle[symbol], ctypes.c_void_p).value or 0)
            except AttributeError:
                raise ExecutableError(
                    f"{path} has no symbol {symbol!r}; the file is damaged, build it again"
                ) from None

        library = Library(address_of, lambda: (error_text() or b"").decode("utf-8", "replace"), handle)
        return Executable(metadata, library, constants, None, str(path))


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


def _require_whole(path: Path) -> None:
    """Refuse a file that was cut short, which the system would map and then fail on with a signal."""
    with path.open("rb") as file:
        head = file.read(64)
    if head[:5] != b"\x7fELF\x02" or len(head) < 64:
        return  # of another format: the system says what it thinks of it
    order = "<" if head[5] == 1 else ">"
    (sections,) = struct.unpack_from(order + "Q", head, 0x28)
    size, count = struct.unpack_from(order + "HH", head, 0x3A)
    if path.stat().st_size < sections + size * count:
        raise ExecutableError(f"{path} was cut short; copy it again or build the model again")


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


def load_module(path: str | os.PathLike[str]) -> Executable:
    """Open a model that ``export_library`` wrote: the same as :meth:`Executable.load`."""
    return Executable.load(path)
