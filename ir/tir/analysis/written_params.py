"""Which parameters of a kernel it writes to: what a caller must know of a kernel that it passes memory to."""

from __future__ import annotations

from typing import Any, ClassVar

from ...node import Visitor, remembered
from .. import expr as E
from .. import stmt as S
from ..function import PrimFunc
from ..intrinsic.declaration import CallEffectKind, effect_of
from ..intrinsic.matrix_registers import pointed_to


class _Written(Visitor):
    """Collects the data variables of buffers that are stored to."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.data: set[Any] = set()
        self.anything = False

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self.data.add(store.buffer.data)
        self.generic_visit(store)

    def _declared(self, node: Any) -> None:
        """Nothing happens where a buffer is declared and where it is said which of it is used."""

    visit_Buffer = visit_BufferRegion = visit_MatchBufferRegion = visit_IterVar = _declared

    def visit_Block(self, block: S.Block) -> None:
        self.generic_visit(block)
        for region in block.match_buffers:
            # A region that is matched as another buffer is written through it.
            if region.buffer.data in self.data:
                self.data.add(region.source.buffer.data)

    def visit_Call(self, call: E.Call) -> None:
        name = getattr(call.op, "name", "")
        if name in ("tir.matrix_load", "tir.matrix_store", "tir.matrix_accumulate"):
            self.data.add(pointed_to(call.args[0]).buffer.data)  # a register, or what a store goes to
        elif effect_of(call) > CallEffectKind.READ_STATE and name != "tir.ret":
            self.anything = True
        self.generic_visit(call)


@remembered
def written_params(func: PrimFunc) -> tuple[int, ...]:
    """The numbers of the parameters whose memory the function may write; all handles if it calls what has effects.

    >>> from ir import te
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i], name="B")
    >>> written_params(te.create_prim_func([A, B]))
    (1,)
    """
    visitor = _Written()
    visitor.visit(func.body)
    written = []
    for number, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            if param.dtype == "handle" and (visitor.anything or param in visitor.data):
                written.append(number)
        elif visitor.anything or buffer.data in visitor.data:
            written.append(number)
    return tuple(written)


@remembered
def stored_params(func: PrimFunc) -> tuple[int, ...]:
    """The numbers of the parameters that the function certainly has stores to, whatever its calls do besides.

    It answers who must not refuse a program that is right; :func:`written_params`, who must not miss a write.
    """
    visitor = _Written()
    visitor.visit(func.body)
    return tuple(
        number
        for number, param in enumerate(func.params)
        if (func.buffer_map[param].data if param in func.buffer_map else param) in visitor.data
    )
