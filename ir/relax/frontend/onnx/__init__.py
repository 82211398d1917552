"""Import of ONNX models, :func:`from_onnx` and the table of converters behind it; and :func:`to_onnx`, the way back."""

from . import converters as _converters
from .context import Known, NodeContext
from .error import (
    ConversionError,
    DynamicShapeError,
    InvalidModelError,
    ONNXExportError,
    ONNXImportError,
    UnsupportedOperatorError,
)
from .exporter import exportable_operators, to_onnx
from .importer import dynamic_dimensions, from_onnx, load_model, require_static_shapes
from .registry import converter, find_converter, supported_operators

__all__ = [
    "from_onnx",
    "load_model",
    "dynamic_dimensions",
    "require_static_shapes",
    "to_onnx",
    "exportable_operators",
    # adding operators
    "converter",
    "find_converter",
    "supported_operators",
    "NodeContext",
    "Known",
    # errors
    "ONNXImportError",
    "ONNXExportError",
    "InvalidModelError",
    "UnsupportedOperatorError",
    "DynamicShapeError",
    "ConversionError",
]
