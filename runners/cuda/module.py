"""A compiled CUDA program: kernels that the driver loads, and native host functions that launch them::

module = build_module(scheduled, "nvidia/nvidia-a100")
a, b = (runners.array(x, runners.cuda(0)) for x in (x, y))
module["main"](a, b)
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import numpy as np

from ir.codegen.build import NativeModule, build
from ir.codegen.cuda.cache import compile_cached
from ir.codegen.cuda.codegen import PARAMETER_ALIGNMENT, CudaSource
from ir.codegen.cuda.nvrtc import CompiledKernels
from ir.codegen.cuda.program import CudaProgram
from ir.codegen.cuda.program import build_cuda as build_program
from ir.codegen.cuda.resources import KernelResources
from ir.codegen.entry import KernelError
from ir.module import IRModule
from ir.target import Target
from ir.target.cuda_device import cuda_attributes
from ir.tir.function import PrimFunc

from ..device import Device
from ..error import RunnerError
from ..ndarray import NDArray, from_dlpack
from .array import DeviceArray
from .bound import BoundCall
from .context import Context, context
from .driver import CudaError, stands_in
from .host import ALLOCATE, ENCODE_TENSOR_MAP, FREE, host_functions, stored_by_kernels
from .launch import HostCall, Launch, LoadedKernel
from .stand_in import image


class CudaModule:
    """Kernels and the functions that launch them; it can be sent to another process, which loads it on its own device.

    Args:
        source: of the kernels.
        host: native code of the host functions, made of :func:`.host.host_functions`.
        arch: the architecture that the source was made for.
    """

    def __init__(self, source: CudaSource, host: NativeModule, arch: str) -> None:
        self.device_source = source
        self._host = host
        self.arch = arch
        self.images: dict[str, bytes] = {}
        """What drivers load, by the architecture."""
        self._start()

    def _start(self) -> None:
        self._loaded: dict[Context, dict[str, LoadedKernel]] = {}
        self._loading = threading.Lock()
        self._scope = threading.local()
        own: dict[str, Callable[..., Any]] = {
            ALLOCATE: lambda nbytes: self._call.allocate(nbytes),
            FREE: lambda address: self._call.free(address),
            ENCODE_TENSOR_MAP: lambda *layout: self._call.encode_tensor_map(*layout),
        }
        for name in self.device_source.kernels:
            own[name] = partial(self._launch, name)
        self._host.own_functions = own

    def __getstate__(self) -> dict[str, Any]:
        names = ("device_source", "_host", "arch", "images")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    # -- calling -----------------------------------------------------------------
    def __getitem__(self, name: str) -> CudaFunction:
        """The host function of this name; raises KernelError listing what there is."""
        self._host[name]  # says what there is
        return CudaFunction(self, name)

    def __call__(self, *args: Any) -> Any:
        """Call the function of a module that has one."""
        names = self.functions()
        if len(names) != 1:
            raise KernelError(
                f"the module has {len(names)} functions; name one, as in module[name](...), of: {', '.join(sorted(names))}"
            )
        return self[names[0]](*args)

    def __contains__(self, name: object) -> bool:
        return name in self._host

    def functions(self) -> list[str]:
        """Names of the host functions."""
        return self._host.functions()

    @property
    def host(self) -> NativeModule:
        """The native code of the host functions."""
        return self._host

    @contextmanager
    def during(self, call: HostCall) -> Iterator[None]:
        """Within, what host functions ask for in this thread goes to a call."""
        before = getattr(self._scope, "call", None)
        self._scope.call = call
        try:
            yield
        finally:
            self._scope.call = before

    @property
    def _call(self) -> HostCall:
        found: HostCall | None = getattr(self._scope, "call", None)
        if found is None:
            raise RunnerError("a host function of a CUDA program is called through its CudaModule")
        return found

    def _launch(self, name: str, *given: Any) -> None:
        self._call.launch(name, *given)

    def kernels_on(self, of: Context) -> dict[str, LoadedKernel]:
        """The kernels, loaded on a device.

        Raises:
            CudaError: the driver does not take the code.
            CudaCompileError: a kernel is too large for the device's architecture.
        """
        with self._loading:
            if of not in self._loaded:
                code = self.code_for(_arch_of(of))
                of.make_current()
                handle = of.driver.handle("cuModuleLoadData", code)
                weakref.finalize(self, of.unload, handle).atexit = False
                self._loaded[of] = {
                    name: LoadedKernel(of, handle, name, func, self.device_source.launches[name])
                    for name, func in self.device_source.kernels.items()
                }
            return self._loaded[of]

    # -- code ----------------------------------------------------------------------
    def code_for(self, arch: str | None = None) -> bytes:
        """What the driver loads: a cubin for an architecture, or what the stand-in has in its place."""
        key = "stand-in" if stands_in() else arch or self.arch
        found = self.images.get(key)
        if found is None:
            if key == "stand-in":
                found = image(self.device_source.text, list(self.device_source.kernels))
            else:
                found = compile_cached(self.device_source.text, key).cubin
            self.images[key] = found
        return found

    @cached_property
    def _compiled(self) -> CompiledKernels:
        return compile_cached(self.device_source.text, self.arch)

    def source(self, kind: str = "cuda") -> str:
        """The text of the kernels: ``"cuda"`` (C++) or ``"ptx"``; ``"llvm"`` is that of the host functions.

        Raises:
            RunnerError: another kind is asked for.
        """
        if kind == "cuda":
            return self.device_source.text
        if kind == "ptx":
            return self.ptx
        if kind == "llvm":
            return self._host.llvm_ir
        raise RunnerError(f"a CUDA module has the sources 'cuda', 'ptx' and 'llvm', not {kind!r}")

    @property
    def ptx(self) -> str:
        """PTX of the kernels for the architecture that they were made for."""
        return self._compiled.ptx

    @property
    def resources(self) -> dict[str, KernelResources]:
        """What each kernel takes of a multiprocessor of that architecture."""
        return self._compiled.resources


class CudaFunction:
    """A host function that takes arrays on a device and numbers; outputs are written in place, behind what the stream was given before."""

    def __init__(self, module: CudaModule, name: str) -> None:
        self._module, self.name = module, name

    def __call__(self, *args: Any) -> Any:
        """Starts the function on the device of its arguments, on the stream that this thread works on, and does not wait for it.

        Args:
            args: an NDArray on a device, or what speaks DLPack there, for each buffer; a number for each scalar.

        Raises:
            KernelError: arguments do not fit, naming the parameter, or lie on the processor or on several devices.
            CudaError: a launch is refused. What fails later is told by whoever waits, as ``numpy()`` and ``Device.sync``.
        """
        of, given = self._given(args)
        stream = of.stream.handle
        return self._run(of, given, lambda launch: launch.start(of, stream))

    def call_filled(self, byte: int, *args: Any) -> Any:
        """A call whose own memory on the device is filled with a byte before."""
        of, given = self._given(args)
        stream = of.stream.handle
        return self._run(of, given, lambda launch: launch.start(of, stream), byte)

    def bind(self, *args: Any) -> BoundCall:
        """A call on these arguments whose launches are prepared: the host function has run, and is not asked again."""
        of, given = self._given(args)
        launches: list[Launch] = []
        kept: list[Any] = [args, self._module]
        self._run(of, given, launches.append, kept=kept)
        return BoundCall(of, launches, kept)

    def _run(
        self,
        of: Context,
        given: Sequence[Any],
        start: Callable[[Launch], None],
        filled: int | None = None,
        kept: list[Any] | None = None,
    ) -> Any:
        call = HostCall(of, self._module.kernels_on(of), start, filled)
        call.kept = kept
        of.make_current()
        try:
            with self._module.during(call):
                return self._module.host[self.name](*given)
        except KernelError as error:
            if isinstance(error.__cause__, CudaError):
                raise error.__cause__ from None
            raise

    def _given(self, args: Sequence[Any]) -> tuple[Context, list[Any]]:
        """The device of the arrays, and the arguments as their layouts, which say all but the elements."""
        signature = self._module.host.signatures[self.name]
        items = [item for item in signature.parameters if item.kind in ("buffer", "scalar")]
        names = [item.name for item in items] if len(items) == len(args) else ["?"] * len(args)
        of: Context | None = None
        given = []
        for name, value in zip(names, args):
            array = _on_device(f"{self.name}: argument {name}", value)
            if array is None:
                given.append(value)
                continue
            if of is not None and array.context is not of:
                raise KernelError(
                    f"{self.name}: argument {name} is on {array.context.device}, others are on {of.device}; copy it with"
                    f" .copyto(runners.cuda({of.index}))"
                )
            of = array.context
            if array.size and array.ptr % PARAMETER_ALIGNMENT:
                raise KernelError(
                    f"{self.name}: argument {name} begins at an address that is no multiple of {PARAMETER_ALIGNMENT} bytes, which threads"
                    " read at once; pass a copy of the view"
                )
            given.append(array.layout)
        return of or context(0), given


def _on_device(where: str, value: Any) -> DeviceArray | None:
    """An array on a device, None for what is no array."""
    if isinstance(value, np.generic | int | float):
        return None
    if isinstance(value, NDArray):
        array = value
    elif isinstance(value, np.ndarray) and value.ndim == 0:
        return None
    elif isinstance(value, np.ndarray):
        array = NDArray(value)
    elif hasattr(value, "__dlpack_device__") or hasattr(value, "__cuda_array_interface__"):
        array = from_dlpack(value) if hasattr(value, "__dlpack__") else NDArray(value, Device(Device.kDLCUDA))
    else:
        return None
    if not isinstance(array.data, DeviceArray):
        raise KernelError(f"{where} is on the processor; copy it with runners.array(x, runners.cuda(0))")
    return array.data


def _arch_of(of: Context) -> str:
    told = cuda_attributes(of.index)
    assert told is not None  # the context is of this driver
    return str(told["arch"])


def build_module(
    program: PrimFunc | IRModule | CudaProgram,
    target: Target | str | Mapping[str, Any] | None = None,
    *,
    compiled: bool = True,
) -> CudaModule:
    """Lower a scheduled program for a CUDA target, and compile it.

    Args:
        program: a PrimFunc or a module of them, its loops bound to threads; or what ``ir.build`` made of one.
        target: of kind ``cuda``; of what was built it is known.
        compiled: whether kernels are compiled now, for the architecture of the target; else when they are first loaded or looked at.

    Raises:
        RunnerError: the target is of another kind, or something is done outside of kernels.
        CodegenError: something has no form in CUDA C++ or native code.
        CudaCompileError: a kernel is too large for the architecture.
    """
    built = program if isinstance(program, CudaProgram) else _built(program, target)
    host = build(host_functions(built.module), built.target.host or "llvm", unroll=False)
    for name, numbers in stored_by_kernels(built.module).items():
        host.signatures[name] = host.signatures[name].storing_to(numbers)
    module = CudaModule(built.kernels, host, str(built.target.arch))
    if compiled:
        module.code_for()
    return module


def _built(program: PrimFunc | IRModule, target: Any) -> CudaProgram:
    resolved = target if isinstance(target, Target) else Target("cuda" if target is None else target)
    if resolved.kind.name != "cuda":
        raise RunnerError(f"CUDA modules are built for targets of kind 'cuda', got {resolved}")
    return build_program(program, resolved)
