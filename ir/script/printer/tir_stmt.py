"""How TIR statements are written: loops, blocks, stores, scopes.

A statement that holds for the rest of its frame (a let, an allocation, an attribute) is written without indentation when
nothing follows it there (``last``), and as a ``with`` otherwise.
"""

from __future__ import annotations

from typing import Any

from ... import dtype as dt
from ...structural import structural_equal
from ...tir import expr as E
from ...tir import operators
from ...tir import stmt as S
from .core import Printer, quote, statement
from .tir_buffer import buffer_call
from .tir_expr import ITER_TYPES, _range_stop, index_texts, range_text, var_annotation

_AXES = {0: "spatial", 2: "reduce", 3: "scan", 4: "opaque"}
"""Kinds of iteration that blocks have, as functions of ``T.axis``."""
_LOOPS = {
    S.ForKind.SERIAL: "serial",
    S.ForKind.PARALLEL: "parallel",
    S.ForKind.VECTORIZED: "vectorized",
    S.ForKind.UNROLLED: "unroll",
    S.ForKind.THREAD_BINDING: "thread_binding",
}


def body(printer: Printer, stmt: Any) -> None:
    """The lines of a frame's whole body."""
    printer.stmt(stmt, True)


# ---- simple statements -------------------------------------------------------------------------------------------


@statement(S.Evaluate)
def _evaluate(printer: Printer, stmt: S.Evaluate, last: bool) -> None:
    value = stmt.value
    if isinstance(value, E.Call):
        if (
            getattr(value.op, "name", "") == "tir.ret"
            and len(value.args) == 1
            and value.dtype == value.args[0].dtype
        ):
            printer.emit(f"return {printer.text(value.args[0])}")
        else:
            printer.emit(printer.text(value))
        return
    printer.emit(f"{printer.tir('evaluate')}({printer.text(value)})")


@statement(S.BufferStore)
def _buffer_store(printer: Printer, stmt: S.BufferStore, last: bool) -> None:
    buffer = printer.text(stmt.buffer)
    value = printer.text(stmt.value)
    if stmt.predicate is not None:
        args = f"[{printer.texts(stmt.indices)}], {value}, predicate={printer.text(stmt.predicate)}"
        printer.emit(f"{buffer}.vstore({args})")
        return
    printer.emit(f"{buffer}[{index_texts(printer, stmt.indices)}] = {value}")


@statement(S.SeqStmt)
def _seq(printer: Printer, stmt: S.SeqStmt, last: bool) -> None:
    final = len(stmt.seq) - 1
    for position, item in enumerate(stmt.seq):
        printer.stmt(item, last and position == final)


# ---- scopes ------------------------------------------------------------------------------------------------------


def _scoped(printer: Printer, last: bool, concise: str, full: str, inner: Any) -> None:
    if last:
        printer.emit(concise)
        printer.stmt(inner, True)
    else:
        with printer.frame(full):
            printer.stmt(inner, True)


@statement(S.LetStmt)
def _let(printer: Printer, stmt: S.LetStmt, last: bool) -> None:
    value = printer.text(stmt.value)
    if printer.text_of(stmt.var) is not None:  # defined more than once: refer to the one variable
        with printer.frame(f"with {printer.tir('LetStmt')}({value}, var={printer.text(stmt.var)}):"):
            printer.stmt(stmt.body, True)
    elif last:
        annotation = var_annotation(printer, stmt.var)
        printer.emit(f"{printer.define(stmt.var, stmt.var.name)}: {annotation} = {value}")
        printer.stmt(stmt.body, True)
    elif type(stmt.var) is E.Var and stmt.var.dtype == stmt.value.dtype:
        with printer.frame() as frame:
            name = printer.define(stmt.var, stmt.var.name)
            pointer = stmt.var.type_annotation
            annotation = "" if pointer is None else f", {var_annotation(printer, stmt.var)}"
            frame.header.append(f"with {printer.tir('LetStmt')}({value}{annotation}) as {name}:")
            printer.stmt(stmt.body, True)
    else:
        outer = printer.text(
            stmt.var
        )  # a line of its own in front: the value does not tell the variable's type
        with printer.frame(f"with {printer.tir('LetStmt')}({value}, var={outer}):"):
            printer.stmt(stmt.body, True)


@statement(S.AssertStmt)
def _assert(printer: Printer, stmt: S.AssertStmt, last: bool) -> None:
    condition, message = printer.text(stmt.condition), printer.text(stmt.message)
    _scoped(
        printer,
        last,
        f"assert {condition}, {message}",
        f"with {printer.tir('Assert')}({condition}, {message}):",
        stmt.body,
    )


