"""Arguments of a call: they are compared with what the function declares, and give symbolic variables their values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ... import dtype as dt
from ...node import post_order_visit, remembered
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..function import PrimFunc
from .access import dense_strides
from .error import refusal
from .expressions import Expressions
from .memory import Pointer, pointers_to
from .numbers import number
from .protocol import Machine

Env = dict[Any, Any]


def bind(machine: Machine, func: PrimFunc, args: Sequence[Any], env: Env) -> None:
    """Give parameters, addresses of buffers and symbolic variables their values.

    Raises:
        UndefinedError: arguments that do not fit the declaration, or that overlap although the function says that they do not.
    """
    if len(args) != len(func.params):
        names = ", ".join(_name_of(func, param) for param in func.params)
        raise refusal("call", f"the function takes {len(func.params)} arguments ({names}), got {len(args)}")
    args = [_given(func, param, arg) for param, arg in zip(func.params, args)]
    values = _with_pointers(machine, args)
    expressions = Expressions(machine)
    matches: list[tuple[E.PrimExpr, int, str]] = []
    for param, arg, value in zip(func.params, args, values):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            env[param] = value
        elif isinstance(value, Pointer):
            env[buffer.data] = value
            if isinstance(arg, np.ndarray):
                matches += _declared(buffer, arg)
        else:
            raise refusal("entry", f"buffer {buffer.name} needs an array of numpy, got {_told(arg)}")
    for declared, actual, _ in matches:
        if isinstance(declared, E.Var):
            env.setdefault(declared, actual)
    for declared, actual, difference in matches:
        if (found := expressions.index(declared)(env)) != actual:
            raise refusal("entry", difference.format(found))
    _refuse_aliases(func, dict(zip(func.params, args)))


def _with_pointers(machine: Machine, args: Sequence[Any]) -> list[Any]:
    """The arguments with addresses instead of arrays."""
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    addresses = iter(pointers_to(arrays, machine.loops))
    return [next(addresses) if isinstance(arg, np.ndarray) else arg for arg in args]


def _given(func: PrimFunc, param: E.Var, arg: Any) -> Any:
    """An argument as an array where a buffer is declared, and as a number where one is."""
    if param in func.buffer_map:
        return _array(arg)
    return arg if param.dtype == "handle" else _scalar(param, arg)


def _array(arg: Any) -> Any:
    """Numpy's scalars are arrays without dimensions, and nobody sees what is stored in them."""
    if isinstance(arg, np.generic):
        arg = np.asarray(arg)
        arg.flags.writeable = False
    return arg


def _scalar(param: E.Var, arg: Any) -> Any:
    """The number for a parameter: integers wrap, and what is no number, or no whole one for an integer, is refused."""
    plain = arg[()] if isinstance(arg, np.ndarray) else arg
    try:
        exact = float(plain) if dt.is_float(param.dtype) else int(plain)
        fits = not isinstance(plain, str | bytes | np.ndarray) and (
            dt.is_float(param.dtype) or exact == plain
        )
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise refusal("entry", f"parameter {param.name} must be {param.dtype}, got {_told(arg)}")
    return number(plain, param.dtype)


def _told(arg: Any) -> str:
    """An argument in a message: arrays and tensors may be large."""
    if isinstance(arg, np.ndarray):
        return f"an array of shape {arg.shape}"
    return repr(arg) if isinstance(arg, int | float | str | np.generic | None) else type(arg).__name__


