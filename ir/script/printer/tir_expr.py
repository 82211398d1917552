"""How TIR expressions are written: operators where they read back as the same node, constructors such as ``T.Add`` elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...error import IRError
from ...expr import GlobalVar
from ...op import Op
from ...structural import structural_equal
from ...tir import expr as E
from ...tir import operators
from ...tir.index_map import IndexMap
from ...tir.intrinsic.declaration import Intrinsic, find
from ...tir.stmt import BufferRegion
from ...type import PointerType, PrimType, TupleType, Type
from ..regions import extent_between
from .core import (
    AND,
    ATOM,
    COMPARE,
    NOT,
    OR,
    PRODUCT,
    SUM,
    UNARY,
    Printer,
    Text,
    expression,
    number_text,
    quote,
    value_form,
)

ITER_TYPES = {
    0: "DataPar",
    1: "ThreadIndex",
    2: "CommReduce",
    3: "Ordered",
    4: "DimInfo",
    5: "Unrolled",
    6: "Vectorized",
    7: "Parallelized",
    8: "Tensorized",
}
"""The names of kinds of iteration in ``T.iter_var``."""


# ---- variables ---------------------------------------------------------------------------------------------------


def type_text(printer: Printer, type_: Type) -> str:
    """A type as an annotation: ``T.int32``, ``T.handle("float32", "shared")``, ``None``."""
    if isinstance(type_, PrimType):
        return printer.tir(type_.dtype or "void")
    if isinstance(type_, PointerType):
        return pointer_text(printer, type_)
    if isinstance(type_, TupleType) and not type_.fields:
        return "None"
    return printer.meta(type_._type_key, type_)


def pointer_text(printer: Printer, pointer: PointerType) -> str:
    """``T.handle("float32")``, with the storage scope where it is not global."""
    if not isinstance(pointer.element_type, PrimType):
        return printer.meta(pointer._type_key, pointer)
    element = quote(pointer.element_type.dtype)
    scope = pointer.storage_scope
    args = element if scope in ("", "global") else f"{element}, {quote(scope)}"
    return f"{printer.tir('handle')}({args})"


def var_annotation(printer: Printer, var: E.Var) -> str:
    """The annotation of a variable: of a parameter, or of an assignment."""
    if isinstance(var.type_annotation, PointerType):
        return pointer_text(printer, var.type_annotation)
    name = printer.tir(dtype_name(var.dtype))
    return f"{name}(is_size_var=True)" if isinstance(var, E.SizeVar) else name


def dtype_name(dtype: str) -> str:
    """The function of a dtype in the namespace T."""
    return dtype or "void"


def var_definition(printer: Printer, var: E.Var) -> str:
    """The right-hand side that makes a variable: ``T.int64()``."""
    if isinstance(var.type_annotation, PointerType):
        return pointer_text(printer, var.type_annotation)
    options = "is_size_var=True" if isinstance(var, E.SizeVar) else ""
    return f"{printer.tir(dtype_name(var.dtype))}({options})"


@expression(E.Var, E.SizeVar)
def _var(printer: Printer, var: E.Var) -> Text:
    text = printer._texts.get(id(var))
    if text is None:
        text = printer.define(var, var.name or "v", printer.frames[0])
        printer.emit(f"{text} = {var_definition(printer, var)}", printer.frames[0])
    return text, ATOM


# ---- constants ---------------------------------------------------------------------------------------------------


@expression(E.IntImm)
def _int_imm(printer: Printer, imm: E.IntImm) -> Text:
    if imm.dtype == printer.int_dtype:
        return str(imm.value), ATOM if imm.value >= 0 else UNARY
    if imm.dtype == "bool":
        return f"{printer.tir('bool')}({bool(imm.value)})", ATOM
    return f"{printer.tir(imm.dtype)}({imm.value})", ATOM


@value_form(E.IntImm)
def _int_imm_value(printer: Printer, imm: E.IntImm) -> str:
    return f"{printer.tir(imm.dtype)}({bool(imm.value) if imm.dtype == 'bool' else imm.value})"


@expression(E.FloatImm)
def _float_imm(printer: Printer, imm: E.FloatImm) -> Text:
    digits = number_text(imm.value)
    if imm.dtype == printer.config.float_dtype and digits[-1] not in "fn":
        text = digits if "." in digits or "e" in digits else digits + ".0"
        return text, ATOM if imm.value >= 0 else UNARY
    return f"{printer.tir(imm.dtype)}({quote(digits) if digits[-1] in 'fn' else digits})", ATOM


@expression(E.StringImm)
def _string_imm(printer: Printer, imm: E.StringImm) -> Text:
    return quote(imm.value), ATOM


@value_form(E.StringImm)
def _string_imm_value(printer: Printer, imm: E.StringImm) -> str:
    return f"{printer.tir('StringImm')}({quote(imm.value)})"


# ---- operators ---------------------------------------------------------------------------------------------------

_OPERATORS: dict[type, tuple[str, int, Callable[[Any, Any], Any]]] = {
    E.Add: (" + ", SUM, operators.add),
    E.Sub: (" - ", SUM, operators.subtract),
    E.Mul: (" * ", PRODUCT, operators.multiply),
    E.FloorDiv: (" // ", PRODUCT, operators.floordiv),
    E.FloorMod: (" % ", PRODUCT, operators.floormod),
    E.EQ: (" == ", COMPARE, lambda a, b: operators.compare(E.EQ, a, b)),
    E.NE: (" != ", COMPARE, lambda a, b: operators.compare(E.NE, a, b)),
    E.LT: (" < ", COMPARE, lambda a, b: operators.compare(E.LT, a, b)),
    E.LE: (" <= ", COMPARE, lambda a, b: operators.compare(E.LE, a, b)),
    E.GT: (" > ", COMPARE, lambda a, b: operators.compare(E.GT, a, b)),
    E.GE: (" >= ", COMPARE, lambda a, b: operators.compare(E.GE, a, b)),
    E.And: (" and ", AND, operators.logical_and),
    E.Or: (" or ", OR, operators.logical_or),
    E.Div: (" / ", PRODUCT, operators.div),
}
_FUNCTIONS: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    E.Min: ("min", operators.min),
    E.Max: ("max", operators.max),
    E.Mod: ("truncmod", operators.truncmod),
}
_IMMEDIATES = (E.IntImm, E.FloatImm)


def _rebuilds(build: Callable[[Any, Any], Any], node: Any) -> bool:
    """Whether the operator gives this node back, rather than folding it (``x + 0``)."""
    if node.a.__class__ not in _IMMEDIATES and node.b.__class__ not in _IMMEDIATES and node.a is not node.b:
        return True
    try:
        found = build(node.a, node.b)
    except IRError:  # a division by zero: only the constructor can express it
        return False
    return found.__class__ is node.__class__ and found.a is node.a and found.b is node.b


@expression(*_OPERATORS)
def _operator(printer: Printer, node: Any) -> Text:
    sign, precedence, build = _OPERATORS[node.__class__]
    if not _rebuilds(build, node) or (
        node.__class__ is E.Div and not node.dtype.startswith(("float", "bfloat"))
    ):
        return f"{printer.tir(node.__class__.__name__)}({printer.text(node.a)}, {printer.text(node.b)})", ATOM
    # Comparisons do not chain; the others associate to the left.
    left = printer.text(node.a, precedence + 1 if precedence == COMPARE else precedence)
    return f"{left}{sign}{printer.text(node.b, precedence + 1)}", precedence


@expression(*_FUNCTIONS)
def _function(printer: Printer, node: Any) -> Text:
    name, build = _FUNCTIONS[node.__class__]
    name = name if _rebuilds(build, node) else node.__class__.__name__
    return f"{printer.tir(name)}({printer.text(node.a)}, {printer.text(node.b)})", ATOM


@expression(E.Not)
def _not(printer: Printer, node: E.Not) -> Text:
    if isinstance(node.a, E.IntImm):
        return f"{printer.tir('Not')}({printer.text(node.a)})", ATOM
    return f"not {printer.text(node.a, NOT)}", NOT


@expression(E.Cast)
def _cast(printer: Printer, node: E.Cast) -> Text:
    return f"{printer.tir('Cast')}({quote(node.dtype)}, {printer.text(node.value)})", ATOM


@expression(E.Select)
def _select(printer: Printer, node: E.Select) -> Text:
    return (
        f"{printer.tir('Select')}({printer.texts((node.condition, node.true_value, node.false_value))})",
        ATOM,
    )


@expression(E.Ramp)
def _ramp(printer: Printer, node: E.Ramp) -> Text:
    return (
        f"{printer.tir('Ramp')}({printer.text(node.base)}, {printer.text(node.stride)}, {node.lanes})",
        ATOM,
    )


@expression(E.Broadcast)
def _broadcast(printer: Printer, node: E.Broadcast) -> Text:
    return f"{printer.tir('Broadcast')}({printer.text(node.value)}, {node.lanes})", ATOM


@expression(E.Shuffle)
def _shuffle(printer: Printer, node: E.Shuffle) -> Text:
    return f"{printer.tir('Shuffle')}([{printer.texts(node.vectors)}], [{printer.texts(node.indices)}])", ATOM


@expression(E.Let)
def _let(printer: Printer, node: E.Let) -> Text:
    value = printer.text(node.value)
    var = printer.text(node.var)
    return f"{printer.tir('Let')}({printer.text(node.body)}, where={{{var}: {value}}})", ATOM


# ---- buffers -----------------------------------------------------------------------------------------------------


def index_texts(printer: Printer, indices: Any) -> str:
    """Indices between brackets; a vector index with constant stride is a slice."""
    if not indices:
        return "()"
    found = []
    for index in indices:
        if index.__class__ is E.Ramp and printer.config.syntax_sugar and isinstance(index.stride, E.IntImm):
            stop = index.base + operators.const(index.lanes, index.base.dtype) * index.stride
            step = "" if index.stride.value == 1 else f":{printer.text(index.stride)}"
            if _slice_reads_back(index, stop):
                found.append(f"{printer.text(index.base)}:{printer.text(stop)}{step}")
                continue
        found.append(printer.text(index))
    return ", ".join(found)


def _slice_reads_back(ramp: Any, stop: E.PrimExpr) -> bool:
    if ramp.stride.dtype != ramp.base.dtype or ramp.stride.value <= 0 or ramp.lanes <= 1:
        return False
    extent = extent_between(ramp.base, stop)
    return (
        isinstance(extent, E.IntImm)
        and (extent.value + ramp.stride.value - 1) // ramp.stride.value == ramp.lanes
    )


@expression(E.BufferLoad)
def _buffer_load(printer: Printer, node: E.BufferLoad) -> Text:
    buffer = printer.text(node.buffer)
    if node.predicate is not None:
        args = f"[{printer.texts(node.indices)}], predicate={printer.text(node.predicate)}"
        return f"{buffer}.vload({args})", ATOM
    return f"{buffer}[{index_texts(printer, node.indices)}]", ATOM


@expression(E.ProducerLoad)
def _producer_load(printer: Printer, node: E.ProducerLoad) -> Text:
    name = getattr(node.producer, "name", None) or getattr(node.producer.op, "name", "tensor")
    return f"{name}[{index_texts(printer, node.indices)}]", ATOM


@expression(BufferRegion)
def _buffer_region(printer: Printer, node: BufferRegion) -> Text:
    return f"{printer.text(node.buffer)}[{region_texts(printer, node.region)}]", ATOM


def region_texts(printer: Printer, region: Any) -> str:
    """Ranges between brackets: an index where the extent is one, else a slice."""
    found = []
    for item in region:
        extent = item.extent
        if isinstance(extent, E.IntImm) and extent.value == 1 and extent.dtype == item.min.dtype:
            found.append(printer.text(item.min))
            continue
        stop = _range_stop(item)
        if stop is None:
            found.append(range_text(printer, item))
        else:
            found.append(f"{printer.text(item.min)}:{printer.text(stop)}")
    return ", ".join(found) if found else "()"


def _range_stop(item: E.Range) -> E.PrimExpr | None:
    """The end of a range, when the parser finds the same extent from it; None for others."""
    if item.min.dtype != item.extent.dtype:
        return None
    stop = item.min + item.extent
    return stop if structural_equal(extent_between(item.min, stop), item.extent) else None


def range_text(printer: Printer, item: E.Range, tir_prefix: bool = True) -> str:
    """A Range node: ``T.Range(0, 10)`` inside TIR, ``I.Range(0, 10)`` alone."""
    stop = _range_stop(item)
    end = f"extent={printer.text(item.extent)}" if stop is None else printer.text(stop)
    return f"{printer.tir('Range') if tir_prefix else printer.ir('Range')}({printer.text(item.min)}, {end})"


@expression(E.Range)
def _range(printer: Printer, node: E.Range) -> Text:
    return range_text(printer, node, tir_prefix=False), ATOM


@expression(E.IterVar)
def _iter_var(printer: Printer, node: E.IterVar) -> Text:
    dom = "None" if node.dom is None else range_text(printer, node.dom)
    kind = ITER_TYPES[node.iter_type]
    return (
        f"{printer.tir('iter_var')}({printer.text(node.var)}, {dom}, {quote(kind)}, {quote(node.thread_tag)})",
        ATOM,
    )


@expression(E.CommReducer)
def _comm_reducer(printer: Printer, node: E.CommReducer) -> Text:
    with printer.frame():
        names = [printer.define(var, var.name) for var in (*node.lhs, *node.rhs)]
        results = printer.text(node.result[0]) if len(node.result) == 1 else f"({printer.texts(node.result)})"
    identity = printer.texts(node.identity_element)
    return f"{printer.tir('comm_reducer')}(lambda {', '.join(names)}: {results}, [{identity}])", ATOM


@expression(E.Reduce)
def _reduce(printer: Printer, node: E.Reduce) -> Text:
    combiner = printer.text(node.combiner)
    source, axis = printer.texts(node.source), printer.texts(node.axis)
    condition, init = printer.text(node.condition), printer.texts(node.init)
    name = printer.tir("Reduce")
    return f"{name}({combiner}, [{source}], [{axis}], {condition}, {node.value_index}, [{init}])", ATOM


@expression(IndexMap)
def _index_map(printer: Printer, node: IndexMap) -> Text:
    with printer.frame():
        names = [printer.define(var, var.name) for var in node.initial_indices]
        final = printer.items(node.final_indices)
    options = ""
    dtype = node.initial_indices[0].dtype if node.initial_indices else "int32"
    if dtype != "int32":
        options += f", index_dtype={quote(dtype)}"
    if isinstance(node.inverse_index_map, IndexMap):
        options += f", inverse_index_map={printer.text(node.inverse_index_map)}"
    return f"{printer.tir('index_map')}(lambda {', '.join(names)}: {final}{options})", ATOM


# ---- calls -------------------------------------------------------------------------------------------------------


def _as_argument(node: Any) -> Any:
    """What the parser hands to a function for this argument: int32 and string constants arrive as Python values."""
    if node.__class__ is E.IntImm and node.dtype == "int32":
        return node.value
    return node.value if node.__class__ is E.StringImm else node


def _same_argument(a: Any, b: Any) -> bool:
    if a is b:
        return True
    return (
        a.__class__ is b.__class__
        and isinstance(a, E.IntImm | E.StringImm)
        and a.dtype == b.dtype
        and a.value == b.value
    )


def _call_reads_back(record: Intrinsic, call: E.Call) -> bool:
    """Whether the function of the intrinsic makes this very call of its arguments."""
    try:
        found = record.build(*[_as_argument(item) for item in call.args])
    except (IRError, TypeError, AttributeError):  # the function takes other arguments than this call has
        return False
    return (
        found.__class__ is E.Call
        and found.op is call.op
        and found.dtype == call.dtype
        and len(found.args) == len(call.args)
        and all(_same_argument(a, b) for a, b in zip(found.args, call.args, strict=True))
    )


@expression(E.Call)
def _call(printer: Printer, call: E.Call) -> Text:
    if isinstance(call.op, GlobalVar):
        return _global_call(printer, call), ATOM
    args = printer.texts(call.args)
    record = find(call)
    if record is not None and record.dtype_first:
        return f"{printer.tir(record.name)}({quote(call.dtype)}{', ' if args else ''}{args})", ATOM
    if record is not None and _call_reads_back(record, call):
        return f"{printer.tir(record.script_name)}({args})", ATOM
    name = call.op.name
    return (
        f"{printer.tir('call_intrin')}({quote(call.dtype)}, {quote(name)}{', ' if args else ''}{args})",
        ATOM,
    )


def _global_call(printer: Printer, call: E.Call) -> str:
    callee = printer.text(call.op)
    args = printer.texts(call.args)
    if call.dtype == _declared_dtype(printer, call.op):
        return f"{callee}({args})"
    return f"{printer.tir('Call')}({quote(call.dtype)}, {callee}, [{args}])"


def _declared_dtype(printer: Printer, var: GlobalVar) -> str:
    """The dtype that the parser gives to a call of this function: its declared result, or void."""
    func = printer.module.functions.get(var) if printer.module is not None else None
    ret_type = getattr(func, "ret_type", None)
    return ret_type.dtype if isinstance(ret_type, PrimType) else "void"


@expression(Op)
def _op(printer: Printer, node: Op) -> Text:
    return f"{printer.ir('Op')}({quote(node.name)})", ATOM


@expression(PrimType, PointerType, TupleType)
def _type(printer: Printer, node: Type) -> Text:
    if isinstance(node, PointerType) and isinstance(node.element_type, PrimType):
        scope = node.storage_scope or "global"
        return f"{printer.tir('handle')}({quote(node.element_type.dtype)}, {quote(scope)})", ATOM
    if isinstance(node, TupleType) and node.fields:
        return f"{printer.tir('Tuple')}({printer.texts(node.fields)})", ATOM
    return type_text(printer, node), ATOM
