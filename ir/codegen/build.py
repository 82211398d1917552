"""``build``: from a PrimFunc or module to native code that is called with numpy arrays, saved, or exported::

native = build(func, "llvm")
native["main"](a, b, c)
native.export_library("kernels.so", header="kernels.h")
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import dtype as dt
from ..module import IRModule
from ..registry import get_global_func
from ..target.target import Target
from ..tir.analysis.workspace import scratch_bytes
from ..tir.analysis.written_params import stored_params
from ..tir.function import PrimFunc
from ..tir.lower import lower
from ..tir.transform.hoist_sign_correction import HoistSignCorrection
from .entry import KernelError, KernelMemoryError, prepare
from .error import CodegenError, what_it_is
from .forking import hold_at_fork
from .llvm import compile as native
from .llvm.codegen import GeneratedModule, generate
from .llvm.compile import MachineOptions
from .llvm.dot_product import features_of, instructions, needs_sign_corrections
from .llvm.kernel_context import OUT_OF_MEMORY, PYTHON_RAISED, PackedSite
from .llvm.loaded_object import LoadedObject, symbol_exists
from .llvm.matrix import MATRIX_FEATURES, has_matrix_unit, uses_matrix_unit
from .llvm.object_file import code_bytes
from .llvm.runtime import SYMBOLS, runtime, runtime_object
from .llvm.signature import Signature, passed_float
from .llvm.symbols import function_name
from .raised import RaisedExceptions

LOADING = threading.Lock()
"""Held while code and the runtime are loaded into the process: threads that call first at once must load one."""
hold_at_fork(LOADING.acquire, LOADING.release)
_PACKED = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64)
)


class NativeFunction:
    """A kernel that takes numpy arrays (or NDArrays) and numbers; outputs are written in place."""

    def __init__(self, module: NativeModule, signature: Signature) -> None:
        self._module = module
        self.signature = signature
        self.name = signature.name
        types: list[Any] = []
        for item in signature.parameters:
            if item.kind in ("buffer", "result"):
                types.append(ctypes.c_void_p)
            elif item.kind == "scalar" and dt.is_float(item.dtype):
                types.append(ctypes.c_double if passed_float(item.dtype) == "float64" else ctypes.c_float)
            else:
                types.append(ctypes.c_int64)
        self.address = module.entry_pointer(signature.name)
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self.address)

    def __call__(self, *args: Any) -> Any:
        """Runs the kernel.

        Raises:
            KernelError: when arguments do not fit the signature, naming the parameter, or the kernel reports an error.
            KernelMemoryError: it found no memory for a buffer of its own.
        """
        arguments, keep = self.prepare(args)
        result = None
        if self.signature.parameters and self.signature.parameters[-1].kind == "result":
            result = np.zeros(1, dt.to_numpy(self.signature.parameters[-1].dtype))
            arguments.append(result.ctypes.data)
        with self._module.calling():
            status = self._call(*arguments)
            del keep
            if status != 0:
                self._module.raise_error(self.name, status)
        return None if result is None else result[0]

    def prepare(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """C arguments (without a result pointer) for ``args``, and what must stay alive while they are used.

        Raises:
            KernelError: arguments do not fit the signature.
        """
        return prepare(self.signature, args)


class NativeModule:
    """Compiled kernels. Compiling happens once; loading into the process on first use.

    Objects can be sent to another process: what travels is the machine code and the signatures.
    """

    def __init__(
        self,
        code: bytes,
        signatures: dict[str, Signature],
        packed_sites: Sequence[PackedSite] = (),
        options: MachineOptions = MachineOptions(),
        llvm_ir: str = "",
        scalar_loops: bool = True,
        externals: Sequence[str] = (),
    ) -> None:
        self.code = code
        self.signatures = signatures
        self.packed_sites = list(packed_sites)
        self.options = options
        self._text = llvm_ir
        self.scalar_loops = scalar_loops
        """Whether LLVM's vectorizer is to look at its loops."""
        self.externals = tuple(externals)
        """Symbols that the code needs from the process or from other libraries."""
        self._loaded: LoadedObject | None = None
        self._functions: dict[str, NativeFunction] = {}
        self._callback: Any = None
        self.raised = RaisedExceptions()
        self.own_functions: dict[str, Any] = {}
        """What the code calls by these names, in place of registered functions; it stays in this process."""
        self.scratch_bytes: int | None = None
        """Bytes of all buffers that exist at the same time in a call, each thread's own counted; None where that is not known."""

    def __getstate__(self) -> dict[str, Any]:
        left: dict[str, Any] = {
            "_loaded": None,
            "_functions": {},
            "_callback": None,
            "raised": None,
            "own_functions": {},
        }
        return {**self.__dict__, **left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, raised=RaisedExceptions())

    # -- calling -----------------------------------------------------------------
    def __getitem__(self, name: str) -> NativeFunction:
        """The kernel called ``name``; raises KernelError listing what there is."""
        found = self._functions.get(name)
        if found is None:
            if name not in self.signatures:
                raise KernelError(
                    f"no kernel {name!r}; there are: {', '.join(sorted(self.signatures)) or 'none'}"
                )
            found = self._functions[name] = NativeFunction(self, self.signatures[name])
        return found

    def __call__(self, *args: Any) -> Any:
        """Call the kernel of a module that has one; raises KernelError where it has several."""
        if len(self.signatures) != 1:
            raise KernelError(
                f"the module has {len(self.signatures)} kernels; name one, as in module[name](...), of:"
                f" {', '.join(sorted(self.signatures)) or 'none'}"
            )
        return self[next(iter(self.signatures))](*args)

    def __contains__(self, name: object) -> bool:
        return name in self.signatures

    def functions(self) -> list[str]:
        """Names of the kernels."""
        return list(self.signatures)

    def entry_pointer(self, name: str) -> int:
        """Address of a kernel in this process, loading the module if that has not happened yet."""
        return self._load().address(self.signatures[name].symbol)

    def _load(self) -> LoadedObject:
        if self._loaded is None:
            with LOADING:
                self._load_once()
        assert self._loaded is not None
        return self._loaded

    def _load_once(self) -> None:
        if self._loaded is None:
            runtime()  # before the object, which links against it
            missing = [name for name in self.externals if not symbol_exists(name)]
            if missing:
                raise CodegenError(
                    f"no symbol {', '.join(missing)} in this process; load the library that has it with"
                    " ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) first"
                )
            loaded = LoadedObject(self.code, options=self.options, features=self.features)
            if self.packed_sites:
                self._callback = _PACKED(self._call_python)
                slot = ctypes.c_void_p.from_address(loaded.address("loopsmith.packed"))
                slot.value = ctypes.cast(self._callback, ctypes.c_void_p).value
            self._loaded = loaded

    def _call_python(self, number: int, values: Any, result: Any) -> int:
        try:
            site = self.packed_sites[number]
            function = self.own_functions.get(site.function) or get_global_func(site.function)
            assert function is not None
            returned = function(*[_argument(values, i, *item) for i, item in enumerate(site.arguments)])
            if isinstance(returned, float | np.floating):
                ctypes.cast(result, ctypes.POINTER(ctypes.c_double))[0] = float(returned)
            elif returned is not None:
                result[0] = int(returned)
            return 0
        except BaseException as error:  # must not unwind through native frames; raised again by raise_error
            runtime().set_error(f"{type(error).__name__}: {error}")
            return self.raised.add(error)

    def calling(self) -> AbstractContextManager[None]:
        """Around a call of a kernel and :meth:`raise_error` for it, so that exceptions of Python functions are those of this call."""
        return self.raised.of_a_call() if self.packed_sites else nullcontext()

    def raise_error(self, name: str, status: int) -> None:
        """Turns a kernel's non-zero status into an exception."""
        raised = self.raised.take(status)
        reason = runtime().last_error() if raised is None else f"{type(raised).__name__}: {raised}"
        # below are the numbers of single exceptions
        message = f"kernel {name} failed with status {max(status, PYTHON_RAISED)}: {reason or 'no message'}"
        if raised is not None and not isinstance(raised, Exception):
            raise raised  # KeyboardInterrupt and the like
        lacks_memory = status == OUT_OF_MEMORY or isinstance(raised, MemoryError)
        raise (KernelMemoryError if lacks_memory else KernelError)(message) from raised

    # -- inspection and output -----------------------------------------------------
    @property
    def features(self) -> set[str]:
        """LLVM's names of features of the processor that the code uses beside those that all code for it does."""
        found = features_of(self._text, self.options)
        return found.union(MATRIX_FEATURES) if uses_matrix_unit(self._text) else found

    @property
    def code_bytes(self) -> int | None:
        """Bytes of machine code, without the runtime's; None for object files that are not ELF."""
        return code_bytes(self.code)

    @property
    def llvm_ir(self) -> str:
        """The generated assembly, before optimization."""
        return self._text

    @property
    def assembly(self) -> str:
        """Assembler text of the optimized code (compiled again for this)."""
        return native.emit_assembly(_optimized(self._text, self.options, self.scalar_loops), self.options)

    def save_object(self, path: str | os.PathLike[str]) -> None:
        """Writes the object file; it needs the runtime's symbols when it is linked."""
        Path(path).write_bytes(self.code)

    def export_library(
        self, path: str | os.PathLike[str], header: str | os.PathLike[str] | None = None
    ) -> None:
        """Links kernels and runtime into a shared library, and writes its C header if asked to.

        A kernel is called by its name; one that C could not call so, such as ``main``, or means another function by, such as ``exp``, by
        ``loopsmith_main`` and ``loopsmith_exp``.

        Raises:
            CodegenError: when there is no linker, linking fails, or a kernel calls registered Python functions.
        """
        if self.packed_sites:
            needed = sorted({site.function for site in self.packed_sites})
            raise CodegenError(
                f"a shared library cannot call the Python functions {', '.join(needed)}; replace these calls or run in process"
            )
        export = [*(item.symbol for item in self.signatures.values()), *SYMBOLS]
        native.link_shared_library([self.code, runtime_object(self.options)], path, export=export)
        if header is not None:
            Path(header).write_text(self.header(Path(header).stem), encoding="utf-8")

    def header(self, name: str = "kernels") -> str:
        """A C header that declares the kernels and the runtime's functions for callers."""
        guard = "LOOPSMITH_" + "".join(ch if ch.isalnum() else "_" for ch in name).upper() + "_H"
        lines = [
            f"#ifndef {guard}", f"#define {guard}", "#include <stdint.h>", "#ifdef __cplusplus", 'extern "C" {', "#endif",
            "/* Kernels return 0, or an error code; loopsmith_last_error() is its text. Pointers say nothing of what they point to:",
            "   that memory is as described here is not checked. Buffers are dense and row-major where no strides are named. */",
        ]  # fmt: skip
        for signature in self.signatures.values():
            lines += [f"/*   {text} */" for text in signature.c_requirements()]
            lines.append(signature.c_declaration())
        lines += [
            "/* Threads of parallel loops; 0 restores one per online cpu. */",
            "void loopsmith_set_num_threads(int32_t count);",
            "int32_t loopsmith_get_num_threads(void);",
            "const char* loopsmith_last_error(void);",
            "#ifdef __cplusplus", "}", "#endif", "#endif", "",
        ]  # fmt: skip
        return "\n".join(lines)


