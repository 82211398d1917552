"""MakeUnpackedAPI: functions take addresses and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...error import IRValueError
from ...module import IRModule
from ...transform import PassContext
from ..buffer import Buffer
from ..expr import PrimExpr
from ..function import PrimFunc
from ..kernel_launch import CALLING_CONVENTION
from ..stmt_functor import variables_in
from .prim_func_pass import PrimFuncPass


def declared_numbers(buffer: Buffer) -> Iterator[PrimExpr]:
    """What the declaration of a buffer says in numbers: extents, strides, offset."""
    yield from buffer.shape
    yield from buffer.strides
    if buffer.elem_offset is not None:
        yield buffer.elem_offset


def unpacked(func: PrimFunc) -> PrimFunc:
    """A function that takes the address of each buffer, and behind its parameters the symbols that no parameter is."""
    params = [func.buffer_map[param].data if param in func.buffer_map else param for param in func.params]
    numbers = [item for buffer in func.buffer_map.values() for item in declared_numbers(buffer)]
    symbols = [var for var in variables_in(*numbers) if var not in params]
    return func.replace(params=(*params, *symbols), buffer_map={})


@dataclass(frozen=True)
class MakeUnpackedAPI(PrimFuncPass):
    """Make public functions take the addresses of their buffers in place of arrays: nothing is compared, and the caller sees to it.

    Functions that are private, or have a calling convention already, stay as they are.

    Before::

        def main(A: T.Buffer((16,), "float32"), k: T.int32):
            T.func_attr({"global_symbol": "main"})
            A[k] = T.float32(0)

    After::

        def main(A_1: T.handle("float32"), k: T.int32):
            T.func_attr({"global_symbol": "main"})
            A = T.Buffer((16,), data=A_1)
            A[k] = T.float32(0)

    Raises:
        IRValueError: no number that is passed tells an extent, a stride or an offset: an address does not.
    """

    pass_name = "tir.MakeUnpackedAPI"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without buffers among its parameters."""
        if "global_symbol" not in func.attrs or CALLING_CONVENTION in func.attrs or not func.buffer_map:
            return func
        made = unpacked(func)
        if len(made.params) > len(func.params):
            names = ", ".join(var.name for var in made.params[len(func.params) :])
            raise IRValueError(
                f"function {func.attrs['global_symbol']}: no parameter tells {names}, and addresses have no extents; make each a parameter"
            )
        return made
