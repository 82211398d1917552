"""A lowered module as LLVM assembly: the C entry of each kernel around what :mod:`.statement` emits.

A kernel is ``int32 f(pointers and int64s)`` (see :mod:`.signature`); it returns 0, or an error code with the text in
``loopsmith_last_error``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ... import dtype as dt
from ...expr import GlobalVar
from ...module import IRModule
from ...tir.analysis.exact_floats import exact_floats
from ...tir.analysis.no_alias import promises_no_alias
from ...tir.function import OUTLINED, PrimFunc
from ..error import CodegenError
from . import expression, intrinsics, statement  # noqa: F401  (enter the functions that print each class of node)
from .builder import FunctionBuilder, ModuleBuilder, Value
from .conversion import convert
from .emitter import FunctionEmitter
from .extent import evaluate
from .kernel_context import OK, KernelContext, PackedSite
from .matrix import with_matrix_registers
from .signature import BoundParameter, Signature, bind_parameters, passed_float
from .symbols import function_name
from .types import element_bytes, register_type

_CACHE_LINE = 64
"""Bytes. Functions begin on a line: where their loops lie in lines decides some percent of their speed, and must not depend on what
stands before them, or a kernel in a library of many is not the one that was measured."""


def emit_function(context: KernelContext, var: GlobalVar, func: PrimFunc) -> Signature:
    """Adds a function to the module and returns its signature."""
    name = context.symbols[var]
    signature, bound = bind_parameters(func, function_name(context.program, var), name)
    outlined = func.attrs.get(OUTLINED)
    noalias = promises_no_alias(func)
    params = [(_parameter_text(item, noalias), f"p{i}") for i, item in enumerate(bound)]
    attributes, linkage = (
        (context.attributes, "") if outlined is None else (context.outlined_attributes, "internal")
    )
    builder = FunctionBuilder(
        name, "i32", params, f"{attributes} align {_CACHE_LINE}", linkage, context.computes_halves
    )
    emitter = FunctionEmitter(context, builder)
    emitter.is_part = outlined == "parallel"
    for i, item in enumerate(bound):
        value = Value(f"%p{i}", item.llvm_type)
        kind = item.parameter.kind
        if kind == "result":
            emitter.result = value
            continue
        if kind == "scalar" and not dt.is_index(item.var.dtype):
            value = _received(builder, value, item.var.dtype)
        elif item.llvm_type == "i64":
            builder.bound(value, dt.bits(item.var.dtype))
        emitter.variables[item.var] = value
    emitter.body = func.body
    emitter.exact = exact_floats(func.body)
    with with_matrix_registers(emitter, func.body):
        emitter.statement(func.body)
    builder.ret(Value(str(OK), "i32"))
    context.module.define(name, builder.text())
    if outlined == "parallel":
        _define_part(context, name, [item.llvm_type for item in bound])
    return signature


def _received(builder: FunctionBuilder, value: Value, dtype: str) -> Value:
    """A scalar argument that is no index, as its dtype is kept in registers."""
    if dt.is_float(dtype):
        return convert(builder, value, passed_float(dtype), dtype)
    return builder.cast("trunc", value, register_type(dtype))


def _define_part(context: KernelContext, name: str, types: list[str]) -> None:
    """``int32 name.part(begin, end, env)``, which the runtime calls: takes what a parallel loop captured from memory."""
    params = [("i64", "begin"), ("i64", "end"), ("ptr", "env")]
    b = FunctionBuilder(f"{name}.part", "i32", params, context.attributes, "internal")
    args = [Value("%begin", "i64"), Value("%end", "i64")]
    for i, type_ in enumerate(types[2:]):
        place = b.define(f"getelementptr i64, ptr %env, i64 {i}", "ptr")
        args.append(b.load(type_, place, 8))
    b.ret(b.call(name, "i32", args))
    context.module.define(b.name, b.text())


def _parameter_text(item: BoundParameter, noalias: bool) -> str:
    """An LLVM parameter type with the facts that the calling convention guarantees."""
    if item.llvm_type != "ptr":
        return item.llvm_type
    facts = ["ptr"]
    if noalias:
        facts.append("noalias")
    extents = item.parameter.shape
    is_dense = item.parameter.kind == "buffer" and not item.parameter.strides
    if is_dense and extents and all(isinstance(extent, int) for extent in extents):
        total = element_bytes(item.parameter.dtype) * dt.lanes(item.parameter.dtype)
        for extent in extents:
            total *= evaluate(extent, {})
        if total > 0:
            facts.append(f"dereferenceable({total})")
    return " ".join(facts)


@dataclass
class GeneratedModule:
    """LLVM assembly of a module with what is needed to call it."""

    builder: ModuleBuilder
    signatures: dict[str, Signature]
    packed_sites: list[PackedSite]
    wants_vectorizer: bool = True

    def text(self) -> str:
        """The assembly."""
        return self.builder.text()


def generate(
    program: IRModule,
    vector_bits: int = 512,
    computes_halves: bool = True,
    repairs_nan: bool = False,
    fuses: bool = True,
    scales: bool = False,
    vector_constraints: Mapping[int, str] | None = None,
    dot_products: Callable[[], Mapping[tuple[str, str], tuple[str, tuple[int, ...]]]] = dict,
    has_matrix_unit: Callable[[], bool] = bool,
) -> GeneratedModule:
    """LLVM assembly of all PrimFuncs of a lowered module.

    Args:
        program: what :func:`ir.tir.lower.lower` returns.
        vector_bits: width of the machine's vectors.
        computes_halves: whether the machine has instructions for float16; where it has none, integer arithmetic takes their place.
        repairs_nan: whether the machine puts lost NaN back faster than it compares and blends.
        fuses: whether the machine multiplies and adds in one operation that rounds once.
        scales: whether it multiplies vectors of 512 bits by powers of two in one operation.
        vector_constraints: what a vector register of so many bits is called in inline assembly, as far as that is known.
        dot_products: tells what instructions for products of narrow numbers the machine has, see :func:`.dot_product.instructions`.
        has_matrix_unit: tells whether the machine has a matrix unit, see :func:`.matrix.has_matrix_unit`.

    Raises:
        CodegenError: a statement or intrinsic has no native form; the message names it and the function.
    """
    module = ModuleBuilder(fuses, scales)
    context = KernelContext(
        module,
        program,
        vector_bits,
        computes_halves,
        repairs_nan,
        vector_constraints,
        dot_products,
        has_matrix_unit,
    )
    signatures = {}
    for var, func in program.functions.items():
        if not isinstance(func, PrimFunc):
            continue
        name = function_name(program, var)
        try:
            signature = emit_function(context, var, func)
        except CodegenError as error:
            error.add_note(f"in function {name}")
            raise
        if OUTLINED not in func.attrs:
            signatures[name] = signature
    if context.packed_sites:  # only then: objects of several kernels are linked into one library
        module.add_global("@loopsmith.packed = global ptr null, align 8")
    return GeneratedModule(module, signatures, context.packed_sites, context.wants_vectorizer)