def _argument(values: Any, position: int, kind: str, dtype: str, count: int) -> Any:
    """One argument of a packed call as a Python value."""
    raw = int(values[position])
    if kind == "int":
        return bool(raw) if dtype == "bool" else raw
    if kind == "float":
        return ctypes.c_double.from_buffer(ctypes.c_int64(raw)).value
    if kind == "string":
        return ctypes.string_at(raw).decode("utf-8")
    if count <= 0:
        return raw  # an address of unknown extent
    numpy_dtype = dt.to_numpy(dtype)
    memory = (ctypes.c_uint8 * (count * numpy_dtype.itemsize)).from_address(raw)
    return np.frombuffer(memoryview(memory), numpy_dtype)


def _optimized(text: str, options: MachineOptions, scalar_loops: bool) -> Any:
    # Loops that a schedule has shaped need registers and instructions selected, which O1 does in half the time. Scalar
    # innermost loops are left to LLVM's vectorizer.
    if scalar_loops:
        return native.optimize(text, options, loop_vectorize=True, unroll=options.unroll)
    return native.optimize(text, options, level=1, unroll=False)


def compile_generated(generated: GeneratedModule, options: MachineOptions = MachineOptions()) -> NativeModule:
    """Optimizes and compiles generated assembly."""
    text = generated.text()
    code = native.emit_object(_optimized(text, options, generated.wants_vectorizer), options)
    return NativeModule(
        code,
        generated.signatures,
        generated.packed_sites,
        options,
        text,
        generated.wants_vectorizer,
        generated.builder.externals(),
    )


