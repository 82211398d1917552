"""Kernels that programs call: elementwise ones, with and without another shape, with symbolic strides, in place, and with two outputs."""

from __future__ import annotations

from typing import Any

from ir import relax as rx
from ir.script import from_source
from ir.tir.function import PrimFunc

from .scope import Rejected, Scope, Value

R = rx.op
_DTYPES = ("float32", "float64", "int32", "int64")

_ELEMENTWISE = """@T.prim_func(private=True)
def kernel(A: T.Buffer({shape}, "{dtype}"), B: T.Buffer({shape}, "{dtype}"), C: T.Buffer({shape}, "{dtype}")):
    T.func_attr({{"tir.noalias": True}})
    for {loops} in T.grid({extents}):
        with T.block("C"):
            {axes} = T.axis.remap("{kinds}", [{loops}])
            C[{axes}] = A[{axes}] * T.{dtype}(2) + B[{axes}]
"""
_STRIDED = """@T.prim_func(private=True)
def kernel(a: T.handle, b: T.handle):
    {symbols}, begin = {declarations}, T.int64()
    A = T.match_buffer(a, {shape}, "{dtype}", strides=[{strides}], elem_offset=begin)
    B = T.match_buffer(b, {symbolic}, "{dtype}")
    for {loops} in T.grid({extents}):
        with T.block("B"):
            {axes} = T.axis.remap("{kinds}", [{loops}])
            B[{axes}] = A[{axes}] + A[{axes}]
"""
_IN_PLACE = """@T.prim_func(private=True)
def kernel(A: T.Buffer({shape}, "{dtype}"), B: T.Buffer({shape}, "{dtype}")):
    for {loops} in T.grid({extents}):
        with T.block("A"):
            {axes} = T.axis.remap("{kinds}", [{loops}])
            A[{axes}] = A[{axes}] + B[{axes}] * T.{dtype}(3)
"""
_TWO_OUTPUTS = """@T.prim_func(private=True)
def kernel(A: T.Buffer({shape}, "{dtype}"), S: T.Buffer({rows}, "{dtype}"), N: T.Buffer({shape}, "{dtype}")):
    T.func_attr({{"tir.noalias": True}})
    for {loops} in T.grid({extents}):
        with T.block("S"):
            {axes} = T.axis.remap("{reducing}", [{loops}])
            with T.init():
                S[{kept}] = T.{dtype}(0)
            S[{kept}] = S[{kept}] + A[{axes}]
    for {loops} in T.grid({extents}):
        with T.block("N"):
            {axes} = T.axis.remap("{kinds}", [{loops}])
            N[{axes}] = A[{axes}] - S[{kept}]
"""


def _operand(scope: Scope, rank: int = 1) -> Value:
    found = scope.tensors(
        lambda value: (
            value.is_static and value.dtype in _DTYPES and len(value.shape) >= rank and min(value.shape) > 0
        )
    )
    if not found:
        raise Rejected
    return scope.random.choice(found)


def _kernel(scope: Scope, template: str, value: Value) -> Any:
    rank = len(value.shape)
    axes = [f"v{axis}" for axis in range(rank)]
    text = template.format(
        shape=value.shape,
        rows=value.shape[:-1],
        dtype=value.dtype,
        loops=", ".join(f"i{axis}" for axis in range(rank)) + ("," if rank == 1 else ""),
        extents=", ".join(str(extent) for extent in value.shape),
        axes=", ".join(axes),
        kept=", ".join(axes[:-1]),
        kinds="S" * rank,
        reducing="S" * (rank - 1) + "R",
        symbols=", ".join(f"n{axis}, s{axis}" for axis in range(rank)),
        declarations=", ".join(["T.int64()"] * 2 * rank),
        strides=", ".join(f"s{axis}" for axis in range(rank)),
        symbolic=f"({', '.join(f'n{axis}' for axis in range(rank))},)",
    )
    text = text.replace("for i0, in T.grid(", "for i0 in T.serial(").replace("[i0,]", "[i0]")
    if rank == 1:
        text = text.replace('v0 = T.axis.remap("S", [i0])', f"v0 = T.axis.spatial({value.shape[0]}, i0)")
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    return scope.builder.add_func(func, "kernel")


def elementwise(scope: Scope) -> Any:
    """A kernel of two arguments."""
    value = _operand(scope)
    other = scope.like(value.dims, value.dtype)
    return R.call_tir(_kernel(scope, _ELEMENTWISE, value), [value.var, other.var], value.info)


def strided(scope: Scope) -> Any:
    """A kernel whose strides, offset and extents of the result are symbols that the operands tell."""
    value = _operand(scope)
    return R.call_tir(_kernel(scope, _STRIDED, value), [value.var], value.info)


def two_outputs(scope: Scope) -> Any:
    """A kernel that sums rows and subtracts the sums."""
    value = _operand(scope, 2)
    rows = rx.TensorStructInfo(value.shape[:-1], value.dtype)
    return R.call_tir(_kernel(scope, _TWO_OUTPUTS, value), [value.var], [rows, value.info])


def in_place(scope: Scope) -> None:
    """A kernel that overwrites a value which nobody looks at any more."""
    found = [
        value
        for value in scope.tensors(lambda value: value.is_static and value.dtype in _DTYPES)
        if value.var in scope.function.overwritable and value.shape and min(value.shape) > 0
    ]
    if not found:
        raise Rejected
    value = scope.random.choice(found)
    other = scope.like(value.dims, value.dtype)
    if other is value:
        raise Rejected
    call = R.call_tir_inplace(_kernel(scope, _IN_PLACE, value), [value.var, other.var], [0], [value.info])
    scope.bind(call)
    scope.forget_overwritten()


CALLS = [elementwise, elementwise, two_outputs, strided]
"""Calls that are values; :func:`in_place` changes the scope as well."""
