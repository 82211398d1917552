"""A lowered module with kernels, run on the CPU: the interpreter is the host, and launches run emulated CUDA C++."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .... import dtype as dt
from ....module import IRModule
from ....registry import registered
from ....tir.interpreter.bulk_copies import TensorMap
from ....tir.interpreter.machine import run
from ....tir.kernel_launch import DYNAMIC_SHARED_MEMORY, KernelLaunch, is_kernel
from ..codegen import CudaSource
from .compile import EmulatedModule, emulate
from .errors import LaunchError
from .tensor_map import encoded_tensor_map


class EmulatedProgram:
    """A program for CUDA whose kernels are compiled for the CPU: ``ir.build(func, target).emulate()``.

    Args:
        module: lowered.
        source: of its kernels.

    Raises:
        EmulationError: there is no C++ compiler, or it refuses the source.
    """

    def __init__(self, module: IRModule, source: CudaSource) -> None:
        self.source = source
        self._hosts = module.replace(
            functions={var: func for var, func in module.functions.items() if not is_kernel(func)}
        )
        self._kernels = emulate(source.text, list(source.kernels))

    def __call__(self, *args: Any, name: str = "main", seed: int = 0) -> None:
        """Run a host function on numpy arrays (outputs are written in place) and numbers.

        Args:
            args: one per parameter.
            name: the function.
            seed: of the order in which the threads of a block run; 0 is ascending.

        Raises:
            InterpreterError: the host's part does what has no meaning.
            EmulationError: a kernel does.
        """
        launches = {
            name: partial(_launch, self._kernels, name, launch, seed)
            for name, launch in self.source.launches.items()
        }
        with registered(launches):
            run(self._hosts, *args, name=name)


def _launch(kernels: EmulatedModule, name: str, launch: KernelLaunch, seed: int, *given: Any) -> None:
    """What a packed call of a kernel does: arguments, then the launch's parameters."""
    params = launch.params
    args, values = given[: len(given) - len(params)], given[len(given) - len(params) :]
    extents = {tag: int(value) for tag, value in zip(params, values, strict=True)}
    if any(extents[tag] == 0 for tag in launch.extents):
        return
    if (misfit := launch.misfit(extents)) is not None:
        raise LaunchError(f"kernel {name}: {misfit}")
    grid, block = ([extents.get(f"{kind}.{axis}", 1) for axis in "xyz"] for kind in ("blockIdx", "threadIdx"))
    encoded = [
        _encoded(arg) if isinstance(arg, TensorMap) else _codes(arg, param.dtype)
        for arg, param in zip(args, kernels.parameters[name], strict=True)
    ]
    kernels.launch(name, grid, block, extents.get(DYNAMIC_SHARED_MEMORY, 0), encoded, seed)


def _codes(arg: Any, dtype: str) -> Any:
    """An argument; of an array of narrow floats the codes, where the kernel takes those (:class:`ir.tir.transform.FP8StorageLegalize`)."""
    is_narrow = isinstance(arg, np.ndarray) and arg.itemsize <= 2 and dt.is_float(dt.from_numpy(arg.dtype))
    return arg.view(dtype) if is_narrow and dtype in ("uint8", "uint16") else arg


def _encoded(tensor_map: TensorMap) -> Any:
    """The bytes of a tensor map that the host's part has made."""
    address = tensor_map.pointer.handed_out().ctypes.data
    of = tensor_map
    return encoded_tensor_map(address, dt.bytes_of(of.dtype), of.shape, of.strides, of.box, of.swizzle)
