"""Normalize: bring Relax functions into A-normal form with struct info on every expression."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import PassContext
from ..block_builder import BlockBuilder
from ..function import Function
from .function_pass import FunctionPass


@dataclass(frozen=True)
class Normalize(FunctionPass):
    """Bind nested expressions to variables and infer what is missing.

    Before::

        gv = R.add(R.multiply(x, y), x)

    After::

        lv = R.multiply(x, y)
        gv = R.add(lv, x)
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The normalized function."""
        return BlockBuilder(mod).normalize(func)  # type: ignore[no-any-return]
