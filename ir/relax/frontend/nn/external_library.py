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

from ir import dtype as dt
from ir.registry import register_func

from .error import NNError, NNTypeError

_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int), ("device_id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Value(ctypes.Union):
    _fields_ = [
        ("tensor", ctypes.POINTER(_Tensor)),
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
    name = dt.from_numpy(arg.dtype)
    code = next(value for key, value in _CODES.items() if name.startswith(key))
    shape = (ctypes.c_int64 * max(1, arg.ndim))(*arg.shape)
    tensor = _Tensor(
        data=arg.ctypes.data,
        device=_Device(1, 0),
        ndim=arg.ndim,
        dtype=_DataType(code, arg.dtype.itemsize * 8, 1),
        shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        strides=None,
        byte_offset=0,
    )
    kept += [shape, tensor, arg]
    return _Value(tensor=ctypes.pointer(tensor))
