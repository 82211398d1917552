"""How tensors are made: ``placeholder``, ``compute``, ``extern`` and the variables that they use."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import dtype as dt
from ..error import IRTypeError, IRValueError
from ..node import post_order_visit
from ..tir.buffer import Buffer, check_extents, decl_buffer
from ..tir.expr import BufferLoad, IterVar, PrimExpr, Range, SizeVar, StringImm, Var
from ..tir.function import PrimFunc
from ..tir.operators import convert
from ..tir.stmt import BufferStore, Evaluate, Stmt
from ..tir.written_condition import written_as_function
from .tensor import ComputeOp, ExternOp, PlaceholderOp, Tensor


def _shape_of(shape: Any, what: str) -> tuple[PrimExpr, ...]:
    """The extents of what the messages name; raises IRTypeError or IRValueError for what is no extent."""
    extents = shape if isinstance(shape, tuple | list) else (shape,)
    found = tuple(convert(extent) for extent in extents)
    check_extents(found, what)
    return found


def placeholder(shape: Any, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """A tensor from outside; ``dtype`` defaults to float32.

    >>> placeholder((128, 64), "float32", name="A")
    Tensor(shape=[128, 64], op.name=A, dtype=float32)
    """
    return PlaceholderOp(name, _shape_of(shape, f"placeholder {name}"), dtype or "float32").output(0)


def _axis_names(fcompute: Callable[..., Any], ndim: int, varargs_names: Sequence[str] | None) -> list[str]:
    """Names of the axes from the parameters of ``fcompute``; ``*i`` takes the rest as ``i0, i1, ...``."""
    spec = inspect.getfullargspec(fcompute)
    named = [name for name in spec.args if name != "self" or not inspect.ismethod(fcompute)]
    if len(named) > ndim and spec.defaults:
        # Parameters with defaults bind loop variables of the caller; they are no indices.
        named = named[: -len(spec.defaults)]
    if spec.varargs is None:
        return named if named else [f"i{i}" for i in range(ndim)]
    rest = ndim - len(named)
    if varargs_names is None:
        return [*named, *(f"i{i}" for i in range(rest))]
    if len(varargs_names) != rest:
        raise IRValueError(
            f"varargs_names has {len(varargs_names)} names, but {rest} dimensions remain for *{spec.varargs}"
        )
    return [*named, *varargs_names]


def _kind_of(value: Any) -> str:
    return "a function" if callable(value) else f"{value!r}, a {type(value).__name__}"


def _check_element(value: Any, name: str) -> None:
    """Refuse what is no number of the program: text, arrays, whole tensors of numpy."""
    if isinstance(value, str | StringImm):
        raise IRTypeError(
            f"compute {name}: the function returned the text {value}; an element is a number or an expression of elements, as in A[i]"
        )
    if isinstance(value, np.ndarray) and value.ndim:
        raise IRTypeError(
            f"compute {name}: the function returned an array of numpy of shape {value.shape}; it is asked for one element: pass the array"
            " as a tensor, te.placeholder(shape, dtype), and return an element of it, as in A[i]"
        )


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """A tensor of ``shape`` whose elements ``fcompute(*indices)`` gives; a tuple of values makes a tuple of tensors.

    The axes are named after the parameters of ``fcompute``. ``attrs`` become annotations of the block.

    >>> A = placeholder((4, 8), name="A")
    >>> compute((8, 4), lambda i, j: A[j, i], name="At").name
    'At'
    """
    if callable(shape) or not callable(fcompute):
        raise IRTypeError(
            f"compute {name} takes the shape, then the function of an element, as in te.compute((4,), lambda i: A[i]); got"
            f" {_kind_of(shape)} and {_kind_of(fcompute)}"
        )
    extents = _shape_of(shape, f"compute {name}")
    names = _axis_names(fcompute, len(extents), varargs_names)
    if len(names) > len(extents):
        raise IRValueError(
            f"compute {name}: the function takes {len(names)} indices, but the shape has {len(extents)}"
        )
    axis = [
        IterVar(
            Range.from_min_extent(convert(0).astype(extent.dtype), extent),
            Var(label, extent.dtype),
            IterVar.DataPar,
        )
        for label, extent in zip(names, extents, strict=False)
    ]
    with written_as_function():
        body = fcompute(*[item.var for item in axis])
    if body is None:
        raise IRTypeError(
            f"compute {name}: the function returned None, expected the value of an element; is a return missing?"
        )
    values = list(body) if isinstance(body, tuple | list) else [body]
    for value in values:
        _check_element(value, name)
    # An extent that is no axis is broadcast: the function takes fewer indices than the shape has.
    if len(axis) < len(extents):
        spare = [
            IterVar(
                Range.from_min_extent(convert(0).astype(extent.dtype), extent),
                Var(f"i{index}", extent.dtype),
                0,
            )
            for index, extent in enumerate(extents[len(axis) :], len(axis))
        ]
        axis += spare
    op = ComputeOp(name, tag, attrs, axis, values, extents)
    outputs = tuple(op.output(index) for index in range(op.num_outputs))
    return outputs[0] if len(outputs) == 1 else outputs


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors filled by TIR: ``fcompute(ins, outs)`` over buffers returns a statement or an expression to evaluate.

    ``shape`` is one shape or a list of shapes, ``dtype`` one dtype or a list; without it all inputs must have one dtype.
    """
    shapes = _list_of_shapes(shape, f"extern {name}")
    if in_buffers is not None:
        ins = list(in_buffers) if isinstance(in_buffers, tuple | list) else [in_buffers]
        if len(ins) != len(inputs):
            raise IRValueError(f"extern {name}: {len(inputs)} inputs, but {len(ins)} in_buffers")
    else:
        ins = [decl_buffer(item.shape, item.dtype, item.name) for item in inputs]
    if out_buffers is not None:
        outs = list(out_buffers) if isinstance(out_buffers, tuple | list) else [out_buffers]
        if len(outs) != len(shapes):
            raise IRValueError(f"extern {name}: {len(shapes)} shapes, but {len(outs)} out_buffers")
    else:
        outs = [
            decl_buffer(item, kind, name if len(shapes) == 1 else f"{name}_v{index}")
            for index, (item, kind) in enumerate(
                zip(shapes, _extern_dtypes(name, dtype, inputs, len(shapes)), strict=True)
            )
        ]
    with written_as_function():
        body = fcompute(ins, outs)
    if isinstance(body, PrimExpr):
        body = Evaluate(body)
    if not isinstance(body, Stmt):
        raise IRTypeError(
            f"extern {name}: the function must return a statement or a call, got {type(body).__name__}"
        )
    op = ExternOp(name, tag, attrs, inputs, ins, outs, body)
    outputs = tuple(op.output(index) for index in range(op.num_outputs))
    return outputs[0] if len(outputs) == 1 else list(outputs)


