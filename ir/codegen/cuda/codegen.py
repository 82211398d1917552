"""Lowered kernels as one CUDA C++ source.

A kernel is ``extern "C" __global__ void name(addresses and numbers)``; its launch says how many threads run
(:mod:`ir.tir.kernel_launch`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ... import dtype as dt
from ...module import IRModule
from ...node import Visitor
from ...target.gpu_facts import ACCESS_BYTES
from ...target.target import Target
from ...tir import expr as E
from ...tir import stmt as S
from ...tir.analysis.exact_floats import exact_floats
from ...tir.analysis.verify_device import limits_of
from ...tir.expr import IntImm, Var
from ...tir.function import PrimFunc
from ...tir.intrinsic.bulk_copies import is_tensor_map
from ...tir.kernel_launch import CLUSTER_DIMS, KernelLaunch, is_kernel, kernel_launch
from ...type import PointerType, PrimType
from ..error import CodegenError
from . import casts as _casts  # noqa: F401  the printer of casts
from . import intrinsics as _intrinsics  # noqa: F401  the printers of calls
from . import statement as _statement  # noqa: F401  the printers of statements
from .device_functions import text_of
from .emitter import KernelEmitter
from .pairs import operations_in_pairs
from .prelude_text import prelude_text
from .tensor_cores import alignments
from .text import Text
from .types import memory_type
from .warp_groups import TENSOR_MAP

PARAMETER_ALIGNMENT = ACCESS_BYTES
"""Bytes to which the arrays that a kernel is given are aligned: a thread reads so many at once."""


_SOURCES = {"tir.ptx_cp_async": 2, "tir.ptx_ldmatrix": 5, "tir.ptx_cp_async_bulk": 2}
"""By intrinsic: the argument that is an address from which it only reads."""
_READ = 1
"""The mask of an address through which memory is only read."""


@dataclass(frozen=True)
class CudaSource:
    """Kernels as text, and how each is launched."""

    text: str
    kernels: Mapping[str, PrimFunc]
    """The lowered function of each kernel by name."""
    launches: Mapping[str, KernelLaunch]


class _Written(Visitor):
    """Addresses through which a kernel may write."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[Var] = set()

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self.found.add(store.buffer.data)
        self.generic_visit(store)

    def visit_Call(self, call: E.Call) -> None:
        name = getattr(call.op, "name", "")
        if name == "tir.address_of" and isinstance(call.args[0], E.BufferLoad):
            self.found.add(call.args[0].buffer.data)
        is_read = name == "tir.tvm_access_ptr" and getattr(call.args[4], "value", 3) == _READ
        source = {"tir.tvm_access_ptr": 1} if is_read else _SOURCES
        for position, arg in enumerate(call.args):
            if position != source.get(name) or not isinstance(arg, Var):
                self.visit(arg)

    def visit_Var(self, var: Var) -> None:
        self.found.add(var)  # an address that is passed on

    def visit_Buffer(self, buffer: object) -> None:
        pass


class _Uses(Visitor):
    """The variables that expressions use, and the dtypes of what addresses point to, as accesses say."""

    def __init__(self) -> None:
        super().__init__()
        self.variables: set[Var] = set()
        self.dtypes: dict[Var, str] = {}

    def visit_AttrStmt(self, stmt: S.AttrStmt) -> None:
        self.visit(stmt.value)
        self.visit(stmt.body)

    def visit_Var(self, var: Var) -> None:
        self.variables.add(var)

    def visit_Buffer(self, buffer: object) -> None:
        pass

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        self.dtypes.setdefault(load.buffer.data, load.buffer.dtype)
        self.generic_visit(load)

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self.dtypes.setdefault(store.buffer.data, store.buffer.dtype)
        self.generic_visit(store)


def generate(mod: IRModule) -> CudaSource:
    """Print the kernels of a lowered module.

    Raises:
        CodegenError: what a kernel does has no form in CUDA C++; the kernel is named.
    """
    names: set[str] = set()
    bodies: list[str] = []
    functions: set[str] = set()
    instructions: set[str] = set()
    headers: set[str] = set()
    definitions: dict[str, str] = {}
    kernels: dict[str, PrimFunc] = {
        str(func.attrs["global_symbol"]): func for func in mod.functions.values() if is_kernel(func)
    }
    launches = {name: kernel_launch(func) for name, func in kernels.items()}
    for name, func in kernels.items():
        names.add(name)
        try:
            emitter, text = _kernel(name, func, launches[name], names)
        except CodegenError as error:
            error.add_note(f"in kernel {name}")
            raise
        functions |= emitter.functions
        instructions |= emitter.instructions
        headers |= emitter.headers
        definitions.update(emitter.definitions)
        bodies.append(text)
    includes = "\n".join(f"#include <{header}>" for header in sorted(headers))
    made = [definitions[name] for name in sorted(definitions)]
    parts = [
        part for part in (includes, prelude_text(instructions), text_of(functions), *made, *bodies) if part
    ]
    return CudaSource("\n\n".join(parts) + "\n", kernels, launches)


