"""The operators of Relax; one declaration each, grouped by family."""

import sys

from .. import expr
from .base import (
    assert_op,
    call_builtin_with_ctx,
    call_dps_packed,
    call_inplace_packed,
    call_pure_packed,
    call_tir,
    call_tir_inplace,
    call_tir_with_grad,
    hint_on_device,
    invoke_closure,
    invoke_pure_closure,
    make_closure,
    null_value,
    print,
    register_gradient,
    shape_of,
    shape_to_tensor,
    tensor_to_shape,
    to_vdevice,
)
from .binary import (
    add,
    atan2,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    divide,
    equal,
    floor_divide,
    floor_mod,
    greater,
    greater_equal,
    left_shift,
    less,
    less_equal,
    log_add_exp,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    multiply,
    not_equal,
    power,
    right_shift,
    subtract,
)
from .declaration import OPERATORS, MixedPrecisionPolicy, OperatorDeclaration, OpPatternKind, operator
from .unary import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    bitwise_not,
    ceil,
    clip,
    cos,
    cosh,
    erf,
    exp,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    logical_not,
    negative,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
    trunc,
)
from . import nn
from .create import (
    arange,
    eye,
    eye_like,
    full,
    full_like,
    hamming_window,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from .datatype import astype, wrap_param
from .gather import (
    gather_elements,
    gather_nd,
    index_put,
    index_tensor,
    scatter_elements,
    scatter_nd,
    slice_scatter,
)
from .index import dynamic_strided_slice, strided_slice, take
from .linear_algebra import einsum, linear, matmul, outer
from .joining import concat, meshgrid, one_hot, split, stack
from .manipulate import (
    broadcast_to,
    collapse_sum_like,
    collapse_sum_to,
    flip,
    layout_transform,
    permute_dims,
    repeat,
    tile,
)
from .reshaping import expand_dims, flatten, reshape, squeeze
from .search import argmax, argmin, bucketize, where
from .sorting import argsort, sort, topk
from .statistical import cumprod, cumsum, max, mean, median, min, prod, std, sum, variance
from . import builtin, ccl, distributed, grad, image, inspect, memory, vm
from . import distributed as dist
from .mask import masked_fill
from .qdq import dequantize, quantize
from .sampling import multinomial_from_uniform
from .set import nonzero, unique
from .ternary import ewise_fma

expr.operators = sys.modules[__name__]
