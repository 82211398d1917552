"""Object files in this process's memory.

LLVM's linker for code that is made at run time (JITLink, through its ORC interface) places all sections of an object file in
one piece of memory. They reach each other by 32-bit distances, and would not if the piece had gigabytes of arrays in between.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Collection, Iterable
from functools import lru_cache

import llvmlite.binding as llvm

from ..error import CodegenError
from .compile import LLVM_LOCK, MachineOptions, initialize, require_host
from .object_file import symbols

_numbers = itertools.count()
_LIBRARIES_PER_LINKER = 256
"""A linker keeps some kilobytes for each library that it ever had: one that has had so many is let go with the last of them."""


class LoadedObject:
    """Object files linked to each other and to this process; they stay as long as this Python object lives.

    Args:
        codes: bytes of object files from :func:`~ir.codegen.llvm.compile.emit_object`.
        options: what they were made for.
        features: LLVM's names of features of the processor that they use beside those that all code for it does.

    Raises:
        CodegenError: they are for a processor that this one cannot stand in for, need a function that this process does not have,
            or are no object files, or this is no Linux: symbols are read from ELF files only.
    """

    def __init__(
        self, *codes: bytes, options: MachineOptions = MachineOptions(), features: Collection[str] = ()
    ) -> None:
        _require_linux()
        require_host(options, features)
        tables = [symbols(code) for code in codes]
        self._names = {name for table in tables for name in table.defined}
        undefined = {name for table in tables for name in table.undefined} - self._names
        builder = llvm.JITLibraryBuilder()
        for name, address in _addresses(undefined, options).items():
            builder.import_symbol(name, address)
        for name in self._names:
            builder.export_symbol(name)
        for code in codes:
            builder.add_object_img(code)
        try:
            self._library = _link(builder)
        except RuntimeError as error:
            raise CodegenError(f"LLVM cannot load the compiled object: {error}") from error

    def address(self, name: str) -> int:
        """Address of a function or global.

        Raises:
            CodegenError: when the object has no such symbol.
        """
        if name not in self._names:
            raise CodegenError(f"the compiled object has no symbol {name!r}")
        return int(self._library[name])


def _require_linux() -> None:
    """Refuse other systems: their object files have other formats, and the runtime's threads call Linux by its numbers."""
    if sys.platform != "linux":
        raise CodegenError(
            f"code is loaded and run on Linux, from ELF object files; this is {sys.platform}: objects for a target with"
            " -mtriple=x86_64-unknown-linux-gnu or another Linux can be built here and run there"
        )


def _link(builder: llvm.JITLibraryBuilder) -> llvm.ResourceTracker:
    """Links a library of its own name; what is returned keeps it, and the linker that has it, in memory."""
    number = next(_numbers)
    with LLVM_LOCK:
        return builder.link(_linker(number // _LIBRARIES_PER_LINKER), f"library_{number}")


@lru_cache(maxsize=1)
def _linker(generation: int) -> llvm.LLJIT:
    initialize()
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="small", jit=True
    )
    return llvm.create_lljit_compiler(machine, use_jit_link=True)


def symbol_exists(name: str) -> bool:
    """Whether code loaded into this process can link against a symbol."""
    return _address(name) is not None


def _address(name: str) -> int | None:
    """Where this process has a symbol: one of :func:`llvm.add_symbol`, or of a library that it has loaded for all."""
    initialize()
    if address := llvm.address_of_symbol(name):
        return int(address)
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError:
        return None


def _addresses(names: Iterable[str], options: MachineOptions) -> dict[str, int]:
    """Where this process has symbols."""
    found = {name: address for name in sorted(names) if (address := _address(name)) is not None}
    if missing := sorted(set(names) - set(found)):
        raise CodegenError(
            f"code for {options.cpu or 'this machine'} calls {', '.join(missing)}, which this process does not have: LLVM has no"
            " instruction for an operation there and expects a library"
        )
    return found
