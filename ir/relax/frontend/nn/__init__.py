"""A PyTorch-like library for writing models that are exported to Relax: modules, parameters, tensors and functions on them."""

from typing import TypeVar

from . import effects_runtime, op, spec
from .core import (
    Effect,
    Module,
    ModuleDict,
    ModuleList,
    NNError,
    Object,
    Parameter,
    Tensor,
    get_default_dtype,
    set_default_dtype,
    wrap_nested,
)
from .exporter import Exporter, add_extern
from .extern import ExternModule, ObjectModule, SourceModule
from .modules import (
    GELU,
    Attention,
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    Embedding,
    GroupNorm,
    Identity,
    IOEffect,
    KVCache,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    SiLU,
    TimestepEmbedding,
    Timesteps,
)
from .op import *
from .subroutine import SubroutineMixin
from .visitor import Mutator
