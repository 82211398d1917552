"""Whether the parameters of a function are different memory."""

from __future__ import annotations

from ...pass_context import PassContext
from ..function import PrimFunc


def promises_no_alias(func: PrimFunc) -> bool:
    """Whether a function says ``tir.noalias``, and the option of that name does not switch it off."""
    return bool(func.attrs.get("tir.noalias", False)) and bool(PassContext.current().get("tir.noalias", True))