@statement(S.AttrStmt)
def _attr(printer: Printer, stmt: S.AttrStmt, last: bool) -> None:
    if stmt.attr_key in ("thread_extent", "virtual_thread") and _launch(printer, stmt, last):
        return
    inner = stmt.body
    if (
        stmt.attr_key == "realize_scope"
        and isinstance(inner, S.BufferRealize)
        and inner.buffer is stmt.node
        and isinstance(stmt.value, E.StringImm)
        and stmt.value.value != inner.buffer.scope()
    ):
        _realize(printer, inner, last, stmt.value.value)
        return
    node = printer.value(stmt.node)
    call = f"{printer.tir('attr')}({node}, {quote(stmt.attr_key)}, {printer.text(stmt.value)})"
    _scoped(printer, last, call, f"with {call}:", stmt.body)


def _launch(printer: Printer, stmt: S.AttrStmt, last: bool) -> bool:
    """``T.launch_thread``, when that makes this iteration variable; False when it takes the general form."""
    node = stmt.node
    if not isinstance(node, E.IterVar) or node.iter_type != E.IterVar.ThreadIndex or node.dom is None:
        return False
    expected = E.Range(operators.const(0, stmt.value.dtype), stmt.value)
    virtual = node.thread_tag.startswith("vthread")
    if not structural_equal(node.dom, expected) or virtual != (stmt.attr_key == "virtual_thread"):
        return False
    if node.var.dtype != stmt.value.dtype or node.var.type_annotation is not None:
        return False
    extent = printer.text(stmt.value)
    launch = printer.tir("launch_thread")
    known = printer.text_of(node.var)
    if known is None and printer.env_threads.get(id(node.var), 1) > 1:
        frame = printer.frames[0]
        known = printer.define(node.var, node.var.name, frame)
        dtype = "" if node.var.dtype == "int32" else f", {quote(node.var.dtype)}"
        printer.emit(f"{known} = {printer.tir('env_thread')}({quote(node.thread_tag)}{dtype})", frame)
    if known is not None:
        call = f"{launch}({known}, {extent})"
        _scoped(printer, last, call, f"with {call}:", stmt.body)
        return True
    call = f"{launch}({quote(node.thread_tag)}, {extent})"
    if last:
        printer.emit(f"{printer.define(node.var, node.var.name)} = {call}")
        printer.stmt(stmt.body, True)
    else:
        with printer.frame() as frame:
            name = printer.define(node.var, node.var.name)
            frame.header.append(f"with {call} as {name}:")
            printer.stmt(stmt.body, True)
    return True


def _bound(printer: Printer, last: bool, node: Any, name: str, call: Any, inner: Any) -> None:
    """``name = call`` for the rest of the frame, or ``with call as name:``; ``call`` makes the text behind the name."""
    if last:
        found = printer.define(node, name)
        printer.emit(f"{found} = {call()}")
        printer.stmt(inner, True)
        return
    with printer.frame() as frame:
        found = printer.define(node, name)
        frame.header.append(f"with {call()} as {found}:")
        printer.stmt(inner, True)


@statement(S.Allocate)
def _allocate(printer: Printer, stmt: S.Allocate, last: bool) -> None:
    if _declares_its_buffer(stmt):
        assert isinstance(stmt.body, S.DeclBuffer)
        _decl(printer, stmt.body, last)
        return
    pointer = stmt.buffer_var.type_annotation
    scope = getattr(pointer, "storage_scope", "") or "global"
    args = f"[{printer.texts(stmt.extents)}], {quote(stmt.dtype)}, {quote(scope)}"
    if not (isinstance(stmt.condition, E.IntImm) and stmt.condition.value == 1):
        args += f", condition={printer.text(stmt.condition)}"
    if stmt.annotations:
        args += f", annotations={printer.value(stmt.annotations)}"
    call = f"{printer.tir('allocate')}({args})"
    _bound(printer, last, stmt.buffer_var, stmt.buffer_var.name, lambda: call, stmt.body)


def _declares_its_buffer(stmt: S.Allocate) -> bool:
    """An allocation and the declaration of its one buffer are one line: ``T.decl_buffer`` without ``data``."""
    inner = stmt.body
    if not isinstance(inner, S.DeclBuffer) or inner.buffer.data is not stmt.buffer_var or stmt.annotations:
        return False
    buffer = inner.buffer
    return (
        stmt.dtype == buffer.dtype
        and isinstance(stmt.condition, E.IntImm)
        and stmt.condition.value == 1
        and structural_equal(stmt.extents, buffer.shape)
    )


@statement(S.DeclBuffer)
def _decl(printer: Printer, stmt: S.DeclBuffer, last: bool) -> None:
    buffer = stmt.buffer
    _bound(
        printer,
        last,
        buffer,
        buffer.name,
        lambda: buffer_call(printer, buffer, "decl_buffer"),
        stmt.body,
    )


