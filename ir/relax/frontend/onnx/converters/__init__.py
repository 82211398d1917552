"""The converters, by family; importing this package fills the table in :mod:`ir.relax.frontend.onnx.registry`."""

from . import activations, creation, elementwise, indexing, network, normalization, reductions, resize, shapes
