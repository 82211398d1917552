"""A PyTorch-like library for writing models that are exported to Relax: modules, parameters, tensors and functions on them."""

from typing import TypeVar

from . import effects_runtime, jit, op, spec
from .effects import Effect
from .error import NNError
from .exporter import Exporter, add_extern
from .extern import ExternModule, ObjectModule, SourceModule
from .module import Module, ModuleDict, ModuleList
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
from .tensor import Object, Parameter, Tensor, get_default_dtype, set_default_dtype, wrap_nested
from .visitor import Mutator