def build(
    mod_or_func: PrimFunc | IRModule,
    target: Target | str | None = None,
    name: str | None = None,
    *,
    unroll: bool = True,
) -> NativeModule:
    """Lowers and compiles for a CPU.

    Args:
        mod_or_func: a PrimFunc, or a module whose PrimFuncs are compiled together; scheduled or not, lowered or not.
        target: a target or its text; when None, the one in force (``with Target(...)``) or the host.
        name: symbol of a PrimFunc that has no ``global_symbol`` (default ``main``).
        unroll: whether LLVM may unroll scalar loops; compiling large ones without it takes a fifth of the time.

    Raises:
        CodegenError: for what has no native form, and for targets that are no CPU.
        IRValueError: for an intrinsic that has no form for this kind of target.
    """
    if not isinstance(mod_or_func, PrimFunc | IRModule):
        raise CodegenError(f"build takes a PrimFunc or an IRModule, got {what_it_is(mod_or_func)}")
    if target is None:
        target = Target.current(allow_none=True) or "cpu"
    if not isinstance(target, Target):
        target = Target(target)
    if target.kind_name == "cuda":
        raise CodegenError(
            f"this is the build for CPUs, and the target is of kind {target.kind_name!r}; ir.build(func, target) builds for CUDA"
        )
    if isinstance(mod_or_func, PrimFunc):
        symbol = name or str(mod_or_func.attrs.get("global_symbol", "main"))
        mod_or_func = IRModule({symbol: mod_or_func.with_attr("global_symbol", symbol)})
    options = replace(native.options_of(target), unroll=unroll)
    lowered = lower(mod_or_func, target)
    # Most programs have no such product, and LLVM is asked only of those that do.
    hoisted = HoistSignCorrection()(lowered)
    if hoisted is not lowered and needs_sign_corrections(options):
        lowered = hoisted
    generated = generate(
        lowered,
        target.vector_bits,
        computes_halves=native.has_half_instructions(options),
        repairs_nan=native.repairs_nan(options) and target.vector_bits >= 512,
        fuses=native.has_fused_instructions(options),
        scales=native.has_scaling_instruction(options),
        vector_constraints=native.vector_constraints(options),
        dot_products=partial(instructions, options),
        has_matrix_unit=partial(has_matrix_unit, options),
    )
    # Asked before lowering, which moves the stores of parallel loops into functions of their own.
    for var, func in mod_or_func.functions.items():
        if isinstance(func, PrimFunc) and (known := function_name(mod_or_func, var)) in generated.signatures:
            generated.signatures[known] = generated.signatures[known].storing_to(stored_params(func))
    module = compile_generated(generated, options)
    module.scratch_bytes = scratch_bytes(lowered, target.num_cores)
    return module