def _list_of_shapes(shape: Any, what: str) -> list[tuple[PrimExpr, ...]]:
    if isinstance(shape, tuple | list) and shape and isinstance(shape[0], tuple | list):
        return [_shape_of(item, what) for item in shape]
    return [_shape_of(shape, what)]


def _extern_dtypes(name: str, dtype: Any, inputs: Sequence[Tensor], count: int) -> list[str]:
    if dtype is None:
        kinds = {item.dtype for item in inputs}
        if len(kinds) != 1:
            raise IRValueError(
                f"extern {name}: the inputs have dtypes {sorted(kinds)}; pass dtype for the outputs"
            )
        return [kinds.pop()] * count
    if not isinstance(dtype, list | tuple):
        return [dt.checked(dtype)] * count
    if len(dtype) != count:
        raise IRValueError(f"extern {name}: {count} outputs, but {len(dtype)} dtypes")
    return list(dtype)


def extern_primfunc(input_tensors: Sequence[Tensor], primfunc: PrimFunc, **kwargs: Any) -> Any:
    """Tensors computed by a PrimFunc, whose buffers are first those that it reads, then those that it only writes.

    ``kwargs`` go to :func:`extern`.
    """
    reads: dict[Buffer, None] = {}
    writes: dict[Buffer, None] = {}

    def collect(node: Any) -> None:
        if isinstance(node, BufferLoad):
            reads.setdefault(node.buffer)
        elif isinstance(node, BufferStore):
            writes.setdefault(node.buffer)

    post_order_visit(primfunc.body, collect)
    buffers = [primfunc.buffer_map[param] for param in primfunc.params if param in primfunc.buffer_map]
    outputs = [item for item in buffers if item in writes]
    only_written = [item for item in outputs if item not in reads]
    ins = [item for item in buffers if item in reads]
    if not only_written or len(ins) != len(input_tensors):
        # An output that is also read (accumulated in place) cannot be told by access; the parameters' order tells it.
        ins, only_written = buffers[: len(input_tensors)], buffers[len(input_tensors) :]
    if not only_written or len(ins) != len(input_tensors):
        raise IRValueError(
            f"extern_primfunc: {len(input_tensors)} input tensors do not fit the function's {len(buffers)} buffers,"
            f" of which {len(outputs)} are written"
        )
    kwargs.setdefault("name", str(primfunc.attrs.get("global_symbol", "extern")))
    return extern(
        [item.shape for item in only_written],
        input_tensors,
        lambda _ins, _outs: primfunc.body,
        in_buffers=ins,
        out_buffers=only_written,
        **kwargs,
    )


def var(name: str = "tindex", dtype: str = "int32") -> Var:
    """A new variable."""
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = "int32") -> SizeVar:
    """A new variable that is at least zero, for extents."""
    return SizeVar(name, dtype)


def thread_axis(dom: Any = None, tag: str = "", name: str = "") -> IterVar:
    """An axis bound to threads: ``tag`` such as ``"blockIdx.x"``."""
    if not tag and isinstance(dom, str):
        tag, dom = dom, None
    if not tag:
        raise IRValueError("thread_axis needs a tag such as 'threadIdx.x'")
    if dom is None:
        domain = Range(0)
    elif isinstance(dom, Range):
        domain = dom
    else:
        domain = Range(*dom) if isinstance(dom, tuple | list) else Range(dom)
    return IterVar(domain, Var(name or tag, domain.extent.dtype), IterVar.ThreadIndex, tag)
