"""Tensor cores: fragments of ``nvcuda::wmma``, products of a warp (``mma``), what feeds their registers, and asynchronous copies."""

from __future__ import annotations

from typing import Any

from ...node import Visitor
from ...tir import expr as E
from ...tir import stmt as S
from ...tir.expr import IntImm, Var
from ...tir.intrinsic.address_arguments import ADDRESSES
from ...tir.intrinsic.matrix_types import ptx_type
from ...tir.operators import cast as as_dtype
from ...tir.transform.infer_fragment import LAYOUT, SHAPE
from ..error import CodegenError
from .emitter import KernelEmitter, Lanes
from .memory import stored
from .prelude_text import prelude_functions
from .text import Text, binary, call
from .types import memory_type

FRAGMENTS = "wmma."
"""What the scopes of fragments begin with."""
_WMMA = "nvcuda::wmma::"
_TF32 = f"{_WMMA}precision::tf32"
_WIDE, _REGISTERS = 32, 16
"""Bytes to which matrices in memory, and arrays of operands in registers, are aligned."""
_MOVES = ("tir.tvm_load_matrix_sync", "tir.tvm_store_matrix_sync")


# -- memory ------------------------------------------------------------------------
class _Aligned(Visitor):
    """How memory must be aligned for the instructions that it is given to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[Var, int] = {}

    def visit_Buffer(self, buffer: object) -> None:
        """Declarations ask for nothing."""

    def visit_Call(self, node: E.Call) -> None:
        name = getattr(node.op, "name", "")
        if name in _MOVES:
            self._ask(_pointed_to(node.args[5]), _WIDE)
        for at, _ in ADDRESSES.get(name, ()):
            self._ask(_pointed_to(node.args[at]), _REGISTERS)
        self.generic_visit(node)

    def _ask(self, data: Any, alignment: int) -> None:
        if isinstance(data, Var):
            self.found[data] = max(alignment, self.found.get(data, 0))


def _pointed_to(address: Any) -> Any:
    """The address variable that an argument leads to."""
    name = getattr(getattr(address, "op", None), "name", "")
    if name == "tir.tvm_access_ptr":
        return address.args[1]
    return address.args[0].buffer.data if name == "tir.address_of" else address


def alignments(body: S.Stmt) -> dict[Var, int]:
    """Bytes to which memory must be aligned, by its address, for instructions of whole warps and copies of many bytes."""
    visitor = _Aligned()
    visitor.visit(body)
    return visitor.found


def declare_fragments(emitter: KernelEmitter, node: S.Allocate, name: str, scope: str) -> None:
    """Prints the allocation of fragments; their shape and layout are attributes around the body."""
    attributes: dict[str, str] = {}
    body = node.body
    while isinstance(body, S.AttrStmt) and body.node is node.buffer_var:
        attributes[body.attr_key] = str(body.value.value)  # type: ignore[attr-defined]
        body = body.body
    if SHAPE not in attributes:
        raise CodegenError(
            f"fragment {node.buffer_var.name} of a kernel has no shape; run ir.tir.transform.InferFragment first"
        )
    m, n, k = map(int, attributes[SHAPE].split(","))
    kind = scope.removeprefix(FRAGMENTS)
    size = {"matrix_a": m * k, "matrix_b": k * n}.get(kind, m * n)
    (extent,) = node.extents
    if not isinstance(extent, IntImm) or extent.value % size:
        raise CodegenError(
            f"allocation {node.buffer_var.name} of a kernel has {extent} elements, no whole number of fragments of {size}"
        )
    is_tf32 = _is_tf32(node.buffer_var, node.dtype)
    element = _TF32 if is_tf32 else memory_type(node.dtype)
    layout = f", {_WMMA}{attributes[LAYOUT]}" if LAYOUT in attributes else ""
    emitter.headers.add("mma.h")
    emitter.line(
        f"{_WMMA}fragment<{_WMMA}{kind}, {m}, {n}, {k}, {element}{layout}> {name}[{extent.value // size}];"
    )


def _is_tf32(fragment: Var, dtype: str) -> bool:
    """Whether it is an operand whose elements tensor cores read as tf32."""
    scope = getattr(fragment.type_annotation, "storage_scope", "")
    return dtype == "float32" and scope.startswith(f"{FRAGMENTS}matrix")


# -- fragments ---------------------------------------------------------------------
def _fragment(emitter: KernelEmitter, node: E.Call, address: int, index: int) -> Text:
    data: Any = node.args[address]
    return Text(f"{emitter.address(data)}[{emitter.index(node.args[index]).code}]")


def _dtype_of(fragment: Any) -> str:
    """Of the elements that an address leads to."""
    pointer = getattr(fragment, "type_annotation", None)
    return str(pointer.element_type.dtype)  # type: ignore[union-attr]


def _load_fragment(emitter: KernelEmitter, node: E.Call) -> Lanes:
    fragment = _fragment(emitter, node, 0, 4)
    given = [fragment, emitter.scalar(node.args[5]), emitter.index(node.args[6])]
    found = call(f"{_WMMA}load_matrix_sync", *given, *_memory_layout(node))
    data: Any = node.args[0]
    if not _is_tf32(data, _dtype_of(data)):
        return [found]
    emitter.line(f"{found.code};")
    emitter.line("#pragma unroll")
    each = emitter.fresh("t")
    with emitter.block(f"for (int {each} = 0; {each} < {fragment.code}.num_elements; ++{each})"):
        emitter.line(f"{fragment.code}.x[{each}] = {_WMMA}__float_to_tf32({fragment.code}.x[{each}]);")
    return []


def _memory_layout(node: E.Call) -> list[str]:
    """How sums lie in memory; of operands the fragment's type says it."""
    scope = getattr(getattr(node.args[0], "type_annotation", None), "storage_scope", "")
    layout = getattr(node.args[7], "value", "")
    return [f"{_WMMA}mem_{layout}"] if scope.endswith("accumulator") else []


