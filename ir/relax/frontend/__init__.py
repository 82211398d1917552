"""Frontends: programs of other forms (nn modules, ONNX, PyTorch, StableHLO) turned into Relax modules.

The importers load their format's library only when one of them is imported: ``ir.relax.frontend.onnx`` and so on.
"""

from .params import detach_params

__all__ = ["detach_params"]
