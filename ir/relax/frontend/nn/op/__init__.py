"""The functions of the nn library: each emits an operator into the current block builder and returns its tensor."""

from ..core import wrap_nested
from .arithmetic import (
    add,
    argsort,
    cumsum,
    divide,
    equal,
    exp,
    floor,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    matmul,
    max,
    maximum,
    min,
    minimum,
    multiply,
    negative,
    not_equal,
    sort,
    sqrt,
    square,
    subtract,
    sum,
    tanh,
    topk,
    where,
)
from .calls import OutType, debug_func, extern, print_, tensor_expr_op, tensor_ir_inplace_op, tensor_ir_op
from .create import arange, empty, full, ones, zeros
from .manipulate import (
    IntExpr,
    astype,
    broadcast_to,
    chunk,
    concat,
    pad,
    permute,
    permute_dims,
    repeat,
    reshape,
    split,
    squeeze,
    take,
    triu,
    unsqueeze,
)
from .network import (
    ccl_allgather,
    ccl_allreduce,
    ccl_broadcast_from_worker0,
    conv1d,
    conv1d_transpose,
    conv2d,
    conv3d,
    gelu,
    get_timestep_embedding,
    group_norm,
    interpolate,
    layer_norm,
    relu,
    relu6,
    rms_norm,
    scaled_dot_product_attention,
    sigmoid,
    silu,
    softmax,
)
from .sampling import (
    multinomial_from_uniform,
    renormalize_top_p_top_k_prob,
    sample_top_p_top_k_from_sorted_prob,
)

__all__ = [name for name, item in list(globals().items()) if callable(item) and not name.startswith("_")]
__all__ = [name for name in __all__ if name not in ("OutType", "IntExpr")]
