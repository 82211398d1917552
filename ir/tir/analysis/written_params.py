"""Which parameters of a kernel it writes to: what a caller must know of a kernel that it passes memory to."""

from __future__ import annotations

from typing import Any, ClassVar

from ...node import Visitor, remembered
from .. import expr as E
from .. import stmt as S
from ..function import PrimFunc
from ..intrinsic.declaration import INTRINSICS, CallEffectKind, effect_of
from ..intrinsic.matrix_registers import pointed_to
from .thread_allreduce import ThreadAllreduce

_READ_ONLY = 1
"""The mask of ``tvm_access_ptr`` by which nothing is written."""


class _Written(Visitor):
    """Collects the data variables of buffers that are stored to."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.data: set[Any] = set()
        """Of memory that stores go to."""
        self.handed: set[Any] = set()
        """Of memory whose address intrinsics get that have effects, which may be to write there."""
        self.anything = False
        """Whether something is called that may write whatever it finds."""
        self._names: list[tuple[Any, set[Any]]] = []
        """Variables that are bound to addresses, or matched regions, with the data variables of what they lead into."""

    def may_write(self) -> set[Any]:
        """The data variables of all memory that may be written."""
        found = self.data | self.handed
        for name, of in reversed(self._names):  # an inner name leads into an outer one
            if name in found:
                found |= of
        return found

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self.data.add(store.buffer.data)
        self.generic_visit(store)

    def _declared(self, node: Any) -> None:
        """Nothing happens where a buffer is declared and where it is said which of it is used."""

    visit_Buffer = visit_BufferRegion = visit_MatchBufferRegion = visit_IterVar = _declared

    def visit_Block(self, block: S.Block) -> None:
        self._names += [(region.buffer.data, {region.source.buffer.data}) for region in block.match_buffers]
        self.generic_visit(block)
        for region in block.match_buffers:
            # A region that is matched as another buffer is written through it.
            if region.buffer.data in self.data:
                self.data.add(region.source.buffer.data)

    def visit_LetStmt(self, node: S.LetStmt) -> None:
        self._name(node.var, node.value)
        self.generic_visit(node)

    def visit_Let(self, node: E.Let) -> None:
        self._name(node.var, node.value)
        self.generic_visit(node)

    def _name(self, var: E.Var, value: E.PrimExpr) -> None:
        found: set[Any] = set()
        if value.dtype == "handle" and not _addresses(value, found):
            self.anything = True
        self._names.append((var, found))

    def visit_Call(self, call: E.Call) -> None:
        name = getattr(call.op, "name", "")
        if name in ("tir.matrix_load", "tir.matrix_store", "tir.matrix_accumulate"):
            self.data.add(pointed_to(call.args[0]).buffer.data)  # a register, or what a store goes to
        elif effect_of(call) > CallEffectKind.READ_STATE and name != "tir.ret":
            self._effect(call, name)
        self.generic_visit(call)

    def _effect(self, call: E.Call, name: str) -> None:
        """An intrinsic of a machine writes where it is given an address; a function that the program does not hold does anything."""
        record, shared = INTRINSICS.get(name), ThreadAllreduce.of(call)
        if shared is not None:
            self.handed.update(result.buffer.data for result in shared.results)
        elif record is None or record.foreign or not all(_addresses(arg, self.handed) for arg in call.args):
            self.anything = True


def _addresses(arg: Any, found: set[Any]) -> bool:
    """Add the data variables of the memory into which an argument leads, if it is an address; whether those are known."""
    if getattr(arg, "dtype", "") != "handle" or isinstance(arg, E.StringImm):
        return True
    name = getattr(getattr(arg, "op", None), "name", "")
    if isinstance(arg, E.Var):
        found.add(arg)
    elif name == "tir.address_of" and isinstance(arg.args[0], E.BufferLoad):
        found.add(arg.args[0].buffer.data)
    elif name == "tir.tvm_access_ptr" and isinstance(arg.args[1], E.Var):
        if getattr(arg.args[4], "value", None) != _READ_ONLY:
            found.add(arg.args[1])
    elif name == "tir.tensor_map_encode_tiled":
        return True  # boxes are copied from a tensor, and none into it
    else:
        return False
    return True


@remembered
def written_params(func: PrimFunc) -> tuple[int, ...]:
    """The numbers of the parameters whose memory the function may write; all handles if it calls what the program does not hold.

    >>> from ir import te
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i], name="B")
    >>> written_params(te.create_prim_func([A, B]))
    (1,)
    """
    visitor = _Written()
    visitor.visit(func.body)
    data = visitor.may_write()
    written = []
    for number, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            if param.dtype == "handle" and (visitor.anything or param in data):
                written.append(number)
        elif visitor.anything or buffer.data in data:
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