def _declared(buffer: Buffer, array: np.ndarray) -> list[tuple[E.PrimExpr, int, str]]:
    """What the declaration says of a buffer's array (extents, strides, offset), what it has, and what to say if they differ."""
    if array.dtype != dt.to_numpy(buffer.dtype):
        raise refusal("entry", f"buffer {buffer.name} is {buffer.dtype}, got an array of {array.dtype}")
    if not array.flags.aligned:
        raise refusal(
            "entry",
            f"the array for buffer {buffer.name} lies at an address that is no multiple of its elements' size",
        )
    lanes = dt.lanes(buffer.dtype)
    has_lanes = lanes > 1 and array.shape[-1:] == (lanes,)
    shape = array.shape[:-1] if has_lanes else array.shape
    if len(shape) != len(buffer.shape):
        raise refusal(
            "entry",
            f"buffer {buffer.name} has {len(buffer.shape)} dimensions, got an array of shape {array.shape}",
        )
    found = [
        (declared, actual, f"dimension {axis} of buffer {buffer.name} is {{}}, got an array of shape {shape}")
        for axis, (declared, actual) in enumerate(zip(buffer.shape, shape))
    ]
    if not buffer.strides:
        if not array.flags.c_contiguous:
            raise refusal(
                "entry",
                f"the array for buffer {buffer.name} must be contiguous; pass a copy, as np.ascontiguousarray makes one",
            )
    else:
        for axis, (declared, actual) in enumerate(zip(buffer.strides, _strides(buffer, array, shape))):
            if isinstance(declared, E.Var) or shape[axis] > 1:  # the stride of one element is never used
                found.append(
                    (
                        declared,
                        actual,
                        f"stride {axis} of buffer {buffer.name} is {{}}, got an array where it is {actual}",
                    )
                )
    if buffer.elem_offset is not None:
        found.append(
            (
                buffer.elem_offset,
                0,
                f"the offset of buffer {buffer.name} is {{}}, where that of an array is 0",
            )
        )
    return found


def _strides(buffer: Buffer, array: np.ndarray, shape: Sequence[int]) -> list[int]:
    """The strides of an array in elements of the buffer; those of an array without elements are what rows would have."""
    if not array.size:
        return dense_strides(shape)
    size = dt.bytes_of(buffer.dtype)
    if any(stride % size for stride, extent in zip(array.strides, shape) if extent > 1):
        raise refusal("entry", f"the array for buffer {buffer.name} has strides of {array.strides} bytes")
    return [stride // size for stride in array.strides[: len(shape)]]


# ---- overlapping arguments ---------------------------------------------------------------------------------------


def _refuse_aliases(func: PrimFunc, args: dict[E.Var, Any]) -> None:
    if not func.attrs.get("tir.noalias"):
        return
    arrays = {param: arg for param, arg in args.items() if isinstance(arg, np.ndarray)}
    for (a, first), (b, second) in combinations(arrays.items(), 2):
        written = {_data_of(func, a), _data_of(func, b)} & written_memory(func)
        if written and np.shares_memory(first, second):
            raise refusal(
                "noalias",
                f"arguments {_name_of(func, a)} and {_name_of(func, b)} overlap, and one of them is written, but the function says that its"
                " buffers are apart (tir.noalias)",
            )


def _name_of(func: PrimFunc, param: E.Var) -> str:
    """What a program calls a parameter: the name of its buffer, where it has one."""
    return func.buffer_map[param].name if param in func.buffer_map else param.name


def _data_of(func: PrimFunc, param: E.Var) -> E.Var:
    buffer = func.buffer_map.get(param)
    return param if buffer is None else buffer.data


@remembered
def written_memory(func: PrimFunc) -> frozenset[E.Var]:
    """The address variables of what the function itself stores to, through views and other names of an address too."""
    sources: dict[E.Var, E.Var] = {}
    written: set[E.Var] = set()

    def look(node: Any) -> None:
        if isinstance(node, S.BufferStore):
            written.add(node.buffer.data)
        elif isinstance(node, S.MatchBufferRegion):
            sources[node.buffer.data] = node.source.buffer.data
        elif isinstance(node, S.LetStmt) and node.var.dtype == "handle":
            post_order_visit(node.value, lambda part: _note_source(sources, node.var, part))

    post_order_visit(func.body, look)
    pending = list(written)
    while pending:
        source = sources.get(pending.pop())
        if source is not None and source not in written:
            written.add(source)
            pending.append(source)
    return frozenset(written)


def _note_source(sources: dict[E.Var, E.Var], name: E.Var, part: Any) -> None:
    if isinstance(part, E.Var) and part.dtype == "handle":
        sources[name] = part
    elif isinstance(part, E.BufferLoad):
        sources[name] = part.buffer.data
