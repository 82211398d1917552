"""What can go wrong while an ONNX model is read or written; messages name the node and say what to do."""

from __future__ import annotations

from ir.error import IRError, IRValueError


class ONNXImportError(IRError):
    """A model cannot be imported."""


class InvalidModelError(ONNXImportError):
    """A file is truncated, is no ONNX model, or its graph refers to values that it does not define."""


class UnsupportedOperatorError(ONNXImportError):
    """A model uses operators that have no converter; ``operators`` lists them as (domain, operator, opset, node names)."""

    def __init__(self, message: str, operators: list[tuple[str, str, int, list[str]]]) -> None:
        super().__init__(message)
        self.operators = operators


class DynamicShapeError(ONNXImportError, IRValueError):
    """A shape is not known where it must be."""


class ConversionError(ONNXImportError, IRValueError):
    """A node has inputs or attributes that its converter cannot take."""


class ONNXExportError(IRError):
    """A module cannot be written as ONNX; ``operators`` lists the Relax operators without a counterpart, if those are why."""

    def __init__(self, message: str, operators: list[str] | None = None) -> None:
        super().__init__(message)
        self.operators = operators or []
