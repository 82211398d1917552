"""Operators of neural networks."""

from .activation import (
    gelu,
    gelu_tanh,
    leakyrelu,
    log_softmax,
    prelu,
    relu,
    relu6,
    selu,
    silu,
    softmax,
    softplus,
)
from .attention import attention, attention_var_len
from .conv import conv1d, conv2d, conv3d
from .conv_transpose import conv1d_transpose, conv2d_transpose, conv3d_transpose
from .loss import cross_entropy_with_logits, nll_loss
from .normalization import batch_norm, dropout, group_norm, instance_norm, layer_norm, rms_norm
from .pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from .shaping import batch_flatten, pad, pixel_shuffle