def _kernel(name: str, func: PrimFunc, launch: KernelLaunch, names: set[str]) -> tuple[KernelEmitter, str]:
    written, uses = _Written(), _Uses()
    written.visit(func.body)
    uses.visit(func.body)
    in_pairs = operations_in_pairs(func.attrs["target"])
    emitter = KernelEmitter(
        set(names), exact_floats(func.body), uses.variables, alignments(func.body), in_pairs
    )
    apart = " __restrict__" if func.attrs.get("tir.noalias") else ""
    params = []
    for param in func.params:
        spelled = emitter.fresh(param.name)
        emitter.variables[param] = [Text(spelled)]
        if param.dtype != "handle":
            params.append(f"{emitter.type_of(param.dtype)} {spelled}")
            continue
        if is_tensor_map(param):
            params.append(f"const __grid_constant__ {emitter.use(TENSOR_MAP)} {spelled}")
            continue
        emitter.aligned[param] = PARAMETER_ALIGNMENT
        dtype = uses.dtypes.get(param) or _element(param)
        emitter.type_of(dtype)
        const = "" if param in written.found else "const "
        params.append(f"{const}{memory_type(dt.element_of(dtype))}*{apart} {spelled}")
    emitter.statement(func.body)
    bounds = _launch_bounds(func, launch) + _cluster_dims(func, launch)
    _require_launchable(name, launch, func.attrs["target"])
    head = f'extern "C" __global__ void{bounds} {name}({", ".join(params)}) {{'
    return emitter, "\n".join([head, *emitter.lines, "}"])


def _element(address: Var) -> str:
    """The dtype that an address is declared for; bytes where it is none."""
    pointer = address.type_annotation
    element = pointer.element_type if isinstance(pointer, PointerType) else None
    return element.dtype if isinstance(element, PrimType) else "uint8"


def _launch_bounds(func: PrimFunc, launch: KernelLaunch) -> str:
    """How many threads a block has, for the compiler; nothing where that is known at the launch only.

    Raises:
        CodegenError: more than the target runs in a block.
    """
    threads = 1
    for tag, extent in launch.extents.items():
        if tag.startswith("threadIdx"):
            if not isinstance(extent, IntImm):
                return ""
            threads *= extent.value
    most = func.attrs["target"].max_threads_per_block
    if threads > most:
        raise CodegenError(
            f"a block has {threads} threads, the target's have at most {most}; bind a part of the loops"
        )
    return f" __launch_bounds__({threads})"


def _require_launchable(name: str, launch: KernelLaunch, target: Target) -> None:
    """Refuse a kernel that no launch can start, as far as that is known when it is built.

    Raises:
        CodegenError: more threads or blocks along an axis, or more shared memory, than the target has.
    """
    limits = limits_of(target)
    most = {f"blockIdx.{axis}": limits[f"max_blocks_{axis}"] for axis in "xyz"}
    most |= {f"threadIdx.{axis}": limits[f"max_thread_{axis}"] for axis in "xyz"}
    for tag, extent in launch.extents.items():
        if isinstance(extent, IntImm) and extent.value > most[tag]:
            raise CodegenError(
                f"kernel {name}: a loop of {extent.value} iterations is bound to {tag}, which has at most {most[tag]}; split it, or bind"
                f" it to {tag[:-1]}x"
            )
    room, wanted = limits["max_dynamic_shared_memory_per_block"], launch.dynamic_bytes
    if isinstance(wanted, IntImm) and wanted.value > room:
        raise CodegenError(
            f"kernel {name}: a block has {wanted.value} bytes of shared memory, the target's have at most {room}; use smaller tiles"
        )


def _cluster_dims(func: PrimFunc, launch: KernelLaunch) -> str:
    """How many blocks a cluster has; nothing where each is one.

    Raises:
        CodegenError: the target has no clusters.
    """
    if launch.cluster == (1, 1, 1):
        return ""
    target = func.attrs["target"]
    if not target.supports_clusters:
        raise CodegenError(
            f"{target.arch} has no clusters of blocks; {CLUSTER_DIMS} asks for {launch.cluster}"
        )
    return f" __cluster_dims__({', '.join(map(str, launch.cluster))})"
