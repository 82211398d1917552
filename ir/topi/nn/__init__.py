"""Operators of neural networks: convolutions, products, pools, normalizations, activations, padding, losses."""

from .conv import (
    conv,
    conv1d,
    conv1d_ncw,
    conv1d_nwc,
    conv2d,
    conv2d_hwcn,
    conv2d_nchw,
    conv2d_nhwc,
    conv3d_ncdhw,
    conv3d_ndhwc,
    depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc,
    group_conv1d_ncw,
    group_conv1d_nwc,
    group_conv2d_nchw,
    group_conv2d_nhwc,
)
from .conv_transpose import (
    conv1d_transpose_ncw,
    conv1d_transpose_nwc,
    conv2d_transpose_nchw,
    conv2d_transpose_nhwc,
    conv3d_transpose_ncdhw,
    conv3d_transpose_ndhwc,
    group_conv1d_transpose_ncw,
    group_conv2d_transpose_nchw,
    group_conv3d_transpose_ncdhw,
)
from .dense import batch_matmul, bias_add, dense, matmul
from .elementwise import gelu, leaky_relu, prelu, relu, scale_shift, scale_shift_nchw, scale_shift_nhwc, silu
from .loss import cross_entropy_with_logits, nll_loss
from .normalization import batch_norm, group_norm, instance_norm, l2_normalize, layer_norm, lrn, rms_norm
from .pad import circular_pad, dilate, edge_pad, mirror_pad, pad, pad_amounts, reflect_pad, replicate_pad
from .pooling import adaptive_pool, adaptive_pool1d, adaptive_pool3d, global_pool, pool1d, pool2d, pool3d
from .rearrange import (
    batch_to_space_nd,
    channel_shuffle,
    depth_to_space,
    flatten,
    pixel_shuffle,
    pixel_unshuffle,
    space_to_batch_nd,
    space_to_depth,
    upsampling,
    upsampling3d,
)
from .softmax import fast_softmax, log_softmax, softmax, softmax_matmul