def _store_fragment(emitter: KernelEmitter, node: E.Call) -> Lanes:
    given = [emitter.scalar(node.args[5]), _fragment(emitter, node, 0, 4), emitter.index(node.args[6])]
    return [call(f"{_WMMA}store_matrix_sync", *given, *_memory_layout(node))]


def _fill_fragment(emitter: KernelEmitter, node: E.Call) -> Lanes:
    (value,) = stored(emitter, as_dtype(_dtype_of(node.args[0]), node.args[5]))
    return [call(f"{_WMMA}fill_fragment", _fragment(emitter, node, 0, 4), value)]


def _multiply_fragments(emitter: KernelEmitter, node: E.Call) -> Lanes:
    return [call(f"{_WMMA}mma_sync", *[_fragment(emitter, node, at, at + 1) for at in (0, 2, 4, 6)])]


# -- registers ---------------------------------------------------------------------
def _instruction(emitter: KernelEmitter, name: str) -> str:
    if name not in prelude_functions():
        raise CodegenError(f"there is no instruction {name} on any architecture")
    emitter.instructions.add(name)
    return name


def _moved(emitter: KernelEmitter, node: E.Call, address: int) -> Text:
    """The address that an argument and the offset behind it give, in elements of what is allocated."""
    return binary("+", emitter.scalar(node.args[address]), emitter.index(node.args[address + 1]))


def _multiply_registers(emitter: KernelEmitter, node: E.Call) -> Lanes:
    shape, *layouts, a, b, c = (str(getattr(item, "value", "")) for item in node.args[:6])
    if layouts != ["row", "col"]:
        raise CodegenError(f"ptx_mma takes A by rows and B by columns, not {' and '.join(layouts)}")
    if getattr(node.args[12], "value", 0):
        raise CodegenError("ptx_mma does not saturate: sums of integers wrap")
    name = _instruction(emitter, f"ptx_mma_{shape}_{ptx_type(a)}_{ptx_type(b)}_{ptx_type(c)}")
    left, right, sums = (_moved(emitter, node, at) for at in (6, 8, 10))
    return [call(name, sums, left, right, sums)]


def _rows(name: str) -> Any:
    def emit(emitter: KernelEmitter, node: E.Call) -> Lanes:
        is_transposed, count = node.args[0].value, node.args[1].value  # type: ignore[attr-defined]
        function = _instruction(emitter, f"{name}_x{count}" + ("_trans" if is_transposed else ""))
        return [call(function, *[_moved(emitter, node, at) for at in (3, 5)])]

    return emit


def _store_sums(emitter: KernelEmitter, node: E.Call) -> Lanes:
    rows, columns = (item.value for item in node.args[:2])  # type: ignore[attr-defined]
    function = f"{emitter.use('store_sums')}<{rows}, {columns}>"
    held = _moved(emitter, node, 3)
    return [call(function, emitter.scalar(node.args[2]), held, emitter.index(node.args[5]))]


def _fill_sums(emitter: KernelEmitter, node: E.Call) -> Lanes:
    count = node.args[0].value  # type: ignore[attr-defined]
    held = _moved(emitter, node, 1)
    (zero,) = stored(emitter, as_dtype(node.dtype, E.IntImm("int32", 0)))
    each = emitter.fresh("i")
    emitter.line("#pragma unroll")
    with emitter.block(f"for (int {each} = 0; {each} < {count}; ++{each})"):
        emitter.line(f"{held.within(0)}[{each}] = {zero.code};")
    return []


# -- asynchronous copies -----------------------------------------------------------
def _copy_async(emitter: KernelEmitter, node: E.Call) -> Lanes:
    size = node.args[4].value  # type: ignore[attr-defined]
    places = [_moved(emitter, node, at) for at in (0, 2)]
    if len(node.args) == 5:
        return [call(_instruction(emitter, f"ptx_cp_async_{size}"), *places)]
    function = _instruction(emitter, f"ptx_cp_async_{size}_zfill")
    return [call(function, *places, emitter.index(node.args[5]))]


def _commit_group(emitter: KernelEmitter, node: E.Call) -> Lanes:
    return [call(_instruction(emitter, "ptx_cp_async_commit_group"))]


def _wait_group(emitter: KernelEmitter, node: E.Call) -> Lanes:
    count = getattr(node.args[0], "value", None)
    if count is None:
        raise CodegenError(f"ptx_wait_group takes a constant, got {node.args[0]}")
    return [call(f"{_instruction(emitter, 'ptx_cp_async_wait_group')}<{count}>")]


FORMS = {
    "tir.tvm_load_matrix_sync": _load_fragment, "tir.tvm_store_matrix_sync": _store_fragment,
    "tir.tvm_fill_fragment": _fill_fragment, "tir.tvm_mma_sync": _multiply_fragments,
    "tir.ptx_mma": _multiply_registers, "tir.ptx_ldmatrix": _rows("ptx_ldmatrix"),
    "tir.ptx_stmatrix": _rows("ptx_stmatrix"), "tir.mma_store": _store_sums, "tir.mma_fill": _fill_sums,
    "tir.ptx_cp_async": _copy_async, "tir.ptx_commit_group": _commit_group, "tir.ptx_wait_group": _wait_group,
}  # fmt: skip
"""How the calls are printed."""