@statement(S.AllocateConst)
def _allocate_const(printer: Printer, stmt: S.AllocateConst, last: bool) -> None:
    if (
        getattr(stmt.data, "size", 1 << 30) <= 32
        and getattr(stmt.data, "ndim", 0) == 1
        and stmt.data.dtype.name == stmt.dtype
    ):
        data = printer.value([item.item() for item in stmt.data])
    else:
        data = printer.meta("NDArray", stmt.data)
    args = f"{data}, {quote(stmt.dtype)}, [{printer.texts(stmt.extents)}]"
    if stmt.annotations:
        args += f", annotations={printer.value(stmt.annotations)}"
    call = f"{printer.tir('allocate_const')}({args})"
    _bound(printer, last, stmt.buffer_var, stmt.buffer_var.name, lambda: call, stmt.body)


@statement(S.BufferRealize)
def _realize(printer: Printer, stmt: S.BufferRealize, last: bool, scope: str | None = None) -> None:
    region = printer.text(S.BufferRegion(stmt.buffer, stmt.bounds))
    args = f"{region}, {quote(scope or stmt.buffer.scope())}"
    if not (isinstance(stmt.condition, E.IntImm) and stmt.condition.value == 1):
        args += f", {printer.text(stmt.condition)}"
    call = f"{printer.tir('realize')}({args})"
    _scoped(printer, last, call, f"with {call}:", stmt.body)


# ---- control flow ------------------------------------------------------------------------------------------------


@statement(S.IfThenElse)
def _if(printer: Printer, stmt: S.IfThenElse, last: bool) -> None:
    condition = printer.text(stmt.condition)
    if isinstance(stmt.condition, E.IntImm):  # Python would decide it while reading
        condition = f"{printer.tir('bool')}({bool(stmt.condition.value)})"
    with printer.frame(indent=0):  # keeps both branches together
        with printer.frame(f"if {condition}:"):
            printer.stmt(stmt.then_case, True)
        if stmt.else_case is not None:
            with printer.frame("else:"):
                printer.stmt(stmt.else_case, True)


@statement(S.While)
def _while(printer: Printer, stmt: S.While, last: bool) -> None:
    with printer.frame(f"while {printer.text(stmt.condition)}:"):
        printer.stmt(stmt.body, True)


def _is_zero(expr: E.PrimExpr) -> bool:
    return isinstance(expr, E.IntImm) and expr.value == 0


def _uses(expr: E.PrimExpr, variables: set[int]) -> bool:
    if isinstance(expr, E.IntImm):
        return False
    if isinstance(expr, E.Var):
        return id(expr) in variables
    found: list[bool] = []
    expr._visit_children(lambda child: found.append(_uses(child, variables)))  # type: ignore[attr-defined]
    return any(found)


def _plain(loop: S.For) -> bool:
    """A serial loop from zero without annotations, as ``range`` and ``T.grid`` write it."""
    return (
        loop.kind is S.ForKind.SERIAL
        and not loop.annotations
        and loop.thread_binding is None
        and _is_zero(loop.min)
        and loop.loop_var.dtype == loop.extent.dtype == loop.min.dtype
    )


@statement(S.For)
def _for(printer: Printer, loop: S.For, last: bool) -> None:
    grid: list[S.For] = []
    if printer.config.syntax_sugar:
        seen: set[int] = set()
        inner: Any = loop
        while inner.__class__ is S.For and _plain(inner) and not _uses(inner.extent, seen):
            grid.append(inner)
            seen.add(id(inner.loop_var))
            inner = inner.body
    if len(grid) > 1:
        extents = printer.texts([item.extent for item in grid])
        _loop(printer, grid, f"{printer.tir('grid')}({extents})")
    else:
        _loop(printer, [loop], _iterable(printer, loop))


def _iterable(printer: Printer, loop: S.For) -> str:
    args = []
    if _is_zero(loop.min) and loop.min.dtype == loop.extent.dtype:
        args.append(printer.text(loop.extent))
    else:
        stop = _range_stop(E.Range.from_min_extent(loop.min, loop.extent))
        args.append(printer.text(loop.min))
        args.append(f"extent={printer.text(loop.extent)}" if stop is None else printer.text(stop))
    if loop.thread_binding is not None:
        args.append(f"thread={quote(loop.thread_binding.thread_tag)}")
    if loop.annotations:
        args.append(f"annotations={printer.value(loop.annotations)}")
    sugar = loop.kind is S.ForKind.SERIAL and not loop.annotations and not args[-1].startswith("extent=")
    return f"{'range' if sugar and printer.config.syntax_sugar else printer.tir(_LOOPS[loop.kind])}({', '.join(args)})"


def _loop(printer: Printer, loops: list[S.For], iterable: str) -> None:
    with printer.frame() as frame:
        names = [printer.define(item.loop_var, item.loop_var.name) for item in loops]
        frame.header.append(f"for {', '.join(names)} in {iterable}:")
        for item in loops:
            printer.loops[id(item.loop_var)] = item
        printer.stmt(loops[-1].body, True)
        for item in loops:
            del printer.loops[id(item.loop_var)]


