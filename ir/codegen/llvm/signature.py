"""How a kernel is called from C: ``int32 f(void* buffer..., int64 scalar..., ...)`` and its description in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ... import dtype as dt
from ...tir.analysis.call_fit import result_dtype
from ...tir.analysis.no_alias import promises_no_alias
from ...tir.buffer import Buffer
from ...tir.expr import IntImm, Var
from ...tir.function import OUTLINED, PrimFunc
from ..error import CodegenError
from .extent import Extent, extent_of, text_of
from .types import register_type


@dataclass(frozen=True)
class Parameter:
    """One C parameter of a kernel, of which no other has the name.

    ``kind`` is ``buffer`` (pointer to dense data), ``scalar`` (a parameter of the function: integers as int64, floats as
    :func:`passed_float` says), ``symbol`` (a symbolic extent that no scalar parameter gives: int64) or ``result`` (pointer to what
    ``T.ret`` returns).
    """

    kind: str
    name: str
    dtype: str
    shape: tuple[Extent, ...] = ()
    """Of a buffer: its extents, or :data:`UNTYPED`."""
    strides: tuple[Extent, ...] = ()
    """Of a buffer that declares them, in elements; a buffer without is dense and row-major."""
    offset: Extent = 0
    """Of a buffer's first element, in elements."""
    stored: bool = False
    """Whether the kernel stores to the buffer, so that it must be memory that can be written."""


UNTYPED: tuple[Extent, ...] = ("?",)
"""The shape of a pointer of which nothing is known."""


@dataclass(frozen=True)
class Signature:
    """All C parameters of a kernel, in order."""

    name: str
    parameters: tuple[Parameter, ...]
    apart: bool = False
    """Whether no memory that the kernel writes may be another argument's too: the function says ``tir.noalias``."""
    symbol: str = ""
    """What the kernel is called in object files, see :mod:`.symbols`."""

    def storing_to(self, numbers: Sequence[int]) -> Signature:
        """The signature of a kernel that stores to its parameters of these numbers."""
        given = [item for item in self.parameters if item.kind in ("buffer", "scalar")]
        stored = {id(given[number]) for number in numbers}
        return replace(
            self, parameters=tuple(replace(item, stored=id(item) in stored) for item in self.parameters)
        )

    def c_requirements(self) -> list[str]:
        """What callers from C must see to, a line for each buffer: Python's callers are checked, pointers cannot be."""
        lines = []
        for item in self.parameters:
            if item.kind != "buffer":
                continue
            text = f"{item.name}: {item.dtype} [{_listed(item.shape)}]"
            if item.strides:
                text += f", strides [{_listed(item.strides)}] in elements"
            if item.offset != 0:
                text += f", first element at {text_of(item.offset)}"
            lines.append(text + (", written" if item.stored else ""))
        if self.apart and any(item.stored for item in self.parameters):
            lines.append("what is written has no memory in common with the other buffers")
        return lines

    def c_declaration(self) -> str:
        """The prototype for a C header."""
        parts = []
        for item in self.parameters:
            if item.kind in ("buffer", "result"):
                parts.append(f"void* {_c_name(item.name)}")
            elif item.kind == "scalar" and dt.is_float(item.dtype):
                parts.append(
                    f"{'double' if passed_float(item.dtype) == 'float64' else 'float'} {_c_name(item.name)}"
                )
            else:
                parts.append(f"int64_t {_c_name(item.name)}")
        return f"int32_t {self.symbol}({', '.join(parts) or 'void'});"


def _listed(extents: Sequence[Extent]) -> str:
    return ", ".join(text_of(extent) for extent in extents)


def _c_name(name: str) -> str:
    return "".join(ch if ch.isalnum() or ch == "_" else "_" for ch in name) or "arg"


@dataclass(frozen=True)
class BoundParameter:
    """A C parameter and what it stands for in the PrimFunc."""

    parameter: Parameter
    var: Var
    llvm_type: str


def passed_float(dtype: str) -> str:
    """The dtype that a float is passed in: float32 and float64 have types in C, a narrower one is passed as float32."""
    return "float64" if dtype == "float64" else "float32"


def bind_parameters(func: PrimFunc, name: str, symbol: str = "") -> tuple[Signature, list[BoundParameter]]:
    """The signature of a PrimFunc, whose symbol is given, and the variables behind its parameters.

    Raises:
        CodegenError: a parameter is a vector, or no argument tells what an extent is.
    """
    names = _names_of(func)
    bound: list[BoundParameter] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            bound.append(
                BoundParameter(_buffer_parameter(buffer, names[buffer.data], names), buffer.data, "ptr")
            )
        elif param.dtype == "handle":
            bound.append(BoundParameter(Parameter("buffer", names[param], "uint8", UNTYPED), param, "ptr"))
        else:
            if dt.lanes(param.dtype) != 1:
                raise CodegenError(
                    f"parameter {param.name} of {name}: a value of {param.dtype} has no C type; pass a buffer"
                )
            llvm_type = register_type(passed_float(param.dtype)) if dt.is_float(param.dtype) else "i64"
            bound.append(BoundParameter(Parameter("scalar", names[param], param.dtype), param, llvm_type))
    given = {item.var for item in bound}
    for var in symbols_of(func):
        if var not in given:
            given.add(var)
            bound.append(BoundParameter(Parameter("symbol", names[var], var.dtype), var, "i64"))
    # a part of another function returns nothing: what calls it is no caller of the function
    returned = None if OUTLINED in func.attrs else result_dtype(func)
    if returned is not None:
        bound.append(BoundParameter(Parameter("result", "result", returned), Var("result", "handle"), "ptr"))
    return Signature(name, tuple(item.parameter for item in bound), promises_no_alias(func), symbol), bound


def symbols_of(func: PrimFunc) -> Iterator[Var]:
    """The variables that extents, strides and offsets are, in the order of the buffers."""
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
            yield from (item for item in (*buffer.shape, *buffer.strides, *offset) if isinstance(item, Var))


def _names_of(func: PrimFunc) -> dict[Var, str]:
    """Names of parameters and symbols; of two that are called the same, the later one gets a number."""
    names: dict[Var, str] = {}
    taken: set[str] = set()

    def add(var: Var, wanted: str) -> None:
        if var in names:
            return
        number, name = 0, wanted
        while name in taken:
            number += 1
            name = f"{wanted}_{number}"
        taken.add(name)
        names[var] = name

    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            add(param, param.name)
        else:
            add(buffer.data, buffer.name)
    for symbol in symbols_of(func):
        add(symbol, symbol.name)
    return names


def _buffer_parameter(buffer: Buffer, name: str, names: Mapping[Var, str]) -> Parameter:
    offset = IntImm("int32", 0) if buffer.elem_offset is None else buffer.elem_offset
    try:
        shape = tuple(extent_of(extent, names) for extent in buffer.shape)
        strides = tuple(extent_of(stride, names) for stride in buffer.strides)
        return Parameter("buffer", name, buffer.dtype, shape, strides, extent_of(offset, names))
    except CodegenError as error:
        error.add_note(f"in the declaration of buffer {buffer.name}")
        raise
