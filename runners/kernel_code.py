"""Built kernels and programs as bytes, which another process or machine loads and checks: artefacts that need nothing of who made them.

Beside the code of a kernel there is the program that it was built from, in the JSON of :mod:`ir.json_format`: the check looks into it.
Bytes are known by their content (SHA-256), so that they need to be sent once.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

from ir.codegen.container import ContainerError, pack, unpack
from ir.codegen.error import CodegenError
from ir.error import IRError
from ir.json_format import load_json, save_json
from ir.module import IRModule

from .kernel import Kernel
from .native import NativeKernel


def packed_kernel(kernel: Kernel) -> bytes:
    """A kernel as bytes.

    Raises:
        CodegenError: it was made by a build function of the user's own, or calls Python functions.
    """
    call = kernel.call
    pack_call = getattr(call, "packed", None)
    if pack_call is None:
        raise CodegenError(
            f"a {type(call).__name__} has no form in bytes: for devices elsewhere, kernels are built without f_build"
        )
    kind, described, code = pack_call()
    program = save_json(kernel.mod).encode()
    return pack({"kind": kind, **described}, [program, code])


def unpacked_kernel(data: bytes) -> Kernel:
    """The kernel that :func:`packed_kernel` was given; its code is loaded when it is first called.

    Raises:
        ContainerError: the bytes are something else.
    """
    described, sections = unpack(data)
    try:
        program, code = sections
        mod = ProgramText(program).unpacked()
        call = _calls(described.get("kind")).unpacked(described, code)
    except ContainerError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, IRError) as error:
        raise ContainerError(f"the bytes are no built kernel: {error}") from error
    return Kernel(mod, call)


def _calls(kind: Any) -> Any:
    """The class of kernels of a kind."""
    if kind == NativeKernel.KIND:
        return NativeKernel
    if kind == "cuda":
        return import_module(".cuda.kernel", __package__).DeviceKernel  # a processor's worker does without it
    raise ValueError(f"there are no kernels of the kind {kind!r}")


def digest(data: bytes) -> str:
    """The name of bytes by their content: SHA-256, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class KernelCode:
    """A built kernel as :func:`packed_kernel` has it; it stands for the program wherever one is built."""

    data: bytes

    @cached_property
    def key(self) -> str:
        """The name of its content."""
        return digest(self.data)

    def unpacked(self) -> Kernel:
        """The kernel; raises ContainerError where the bytes are something else."""
        return unpacked_kernel(self.data)


@dataclass(frozen=True)
class ProgramText:
    """An unscheduled program in the JSON of :mod:`ir.json_format`; it stands for the program wherever candidates are compared with one."""

    data: bytes

    @cached_property
    def key(self) -> str:
        """The name of its content."""
        return digest(self.data)

    @staticmethod
    def of(mod: Any) -> ProgramText:
        """The text of a program."""
        return ProgramText(save_json(mod).encode())

    def unpacked(self) -> Any:
        """The program.

        Raises:
            ContainerError: the bytes are something else.
        """
        try:
            mod = load_json(self.data.decode())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, IRError) as error:
            raise ContainerError(f"the bytes are no program: {error}") from error
        if not isinstance(mod, IRModule):
            raise ContainerError(f"the bytes are a {type(mod).__name__}, not a program")
        return mod


class ProgramTexts:
    """The texts of programs that were asked for last: the same few are, again and again. Threads may share it."""

    _KEPT = 64

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, ProgramText]] = {}
        self._writing = threading.Lock()

    def of(self, mod: Any) -> ProgramText:
        """The text of a program, or what is one already."""
        if isinstance(mod, ProgramText):
            return mod
        with self._writing:
            found = self._found.get(id(mod))
            if found is None or found[0] is not mod:
                while len(self._found) >= self._KEPT:
                    self._found.pop(next(iter(self._found)))
                found = self._found[id(mod)] = (mod, ProgramText.of(mod))
            return found[1]
