"""Import of ONNX models: :func:`from_onnx` and the table of converters behind it."""

from . import converters as _converters
from .context import Known, NodeContext
from .error import (
    ConversionError,
    DynamicShapeError,
    InvalidModelError,
    ONNXImportError,
    UnsupportedOperatorError,
)
from .importer import dynamic_dimensions, from_onnx, load_model, require_static_shapes
from .registry import converter, find_converter, supported_operators

__all__ = [
    "from_onnx",
    "load_model",
    "dynamic_dimensions",
    "require_static_shapes",
    # adding operators
    "converter",
    "find_converter",
    "supported_operators",
    "NodeContext",
    "Known",
    # errors
    "ONNXImportError",
    "InvalidModelError",
    "UnsupportedOperatorError",
    "DynamicShapeError",
    "ConversionError",
]
