"""Sums of narrow floats are taken in float32 and rounded once, when they are complete."""

from __future__ import annotations

from .. import dtype as dt
from ..te.operation import compute
from ..te.tensor import Tensor
from . import tag


def accumulator(dtype: str) -> str:
    """The dtype that sums of ``dtype`` are taken in: float32 for narrower floats, else the dtype itself.

    >>> accumulator("bfloat16"), accumulator("float64"), accumulator("int8")
    ('float32', 'float64', 'int8')
    """
    return "float32" if dt.is_float(dtype) and dt.bits(dtype) < 32 else dtype


def rounded(data: Tensor, dtype: str) -> Tensor:
    """The elements in ``dtype``, in a stage of its own; ``data`` itself where they are."""
    if data.dtype == dtype:
        return data
    found: Tensor = compute(data.shape, lambda *i: data(*i).astype(dtype), "T_cast", tag.ELEMWISE)
    return found
