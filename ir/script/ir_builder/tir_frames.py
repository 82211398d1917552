"""The frames of TIR: each makes one statement (or a function) from what was emitted while it was open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...attrs import DictAttrs
from ...error import IRValueError
from ...tir import stmt as S
from ...tir.analysis.block_access_region import get_block_access_region
from ...tir.analysis.undefined_vars import undefined_vars
from ...tir.buffer import Buffer
from ...tir.expr import IterVar, PrimExpr, Range, StringImm, Var
from ...tir.function import PrimFunc
from ...tir.operators import as_condition, const, convert
from ...type import PointerType, PrimType, Type
from .core import Frame, IRBuilder


class TIRFrame(Frame):
    """A frame whose body is statements."""

    def __init__(self) -> None:
        super().__init__()
        self.stmts: list[S.Stmt] = []

    def body(self) -> S.Stmt:
        """The statements emitted as one."""
        stmts = self.stmts
        if len(stmts) == 1:
            return stmts[0]
        return S.SeqStmt(stmts) if stmts else S.Evaluate(const(0))


def emit(stmt: S.Stmt) -> None:
    """Add a statement to the innermost frame."""
    builder = IRBuilder.current()
    builder.locate(stmt)
    if builder.frames:
        frame = builder.frames[-1]
        if not isinstance(frame, TIRFrame):
            raise IRValueError(
                f"a TIR statement cannot stand in a {type(frame).__name__.removesuffix('Frame').lower()}"
            )
        frame.stmts.append(stmt)
    else:
        builder.set_result(stmt)


def check_return() -> None:
    """Refuse a return where the rest of the function may run elsewhere, or have run already: its iterations have no order.

    Raises:
        IRValueError: it stands in a block with variables, or in a loop whose iterations need not run one after the other.
    """
    for frame in reversed(IRBuilder.current().frames):
        if isinstance(frame, PrimFuncFrame):
            return
        if isinstance(frame, ForFrame) and frame.kind not in (S.ForKind.SERIAL, S.ForKind.UNROLLED):
            place = f"a {_KINDS_WITHOUT_ORDER[frame.kind]} loop"
        elif isinstance(frame, BlockFrame) and frame.iter_vars:
            place = f"block {frame.name!r}"
        else:
            continue
        raise IRValueError(
            f"a return cannot stand inside of {place}, whose iterations have no order: what would still run is not said;"
            " use a serial loop without a block, or guard what is not to be done with if"
        )


_KINDS_WITHOUT_ORDER = {
    S.ForKind.PARALLEL: "parallel",
    S.ForKind.VECTORIZED: "vectorized",
    S.ForKind.THREAD_BINDING: "thread-bound",
}


class PrimFuncFrame(TIRFrame):
    """A PrimFunc; closing it inserts the implicit root block."""

    def __init__(self, name: str | None = None, is_private: bool = False) -> None:
        super().__init__()
        self.name = name
        self.is_private = is_private
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.ret_type: Type | None = None
        self.root_alloc_buffers: list[Buffer] = []
        self.env_threads: dict[int, tuple[Var, str, list[IterVar]]] = {}
        self.span: Any = None
        self.result: PrimFunc | None = None

    def close(self) -> None:
        body = self.body()
        inner = body.block if isinstance(body, S.BlockRealize) else None
        if (
            self.root_alloc_buffers
            or (inner is not None and inner.iter_vars)
            or (inner is None and _contains_block(body))
        ):
            root = S.Block([], [], [], "root", body, None, self.root_alloc_buffers)
            body = S.BlockRealize([], const(True), root)
        attrs = dict(self.attrs)
        if self.is_private and "global_symbol" in attrs:
            raise IRValueError(
                f"prim_func {self.name!r} is private, but sets global_symbol; drop private=True or the attribute"
            )
        if self.name is not None and not self.is_private and "global_symbol" not in attrs:
            attrs["global_symbol"] = self.name
        self.result = PrimFunc(
            self.params, body, self.ret_type, self.buffer_map, DictAttrs(attrs), span=self.span
        )
        builder = IRBuilder.current()
        if builder.frames:
            builder.frames[-1].take_function(self.name, self.result)  # type: ignore[attr-defined]
        else:
            builder.set_result(self.result)


def _contains_block(stmt: S.Stmt) -> bool:
    pending: list[Any] = [stmt]
    while pending:
        item = pending.pop()
        if isinstance(item, S.BlockRealize):
            return True
        if isinstance(item, S.Stmt):
            item._visit_children(lambda child: pending.append(child) if isinstance(child, S.Stmt) else None)  # type: ignore[attr-defined]
    return False


class BlockFrame(TIRFrame):
    """A block with its realization."""

    def __init__(self, name: str, no_realize: bool = False) -> None:
        super().__init__()
        self.name = name
        self.no_realize = no_realize
        self.iter_vars: list[IterVar] = []
        self.iter_values: list[PrimExpr] = []
        self.predicate: PrimExpr | None = None
        self.reads: list[S.BufferRegion] | None = None
        self.writes: list[S.BufferRegion] | None = None
        self.init: S.Stmt | None = None
        self.alloc_buffers: list[Buffer] = []
        self.match_buffers: list[S.MatchBufferRegion] = []
        self.annotations: dict[str, Any] | None = None

    def close(self) -> None:
        block = S.Block(
            self.iter_vars,
            self.reads or (),
            self.writes or (),
            self.name,
            self.body(),
            self.init,
            self.alloc_buffers,
            self.match_buffers,
            self.annotations,
        )
        if self.reads is None or self.writes is None:
            block = self._detect_access(block)
        if self.no_realize:
            if self.iter_values or self.predicate is not None:
                raise IRValueError(
                    f"block {self.name!r} has no_realize=True, but binds its iteration variables"
                )
            emit(block)
            return
        if len(self.iter_values) != len(self.iter_vars):
            raise IRValueError(
                f"block {self.name!r}: every axis needs a binding, as in T.axis.spatial(128, i)"
            )
        emit(
            S.BlockRealize(self.iter_values, const(True) if self.predicate is None else self.predicate, block)
        )

    def _detect_access(self, block: S.Block) -> S.Block:
        """Fill in the regions that the text leaves out; an outermost block called root keeps them empty."""
        frames = IRBuilder.current().frames
        if self.name == "root" and not block.iter_vars and frames and isinstance(frames[-1], PrimFuncFrame):
            return block
        reads, writes, opaque = get_block_access_region(block, _buffers_by_data(self, frames))
        if opaque:
            raise IRValueError(
                f"block {self.name!r} uses a buffer's data pointer, so its regions cannot be found:"
                " state them with T.reads(...) and T.writes(...)"
            )
        return block.replace(
            reads=tuple(reads) if self.reads is None else block.reads,
            writes=tuple(writes) if self.writes is None else block.writes,
        )


def _buffers_by_data(block: BlockFrame, frames: list[Frame]) -> dict[Var, Buffer]:
    found: dict[Var, Buffer] = {}
    for frame in [*frames, block]:
        if isinstance(frame, PrimFuncFrame):
            found.update(
                {buffer.data: buffer for buffer in (*frame.buffer_map.values(), *frame.root_alloc_buffers)}
            )
        elif isinstance(frame, BlockFrame):
            found.update({buffer.data: buffer for buffer in frame.alloc_buffers})
            found.update({match.buffer.data: match.buffer for match in frame.match_buffers})
    return found


class InitFrame(TIRFrame):
    """``with T.init():``."""

    def enter(self) -> Any:
        block = IRBuilder.current().frames[-2:-1]
        if not block or not isinstance(block[0], BlockFrame):
            raise IRValueError("T.init() must stand directly in a block")
        if block[0].init is not None:
            raise IRValueError(f"block {block[0].name!r} has two T.init()")
        return self

    def close(self) -> None:
        block = IRBuilder.current().frames[-1]
        assert isinstance(block, BlockFrame)
        block.init = self.body()


class ForFrame(TIRFrame):
    """One loop, or the nest of ``T.grid``; binds the loop variables."""

    def __init__(
        self,
        variables: list[Var],
        domains: list[Range],
        make: Callable[[list[Var], list[Range], S.Stmt], S.Stmt],
        single: bool = True,
        kind: S.ForKind = S.ForKind.SERIAL,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.vars = variables
        self.doms = domains
        self._make = make
        self.single = single

    def enter(self) -> Any:
        return self.vars[0] if self.single else self.vars

    def close(self) -> None:
        emit(self._make(self.vars, self.doms, self.body()))


def require_known_at_begin(builder: IRBuilder, buffer: Buffer) -> None:
    """Refuse to allocate at the begin of a block, or function, what only a loop or a value in it says."""
    inner: set[Var] = set()
    for frame in reversed(builder.frames):
        if isinstance(frame, BlockFrame):
            break
        inner.update(frame.vars if isinstance(frame, ForFrame) else ())
        inner.update([frame.var] if isinstance(frame, LetFrame) else ())
    for extent in buffer.shape:
        named = [var for var in undefined_vars(extent) if var in inner]
        if named:
            raise IRValueError(
                f"extent {extent} names {named[0].name}, which is not known yet where the block or function around begins, and there"
                " T.alloc_buffer allocates; T.decl_buffer allocates where it stands, or allocate the most that is needed"
            )


class LetFrame(TIRFrame):
    """A variable for the rest of the body."""

    def __init__(self, var: Var, value: PrimExpr) -> None:
        super().__init__()
        self.var = var
        self.value = value

    def enter(self) -> Any:
        return self.var

    def close(self) -> None:
        emit(S.LetStmt(self.var, self.value, self.body()))


class AssertFrame(TIRFrame):
    """An assertion in front of the body."""

    def __init__(self, condition: Any, message: Any) -> None:
        super().__init__()
        self.condition = as_condition(condition, "assert")
        self.message = message

    def close(self) -> None:
        emit(S.AssertStmt(self.condition, self.message, self.body()))


class AttrFrame(TIRFrame):
    """An attribute around the body; ``bound`` is what ``with ... as x`` binds."""

    def __init__(self, node: Any, key: str, value: Any, bound: Any = None) -> None:
        super().__init__()
        self.node = node
        self.key = key
        self.value = convert(value)
        self.bound = bound

    def enter(self) -> Any:
        return self.bound

    def close(self) -> None:
        emit(S.AttrStmt(self.node, self.key, self.value, self.body()))


class AllocateFrame(TIRFrame):
    """Memory for the body; binds the pointer."""

    def __init__(self, extents: Any, dtype: str, scope: str, condition: Any, annotations: Any) -> None:
        super().__init__()
        self.buffer_var = Var("", PointerType(PrimType(dtype), scope))
        self.extents, self.dtype = extents, dtype
        self.condition = const(True) if condition is None else convert(condition)
        self.annotations = annotations

    def enter(self) -> Any:
        return self.buffer_var

    def close(self) -> None:
        emit(
            S.Allocate(
                self.buffer_var, self.dtype, self.extents, self.condition, self.body(), self.annotations
            )
        )


class AllocateConstFrame(TIRFrame):
    """Constant memory for the body; binds the pointer."""

    def __init__(self, data: Any, dtype: str, extents: Any, annotations: Any) -> None:
        super().__init__()
        self.buffer_var = Var("", PointerType(PrimType(dtype)))
        self.data, self.dtype, self.extents, self.annotations = data, dtype, extents, annotations

    def enter(self) -> Any:
        return self.buffer_var

    def close(self) -> None:
        emit(
            S.AllocateConst(
                self.buffer_var, self.dtype, self.extents, self.data, self.body(), self.annotations
            )
        )


class DeclBufferFrame(TIRFrame):
    """A buffer over existing data, or over memory allocated with it; binds the buffer."""

    def __init__(self, buffer: Buffer, allocates: bool) -> None:
        super().__init__()
        self.buffer = buffer
        self.allocates = allocates

    def enter(self) -> Any:
        return self.buffer

    def close(self) -> None:
        stmt: S.Stmt = S.DeclBuffer(self.buffer, self.body())
        if self.allocates:
            stmt = S.Allocate(
                self.buffer.data, self.buffer.dtype, self.buffer.extents_of_memory(), const(True), stmt
            )
        emit(stmt)


class RealizeFrame(TIRFrame):
    """A buffer that exists within a region for the body."""

    def __init__(self, region: S.BufferRegion, scope: str, condition: Any) -> None:
        super().__init__()
        self.region = region
        self.scope = scope
        self.condition = as_condition(condition, "T.realize")

    def close(self) -> None:
        buffer = self.region.buffer
        stmt: S.Stmt = S.BufferRealize(buffer, self.region.region, self.condition, self.body())
        if buffer.scope() != self.scope:
            stmt = S.AttrStmt(buffer, "realize_scope", StringImm(self.scope), stmt)
        emit(stmt)


class WhileFrame(TIRFrame):
    """A loop with a condition."""

    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.condition = as_condition(condition, "while")

    def close(self) -> None:
        emit(S.While(self.condition, self.body()))


class IfFrame(TIRFrame):
    """``with T.If(c): with T.Then(): ...; with T.Else(): ...``."""

    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.condition = as_condition(condition, "if")
        self.then_case: S.Stmt | None = None
        self.else_case: S.Stmt | None = None

    def close(self) -> None:
        if self.stmts:
            raise IRValueError("statements of T.If belong into T.Then() or T.Else()")
        if self.then_case is None:
            raise IRValueError("T.If has no T.Then()")
        emit(S.IfThenElse(self.condition, self.then_case, self.else_case))


class _Branch(TIRFrame):
    _which = "then_case"

    def enter(self) -> Any:
        frames = IRBuilder.current().frames
        if len(frames) < 2 or not isinstance(frames[-2], IfFrame):
            raise IRValueError("T.Then() and T.Else() must stand directly in T.If(condition)")
        if getattr(frames[-2], self._which) is not None:
            raise IRValueError(f"T.If has two {'T.Then' if self._which == 'then_case' else 'T.Else'}()")
        return self

    def close(self) -> None:
        setattr(IRBuilder.current().frames[-1], self._which, self.body())


class ThenFrame(_Branch):
    """The branch where the condition holds."""


class ElseFrame(_Branch):
    """The other branch."""

    _which = "else_case"
