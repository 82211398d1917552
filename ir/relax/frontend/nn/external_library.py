"""Compiled external code at run time: an object file linked to a shared library, its functions called on numpy arrays."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ir.dlpack_layout import DLTensor, tensor_struct
from ir.registry import register_func

from .error import NNError, NNTypeError


class _Value(ctypes.Union):
    _fields_ = [
        ("tensor", ctypes.POINTER(DLTensor)),
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_double),
        ("text", ctypes.c_char_p),
    ]


class ExternalLibrary:
    """The functions of an object file.

    ``code`` is the object file's contents, ``symbols`` its functions, ``compiler`` the command that links it.
    """

    def __init__(self, code: bytes, symbols: tuple[str, ...], compiler: str) -> None:
        self.code = code
        self.symbols = symbols
        self.compiler = compiler
        self._library: ctypes.CDLL | None = None

    def __getitem__(self, symbol: str) -> Callable[..., None]:
        """A function that takes arrays (inputs, then outputs to write), numbers and strings."""
        if symbol not in self.symbols:
            raise NNError(f"the external module has no function {symbol!r}; it has {sorted(self.symbols)}")
        try:
            native = getattr(self._loaded(), symbol)
        except AttributeError:
            raise NNError(
                f"the object file does not export {symbol!r}; export it with TVM_DLL_EXPORT_TYPED_FUNC({symbol}, ...)"
            ) from None
        native.restype = ctypes.c_int

        def call(*args: Any) -> None:
            kept: list[Any] = []
            values = (_Value * max(1, len(args)))(*[_as_value(symbol, arg, kept) for arg in args])
            status = native(values, len(args))
            if status == -1:
                raise NNTypeError(f"{symbol} takes another number of arguments than the {len(args)} given")
            if status:
                raise NNError(f"the external function {symbol} failed with status {status}")

        call.__name__ = symbol
        return call

    def register(self) -> None:
        """Make the functions known by name to programs that are run (``ir.get_global_func``)."""
        for symbol in self.symbols:
            register_func(symbol, self[symbol], override=True)

    def _loaded(self) -> ctypes.CDLL:
        if self._library is None:
            folder = tempfile.TemporaryDirectory(prefix="loopsmith-external-")
            weakref.finalize(self, folder.cleanup)
            source, target = Path(folder.name) / "code.o", Path(folder.name) / "code.so"
            source.write_bytes(self.code)
            done = subprocess.run(
                [self.compiler, "-shared", "-o", str(target), str(source)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise NNError(
                    f"{self.compiler} cannot link the external module with {list(self.symbols)}:\n{done.stderr}"
                )
            self._library = ctypes.CDLL(str(target))
        return self._library


def _as_value(symbol: str, arg: Any, kept: list[Any]) -> _Value:
    if isinstance(arg, bool | int | np.integer):
        return _Value(integer=int(arg))
    if isinstance(arg, float | np.floating):
        return _Value(number=float(arg))
    if isinstance(arg, str):
        return _Value(text=arg.encode())
    if hasattr(arg, "data") and isinstance(arg.data, np.ndarray):  # the runtime's array around a numpy one
        arg = arg.data
    if not isinstance(arg, np.ndarray):
        raise NNTypeError(f"{symbol}: an argument is an array, a number or a str, got {type(arg).__name__}")
    if not arg.flags.c_contiguous:
        raise NNTypeError(f"{symbol}: arrays must be contiguous, got strides {arg.strides}")
    tensor, alive = tensor_struct(arg)
    kept += [tensor, *alive]
    return _Value(tensor=ctypes.pointer(tensor))
