"""CUDA's driver library through ctypes: its functions by name, and its errors as exceptions that say what to do.

The library is loaded when it is first needed. A process that is forked from one that uses CUDA cannot use it, as the driver says of
itself; here it is told so.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    POINTER,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_ulonglong,
    c_void_p,
)
from typing import Any

from ir.target.cuda_device import DRIVER_VARIABLE, driver_library

from ..error import DeviceError, RunnerError

OUT_OF_MEMORY, NOT_READY = 2, 600
_INVALID_IMAGE = 200
_LOST = {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 722}
"""Errors after which the process can do nothing more with the device (CUDA driver API, "CUresult")."""
_ADVICE = {
    1: "the driver does not accept an argument: of a launch, the grid, the block or the bytes of shared memory",
    3: "CUDA was not initialized in this process",
    35: "the driver is older than the code; install a newer one",
    100: "there is no CUDA device; see what nvidia-smi says",
    200: "the code is none that the driver knows",
    209: "the code is for another architecture; build it for Target.from_device of this device",
    218: "the driver cannot compile this PTX; build for the architecture of this device",
    700: "a kernel read or wrote memory that is not its own; ir.tir.interpreter.run says where",
    701: "the kernel takes more registers or threads than a multiprocessor has for a block; use fewer threads",
    702: "the system ended a kernel that ran too long",
    716: "a kernel accessed memory at an address that is no multiple of the access's size",
    719: "a kernel failed; ir.tir.interpreter.run says where",
    802: "the system's devices are not ready; is the fabric manager running?",
    803: "the driver library does not fit the system's driver; reboot, or install the one that fits",
}
_NEWER = {"cuTensorMapEncodeTiled": "12.0"}
"""Functions that a driver may lack as long as nobody calls them, by the version of CUDA that has them."""
_SIGN = "loopsmith_stand_in_message"
"""A function that only the stand-in has."""
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetUuid_v2": (c_void_p, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(c_void_p), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemcpyPeerAsync": (c_uint64, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamQuery": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, POINTER(c_void_p)),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_ulonglong),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p),
    "cuTensorMapEncodeTiled": (c_void_p, c_int, c_uint, c_uint64, *[c_void_p] * 4, *[c_int] * 4),
}
"""Every function that is called, with the types of its arguments; all give a CUresult."""


class CudaError(RunnerError, RuntimeError):
    """A function of CUDA's failed.

    Attributes:
        code: CUDA's number of the error.
        name: CUDA's name of it, as ``"CUDA_ERROR_ILLEGAL_ADDRESS"``.
    """

    def __init__(self, message: str, code: int = 0, name: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.name = name


class CudaOutOfMemory(CudaError):
    """The device has not so much memory left."""


class CudaContextLost(CudaError):
    """A kernel failed so that this process can do nothing more with the device: what it had there is gone."""


class CudaUnavailable(DeviceError):
    """There is no driver, no such device, or this process may not use it."""


class Driver:
    """A loaded and initialized driver library; use :func:`driver`.

    Args:
        library: its path or name.

    Raises:
        CudaUnavailable: it is not there, lacks functions, or does not start.
    """

    def __init__(self, library: str) -> None:
        self.path = library
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise CudaUnavailable(
                f"no CUDA driver: {error}; install NVIDIA's driver, whose library is libcuda.so.1, or see whether {DRIVER_VARIABLE} names"
                " another one"
            ) from error
        self._functions: dict[str, Any] = {}
        for name, types in _FUNCTIONS.items():
            try:
                function = self._library[name]
            except AttributeError:
                if name in _NEWER:
                    continue
                raise CudaUnavailable(
                    f"the CUDA driver at {library} has no function {name}; install one of CUDA 11.4 or newer"
                ) from None
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function
        self.launch = self._functions["cuLaunchKernel"]
        """``cuLaunchKernel`` itself, for those who call it often: its status goes to :meth:`check`."""
        status = self._functions["cuInit"](0)
        if status:
            refused = self._error(status, "cuInit")
            raise CudaUnavailable(f"CUDA does not start: {refused}") from refused

    @property
    def stands_in(self) -> bool:
        """Whether it is the library of :mod:`runners.cuda.stand_in`, which runs kernels on the processor."""
        return hasattr(self._library, _SIGN)

    @property
    def encode(self) -> Any:
        """``cuTensorMapEncodeTiled`` itself; None of an older driver, of which :meth:`call` says so."""
        return self._functions.get("cuTensorMapEncodeTiled")

    @property
    def device_count(self) -> int:
        """Devices of this machine that the process may use."""
        return self.number("cuDeviceGetCount")

    def call(self, name: str, *args: Any) -> None:
        """Call a function.

        Raises:
            CudaError: it fails; :class:`CudaOutOfMemory` and :class:`CudaContextLost` for what they say.
        """
        if name not in self._functions:
            raise CudaError(
                f"{name}: the CUDA driver at {self.path} is older than CUDA {_NEWER[name]}; install a newer one"
            )
        status = self._functions[name](*args)
        if status:
            raise self._error(status, name)

    def check(self, status: int, what: str) -> None:
        """Raises what :meth:`call` does for a status."""
        if status:
            raise self._error(status, what)

    def status(self, name: str, *args: Any) -> int:
        """The status of a call."""
        return int(self._functions[name](*args))

    def number(self, name: str, *args: Any) -> int:
        """The integer that a function gives through its first argument."""
        value = c_int()
        self.call(name, ctypes.byref(value), *args)
        return value.value

    def handle(self, name: str, *args: Any) -> int:
        """The handle that a function gives through its first argument."""
        value = c_void_p()
        self.call(name, ctypes.byref(value), *args)
        return value.value or 0

    def _error(self, status: int, what: str) -> CudaError:
        name, text = self._text("cuGetErrorName", status), self._text("cuGetErrorString", status)
        message = f"{what}: {name or f'CUDA error {status}'}"
        if text and text != name:
            message += f" ({text})"
        if self.stands_in:
            self._library.loopsmith_stand_in_message.restype = c_char_p
            said = self._library.loopsmith_stand_in_message().decode(errors="replace")
            message += f": {said}" if said and status in {*_LOST, _INVALID_IMAGE} else ""
        if status in _ADVICE:
            message += f"; {_ADVICE[status]}"
        kind = (
            CudaOutOfMemory if status == OUT_OF_MEMORY else CudaContextLost if status in _LOST else CudaError
        )
        return kind(message, status, name)

    def _text(self, function: str, status: int) -> str:
        found = c_char_p()
        if self._library[function](c_int(status), ctypes.byref(found)) != 0 or found.value is None:
            return ""
        return found.value.decode()


_loaded: Driver | None = None
_belongs_to_parent = False


def _leave_to_parent() -> None:
    global _loaded, _belongs_to_parent
    if _loaded is not None:
        _loaded, _belongs_to_parent = None, True


os.register_at_fork(after_in_child=_leave_to_parent)


def driver() -> Driver:
    """The driver of this process.

    Raises:
        CudaUnavailable: there is none, or this process was forked from one that uses it.
    """
    global _loaded
    if _belongs_to_parent:
        raise CudaUnavailable(
            "CUDA cannot be used in a process that was forked from one that uses it; start the process otherwise, as with"
            " multiprocessing.get_context('spawn')"
        )
    if _loaded is None or _loaded.path != driver_library():
        _loaded = Driver(driver_library())
    return _loaded


def stands_in() -> bool:
    """Whether this process would use the library of :mod:`runners.cuda.stand_in`; a driver is not started to find out."""
    if not os.environ.get(DRIVER_VARIABLE):
        return False
    try:
        return hasattr(ctypes.CDLL(driver_library()), _SIGN)
    except OSError:
        return False


def belongs_to_parent() -> bool:
    """Whether this process was forked from one that uses CUDA: what it finds of its parent's it must leave alone."""
    return _belongs_to_parent


def device_count() -> int:
    """CUDA devices that this process may use: 0 without a driver."""
    try:
        return driver().device_count
    except (CudaUnavailable, CudaError):
        return 0
