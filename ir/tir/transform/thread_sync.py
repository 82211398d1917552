"""ThreadSync: barriers where a thread may meet what another one did to the memory that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from ...error import IRValueError
from ...module import IRModule
from ...transform import PassContext
from .. import expr as E
from .. import stmt as S
from ..analysis.reads_memory import reads_memory
from ..analysis.thread_groups import BLOCK, LANES, GroupKind, storage_scope
from ..expr import PrimExpr, Var
from ..faults import may_fault
from ..function import PrimFunc
from ..intrinsic.control import if_then_else
from ..intrinsic.declaration import call
from ..operators import const, logical_not
from ..spelled import spelled
from ..stmt import Evaluate, IfThenElse, LetStmt, Stmt, seq
from .barrier_plan import BarrierPlan, Choice, KernelTree, Leaf, Loop, Node, Scope, Sequence_
from .kernel_regions import KernelRegions
from .prim_func_pass import PrimFuncPass

_GROUPS: dict[str, GroupKind] = {"shared": BLOCK, "shared.dyn": BLOCK, "warp": LANES, "global": BLOCK}
"""By scope: which threads may wait for each other before they use its memory."""


class _Emit:
    """Makes statements of a tree with its barriers; a condition on which threads differ goes around what stands between them."""

    def __init__(self, tree: KernelTree) -> None:
        self._kind = tree.kind
        self._cut: dict[int, bool] = {}

    # -- what holds barriers -----------------------------------------------------------------------------------------------
    def _has_barrier(self, node: Node) -> bool:
        """Whether a barrier stands in a statement."""
        found = self._cut.get(id(node))
        if found is None:
            if isinstance(node, Leaf):
                found = node.is_barrier
            elif isinstance(node, Choice):
                branches = [node.then] if node.other is None else [node.then, node.other]
                found = node.cut_between or any(self._any_barrier(item) for item in branches)
            else:
                found = (isinstance(node, Loop) and node.back is not None) or self._any_barrier(node.body)
            self._cut[id(node)] = found
        return found

    def _any_barrier(self, sequence: Sequence_) -> bool:
        return bool(sequence.cuts) or any([self._has_barrier(item) for item in sequence.items])

    # -- statements ----------------------------------------------------------------------------------------------------------
    def sequence(self, sequence: Sequence_, guard: PrimExpr | None = None) -> list[Stmt]:
        """The statements of a sequence, under a condition on which threads differ."""
        found: list[Stmt] = []
        together: list[Stmt] = []

        def close() -> None:
            if together and guard is not None:
                found.append(IfThenElse(guard, seq(together)))
            else:
                found.extend(together)
            together.clear()

        for index, item in enumerate(sequence.items):
            if index in sequence.cuts:
                close()
                found.append(self._barrier())
            if self._has_barrier(item):
                close()
                found += self._node(item, guard)
            else:
                together.append(item.stmt)
        close()
        return found

    def _barrier(self) -> Stmt:
        return Evaluate(call("tvm_storage_sync", self._kind.barrier))

    def _node(self, node: Node, guard: PrimExpr | None) -> list[Stmt]:
        """A statement that holds barriers."""
        if isinstance(node, Leaf):
            return [node.stmt]
        if isinstance(node, Choice):
            return self._choice(node, guard)
        return [self._loop(node, guard) if isinstance(node, Loop) else self._scope(node, guard)]

    def _choice(self, node: Choice, guard: PrimExpr | None) -> list[Stmt]:
        condition = node.stmt.condition
        if not node.differs and (guard is None or not may_fault(condition)):
            other = None if node.other is None else seq(self.sequence(node.other, guard))
            return [node.stmt.replace(then_case=seq(self.sequence(node.then, guard)), else_case=other)]
        held = condition
        if reads_memory(condition) or may_fault(condition):  # once, before what it guards
            held = Var("holds", "bool")
        found = self.sequence(node.then, _both(guard, held))
        if node.cut_between:
            found.append(self._barrier())
        if node.other is not None:
            found += self.sequence(node.other, _both(guard, logical_not(held)))
        if held is condition:
            return found
        return [LetStmt(held, _if(guard, condition), seq(found))]

    def _loop(self, node: Loop, guard: PrimExpr | None) -> Stmt:
        stmt = node.stmt
        if guard is not None and (
            not isinstance(stmt, S.For) or any(may_fault(part) for part in (stmt.min, stmt.extent))
        ):
            self._refuse(stmt, guard)
        if node.differs:
            self._refuse(stmt, guard)
        body = self.sequence(node.body, guard)
        if node.back == "begin":
            body.insert(0, self._barrier())
        elif node.back == "end":
            body.append(self._barrier())
        return stmt.replace(body=seq(body))

    def _scope(self, node: Scope, guard: PrimExpr | None) -> Stmt:
        stmt = node.stmt.replace(body=seq(self.sequence(node.body, guard)))
        if guard is None:
            return stmt
        if isinstance(stmt, LetStmt) and may_fault(stmt.value):
            if stmt.value.dtype == "handle":
                self._refuse(stmt, guard)
            return stmt.replace(value=_if(guard, stmt.value))
        if isinstance(stmt, S.AssertStmt):
            return stmt.replace(condition=E.Or(logical_not(guard), stmt.condition))
        return stmt

    def _refuse(self, stmt: Stmt, guard: PrimExpr | None) -> None:
        why = "which threads run differently often" if guard is None else f"which runs where {guard} only"
        raise IRValueError(
            f"a barrier is wanted within {spelled(stmt)!r}, {why}; move the condition on the thread to the statements that do not wait"
        )


def _both(guard: PrimExpr | None, condition: PrimExpr) -> PrimExpr:
    return condition if guard is None else E.And(guard, condition)


def _if(guard: PrimExpr | None, value: PrimExpr) -> PrimExpr:
    """The value where a condition holds, and anything elsewhere."""
    return value if guard is None else if_then_else(guard, value, const(0, value.dtype))


def with_barriers(kernel: Stmt, kind: GroupKind, wanted: Callable[[Var], bool]) -> Stmt:
    """A kernel with the barriers that threads of a kind of group want for some of their memory."""
    tree = KernelTree(kernel, kind, wanted)
    if tree.group.is_single:
        return kernel
    plan = BarrierPlan(tree)
    return seq(_Emit(tree).sequence(tree.root)) if plan.placed else kernel


def _of_scope(scope: str, params: Iterable[Var]) -> Callable[[Var], bool]:
    handles = set(params)
    return lambda data: storage_scope(data) == scope or (scope == "global" and data in handles)


@dataclass(frozen=True)
class ThreadSync(PrimFuncPass):
    """Place a barrier wherever a thread may read what another one wrote, or write what another one reads or writes.

    Dependences of later iterations on earlier ones count. Accesses that only one thread makes, or that never touch the same bytes, as far
    as their indices tell, want none, and barriers that are there are counted. There are as few as possible, each as late as possible, and
    none in a condition on which threads differ: such a condition is put around the statements between barriers instead.
    Copies that were begun (``ptx_cp_async``) write at any time until ``ptx_wait_group``, behind which a barrier tells the
    others. Memory is looked at byte by byte, by whatever buffer: it may run before MergeSharedMemoryAllocations or behind it.

    Args:
        storage_scope: "shared", "shared.dyn" or "global" (threads of a block, ``tvm_storage_sync("shared")``), or "warp" (its
            lanes, ``tvm_storage_sync("warp")``). Blocks have no barrier: what one does to the memory of another one is not looked at.

    Raises:
        IRValueError: a barrier would have to stand in a loop that threads run differently often, or within one statement; virtual
            threads are left; there is no such scope.

    Before::

        S = T.allocate([256], "float32", "shared")
        for k in range(8):
            S[tx] = A[k * 256 + tx]
            B[tx] = B[tx] + S[255 - tx]

    After::

        S = T.allocate([256], "float32", "shared")
        for k in range(8):
            S[tx] = A[k * 256 + tx]
            T.tvm_storage_sync("shared")
            B[tx] = B[tx] + S[255 - tx]
            T.tvm_storage_sync("shared")
    """

    storage_scope: str
    pass_name = "tir.ThreadSync"

    def __post_init__(self) -> None:
        if self.storage_scope not in _GROUPS:
            raise IRValueError(
                f"ThreadSync: no threads share memory of scope {self.storage_scope!r}; there are {', '.join(_GROUPS)}"
            )

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with barriers in its kernels."""
        data = [buffer.data for buffer in func.buffer_map.values()]
        handles = [param for param in func.params if param.dtype == "handle" and param not in func.buffer_map]
        wanted = _of_scope(self.storage_scope, [*data, *handles])
        kind = _GROUPS[self.storage_scope]
        body = KernelRegions(partial(with_barriers, kind=kind, wanted=wanted)).visit(func.body)
        return func if body is func.body else func.replace(body=body)
