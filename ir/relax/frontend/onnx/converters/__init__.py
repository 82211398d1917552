"""The converters, by family; importing this package fills the table in :mod:`ir.relax.frontend.onnx.registry`."""

from . import (
    activations,
    creation,
    elementwise,
    fused,
    indexing,
    network,
    normalization,
    quantization,
    reductions,
    resize,
    shapes,
)
