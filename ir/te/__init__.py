"""Tensor expressions: tensors given by formulas over their indices, and their lowering to PrimFuncs.

>>> from ir import te
>>> A = te.placeholder((4, 8), name="A")
>>> B = te.compute((4, 8), lambda i, j: A[i, j] * 2.0, name="B")
>>> func = te.create_prim_func([A, B])
"""

from ..tir.expr import Range, SizeVar, Var
from ..tir.operators import cast, const, div, floordiv, floormod, truncdiv, truncmod
from ..tir.op import (
    abs,
    acos,
    acosh,
    all,
    any,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    ceildiv,
    clz,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    exp10,
    floor,
    fmod,
    if_then_else,
    indexdiv,
    indexmod,
    infinity,
    isfinite,
    isinf,
    isnan,
    likely,
    log,
    log1p,
    log2,
    log10,
    max_value,
    min_value,
    nearbyint,
    popcount,
    pow,
    reduce_axis,
    reinterpret,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trace,
    trunc,
)
from ..tir.operators import logical_and, logical_not, logical_or, power
from .operation import compute, extern, extern_primfunc, placeholder, size_var, thread_axis, var
from .prim_func import create_prim_func
from .reduction import comm_reducer, const_reduce, max, min, prod, sum
from .tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor, TensorSlice

create_relax_prim_func = create_prim_func
"""TVM's name where the list holds symbolic variables as well."""
