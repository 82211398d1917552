"""The kernels of a model, loaded on a device: once for all machines that run it there."""

from __future__ import annotations

import ctypes
import threading
import weakref
from importlib import import_module

from ..device_code import DeviceCode
from .context import Context
from .driver import CudaError
from .dynamic_memory import DynamicMemory

_OTHER_ARCHITECTURE = {200, 209}
"""CUDA_ERROR_INVALID_IMAGE and CUDA_ERROR_NO_BINARY_FOR_GPU: the cubin is for another device."""


class LoadedCode:
    """Kernels as the driver knows them, by their numbers.

    Args:
        code: what to load; None for a model without kernels.
        of: the device's context.

    Raises:
        CudaError: the driver does not take the code, or a kernel asks for more shared memory than the device has.
    """

    def __init__(self, code: DeviceCode | None, of: Context) -> None:
        kernels = [] if code is None else code.kernels
        self.names = [kernel["name"] for kernel in kernels]
        self.table = (ctypes.c_void_p * max(1, len(kernels)))()
        if code is None:
            return
        of.make_current()
        handle = _load(code, of)
        weakref.finalize(self, of.unload, handle).atexit = False
        for number, kernel in enumerate(kernels):
            function = of.driver.handle("cuModuleGetFunction", handle, kernel["name"].encode())
            DynamicMemory(of, function, kernel["name"]).allow(kernel["dynamic_shared_bytes"])
            self.table[number] = function


def _load(code: DeviceCode, of: Context) -> int:
    if of.driver.stands_in:
        # only tests and machines without a GPU need what compiles for the processor
        image = import_module(".stand_in", __package__).image
        return of.driver.handle(
            "cuModuleLoadData", image(code.source, [item["name"] for item in code.kernels])
        )
    try:
        return of.driver.handle("cuModuleLoadData", code.cubin)
    except CudaError as error:
        if error.code not in _OTHER_ARCHITECTURE:
            raise
        try:
            return of.driver.handle("cuModuleLoadData", code.ptx.encode() + b"\0")
        except CudaError as second:
            raise CudaError(
                f"the model was built for {code.arch}, and {of.device} ({of.name}) is an sm_{of.capability[0]}{of.capability[1]}, which"
                f" runs neither its code nor its PTX; build it for this device ({second})",
                second.code,
                second.name,
            ) from error


_LOADED: weakref.WeakKeyDictionary[DeviceCode, dict[Context, LoadedCode]] = weakref.WeakKeyDictionary()
_LOADING = threading.Lock()


def loaded_code(code: DeviceCode | None, of: Context) -> LoadedCode:
    """The code on a device, loaded by whoever asks first.

    Raises:
        CudaError: as of :class:`LoadedCode`.
    """
    if code is None:
        return LoadedCode(None, of)
    with _LOADING:
        devices = _LOADED.setdefault(code, {})
        if of not in devices:
            devices[of] = LoadedCode(code, of)
        return devices[of]