# ---- blocks ------------------------------------------------------------------------------------------------------


@statement(S.BlockRealize)
def _block_realize(printer: Printer, stmt: S.BlockRealize, last: bool) -> None:
    _print_block(printer, stmt.block, stmt)


@statement(S.Block)
def _block(printer: Printer, stmt: S.Block, last: bool) -> None:
    _print_block(printer, stmt, None)


def _print_block(printer: Printer, block: S.Block, realize: S.BlockRealize | None) -> None:
    options = "" if realize is not None else ", no_realize=True"
    with printer.frame(f"with {printer.tir('block')}({quote(block.name_hint)}{options}):"):
        _iter_vars(printer, block, realize)
        if realize is not None and not (
            isinstance(realize.predicate, E.IntImm) and realize.predicate.value == 1
        ):
            printer.emit(f"{printer.tir('where')}({printer.text(realize.predicate)})")
        reads = [_access(printer, item) for item in block.reads]
        writes = [_access(printer, item) for item in block.writes]
        printer.emit(f"{printer.tir('reads')}({', '.join(reads)})")
        printer.emit(f"{printer.tir('writes')}({', '.join(writes)})")
        if block.annotations:
            printer.emit(f"{printer.tir('block_attr')}({printer.value(block.annotations)})")
        allocations(printer, block)
        for match in block.match_buffers:
            source = printer.text(match.source)
            name = printer.define(match.buffer, match.buffer.name)
            printer.emit(f"{name} = {buffer_call(printer, match.buffer, 'match_buffer', (source,))}")
        if block.init is not None:
            with printer.frame(f"with {printer.tir('init')}():"):
                printer.stmt(block.init, True)
        printer.stmt(block.body, True)


def _access(printer: Printer, region: S.BufferRegion) -> str:
    """A region among reads and writes; buffers of the block itself and matched ones are declared further down."""
    return printer.text(region)


def allocations(printer: Printer, block: S.Block) -> None:
    """The buffers that a block allocates."""
    for buffer in block.alloc_buffers:
        name = printer.define(buffer, buffer.name)
        printer.emit(f"{name} = {buffer_call(printer, buffer, 'alloc_buffer')}")


def _iter_vars(printer: Printer, block: S.Block, realize: S.BlockRealize | None) -> None:
    remapped: list[int] = []

    def flush() -> None:
        if len(remapped) > 1 and realize is not None:
            kinds = "".join("S" if block.iter_vars[i].iter_type == 0 else "R" for i in remapped)
            values = printer.texts([realize.iter_values[i] for i in remapped])
            names = [printer.define(block.iter_vars[i].var, block.iter_vars[i].var.name) for i in remapped]
            printer.emit(f"{', '.join(names)} = {printer.tir('axis')}.remap({quote(kinds)}, [{values}])")
        else:
            for i in remapped:
                _axis(printer, block.iter_vars[i], None if realize is None else realize.iter_values[i])
        remapped.clear()

    for position, item in enumerate(block.iter_vars):
        if realize is not None and _is_remap(printer, item, realize.iter_values[position]):
            remapped.append(position)
            continue
        flush()
        _axis(printer, item, None if realize is None else realize.iter_values[position])
    flush()


def _is_remap(printer: Printer, item: E.IterVar, value: E.PrimExpr) -> bool:
    if item.iter_type not in (0, 2) or not printer.config.syntax_sugar:
        return False
    loop = printer.loops.get(id(value))
    return (
        loop is not None
        and item.var.dtype == loop.loop_var.dtype
        and not item.thread_tag
        and structural_equal(loop.min, item.dom.min)
        and structural_equal(loop.extent, item.dom.extent)
    )


def _axis(printer: Printer, item: E.IterVar, value: E.PrimExpr | None) -> None:
    dom = item.dom
    if _is_zero(dom.min) and dom.min.dtype == dom.extent.dtype:
        domain = printer.text(dom.extent)
    else:
        stop = _range_stop(dom)
        domain = (
            range_text(printer, dom) if stop is None else f"({printer.text(dom.min)}, {printer.text(stop)})"
        )
    args = domain if value is None else f"{domain}, {printer.text(value)}"
    width = max(dt.bits(dom.min.dtype), dt.bits(dom.extent.dtype), 32)
    if item.var.dtype != f"int{width}":
        args += f", dtype={quote(item.var.dtype)}"
    if item.iter_type not in _AXES:
        args += f", kind={quote(ITER_TYPES[item.iter_type])}"
    axis = f"{printer.tir('axis')}.{_AXES.get(item.iter_type, 'axis')}"
    printer.emit(f"{printer.define(item.var, item.var.name)} = {axis}({args})")
