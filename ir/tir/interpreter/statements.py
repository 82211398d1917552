"""Statements as Python closures: ``run(env)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import dtype as dt
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..function import PrimFunc
from .empty_reductions import Around, Initialization, beside
from .error import InterpreterError, refusal
from .expressions import Expressions
from .kernels import has_instances, launched_extents, thread_attributes
from .lanes import Closure
from .memory import SHARED_SCOPES, Memory, Pointer
from .protocol import Machine
from .races import Iterations
from .regions import StatedBlock

Env = dict[Any, Any]
_UNORDERED = {S.ForKind.PARALLEL: "parallel", S.ForKind.VECTORIZED: "vectorized"}


class Statements:
    """Translates the statements of one function."""

    def __init__(self, machine: Machine, func: PrimFunc) -> None:
        self.machine = machine
        self.expressions = Expressions(machine, self._use)
        self._regions = self.expressions.accesses.regions
        for param in func.params:
            self._regions.is_address(param)
        for buffer in func.buffer_map.values():
            self._regions.begins(buffer.data)
        self._path: list[S.For] = []
        """The parallel and vectorized loops around what is translated."""
        self._uses: dict[E.Var, tuple[S.For, ...]] = {}
        """Those that hold all uses of an address."""
        self._around = Around(self.expressions)
        self._before: dict[int, list[Closure]] = {}
        """By identity of a loop: what runs before it for reductions over nothing."""
        self._is_launched = False
        """Whether an attribute around what is translated launches threads."""

    def translate(self, node: S.Stmt) -> Closure:
        """The closure of a statement."""
        form = _FORMS.get(type(node))
        if form is None:
            raise InterpreterError(f"the interpreter does not know {type(node).__name__}")
        self.expressions.statement()
        if isinstance(node, S.SeqStmt | S.IfThenElse | S.BlockRealize):
            return form(self, node)
        return self._below(node, lambda: form(self, node))

    def _below(self, step: S.Stmt | tuple[E.PrimExpr, bool], translate: Callable[[], Closure]) -> Closure:
        """What is translated under a statement or a condition."""
        self._around.steps.append(step)
        found = translate()
        self._around.steps.pop()
        return found

    # -- control ---------------------------------------------------------------------------------------------------
    def _sequence(self, node: S.SeqStmt) -> Closure:
        items, statements = [self.translate(item) for item in node.seq], node.seq

        def run(env: Env) -> None:
            try:
                for item in items:
                    item(env)
            except InterpreterError as error:
                error.at(statements[items.index(item)])
                raise

        return run

    def _evaluate(self, node: S.Evaluate) -> Closure:
        value, lanes = self.expressions.data(node.value), dt.lanes(node.value.dtype)
        return value if lanes == 1 else lambda env: value(env, (True,) * lanes)

    def _if(self, node: S.IfThenElse) -> Closure:
        condition = self.expressions.condition(node.condition)
        yes, no = node.then_case, node.else_case
        then = self._below((node.condition, True), lambda: self.translate(yes))
        other = None if no is None else self._below((node.condition, False), lambda: self.translate(no))

        def run(env: Env) -> None:
            is_chosen = condition(env)
            try:
                if is_chosen:
                    then(env)
                elif other is not None:
                    other(env)
            except InterpreterError as error:
                error.at(yes if is_chosen else no)
                raise

        return run

    def _while(self, node: S.While) -> Closure:
        condition = self.expressions.condition(node.condition)
        body = self.translate(node.body)

        def run(env: Env) -> None:
            while condition(env):
                try:
                    body(env)
                except InterpreterError as error:
                    error.at(node.body)
                    raise

        return run

    def _for(self, node: S.For) -> Closure:
        begin, extent = self.expressions.index(node.min), self.expressions.index(node.extent)
        kind = _UNORDERED.get(node.kind)
        if kind is None:
            loop = self._loop(node.loop_var, begin, extent, node.body)
        else:
            self._path.append(node)
            body = self.translate(node.body)
            self._path.pop()
            loop = self._watched_loop(kind, node, begin, extent, body)
        before = self._before.pop(id(node), None)
        return loop if before is None else _one_by_one([*before, loop])

    def _loop(self, var: E.Var, begin: Closure, extent: Closure, statement: S.Stmt) -> Closure:
        body = self.translate(statement)

        def run(env: Env) -> None:
            values = _values(var, begin(env), extent(env))
            try:
                for value in values:
                    env[var] = value
                    body(env)
            except InterpreterError as error:
                error.at(statement).in_loop(var.name, value)
                raise

        return run

    def _watched_loop(
        self, kind: str, node: S.For, begin: Closure, extent: Closure, body: Closure
    ) -> Closure:
        """A loop whose iterations must not disturb each other."""
        machine, var, uses = self.machine, node.loop_var, self._uses
        private: set[E.Var] | None = None

        def run(env: Env) -> None:
            nonlocal private
            if private is None:  # now all uses are known
                private = {data for data, loops in uses.items() if node in loops}
            values = _values(var, begin(env), extent(env))
            iterations = Iterations(kind, var.name, private)
            machine.loops.append(iterations)
            try:
                for value in machine.order(values):
                    env[var] = iterations.current = value
                    body(env)
            except InterpreterError as error:
                error.at(node.body).in_loop(var.name, value)
                raise
            finally:
                machine.loops.pop()

        return run

    def _use(self, data: E.Var) -> None:
        """An address is used: note the parallel and vectorized loops that hold all of its uses."""
        around, known = tuple(self._path), self._uses.get(data)
        self._uses[data] = around if known is None else tuple(loop for loop in known if loop in around)

    # -- threads ---------------------------------------------------------------------------------------------------
    def _attribute(self, node: S.AttrStmt) -> Closure:
        axis, kernel = node.thread, self.expressions.kernel
        if axis is None:
            around = kernel.combiner
            if node.attr_key == "reduce_scope" and isinstance(node.node, E.CommReducer):
                kernel.combiner = node.node
            body = self.translate(node.body)
            kernel.combiner = around
            return body
        kernel.axes[axis.var] = axis.thread_tag
        extent, is_outermost = self.expressions.index(node.value), not self._is_launched
        axes = [
            (item, self.expressions.index(item.value))
            for item in (thread_attributes(node) if is_outermost else ())
        ]
        self._is_launched = True
        run = (self._instances if has_instances(node) else self._thread)(axis, extent, node.body)
        self._is_launched = not is_outermost
        return self._kernel(axes, run) if is_outermost else run

    def _kernel(self, axes: Sequence[tuple[S.AttrStmt, Closure]], body: Closure) -> Closure:
        """The outermost attribute of threads: it starts as many as it and those inside of it ask for."""
        machine = self.machine

        def run(env: Env) -> None:
            if machine.thread is None and axes:
                machine.launch(launched_extents(axes, env), env, body)
            else:  # within a function that a thread calls, it says which one that is
                body(env)

        return run

    def _thread(self, axis: E.IterVar, extent: Closure, statement: S.Stmt) -> Closure:
        """The index of the thread that runs, along an axis."""
        body, machine, var, tag = self.translate(statement), self.machine, axis.var, axis.thread_tag

        def run(env: Env) -> None:
            assert machine.thread is not None
            env[var] = value = machine.thread.index(tag, extent(env))
            try:
                body(env)
            except InterpreterError as error:
                error.at(statement).in_loop(var.name, value)
                raise

        return run

    def _instances(self, axis: E.IterVar, extent: Closure, statement: S.Stmt) -> Closure:
        """Virtual threads: instances within a thread, one after the other."""
        loop, machine = self._loop(axis.var, lambda env: 0, extent, statement), self.machine

        def run(env: Env) -> None:
            thread = machine.thread
            if thread is None:
                loop(env)
                return
            thread.virtual += 1
            loop(env)
            thread.virtual -= 1

        return run

    def _let(self, node: S.LetStmt) -> Closure:
        """A let and the lets right in it: hundreds may follow each other."""
        bindings = []
        inner: S.Stmt = node
        depth = len(self._around.steps)
        while isinstance(inner, S.LetStmt):
            self.expressions.statement()
            if inner is not node:
                self._around.steps.append(inner)
            lanes = dt.lanes(inner.value.dtype)
            value = self.expressions.bound(inner.var, inner.value)
            bindings.append((inner.var, value, () if lanes == 1 else ((True,) * lanes,)))
            if inner.var.dtype == "handle":
                self._regions.is_address(inner.var)
            inner = inner.body
        body = self.translate(inner)
        del self._around.steps[depth:]

        def run(env: Env) -> None:
            for var, value, active in bindings:
                env[var] = value(env, *active)
            try:
                body(env)
            except InterpreterError as error:
                error.at(inner)
                raise

        return run

    def _assert(self, node: S.AssertStmt) -> Closure:
        condition = self.expressions.condition(node.condition)
        body, message = self._inner(node.body), getattr(node.message, "value", node.message)

        def run(env: Env) -> None:
            if not condition(env):
                raise InterpreterError(f"assertion failed: {message}")
            body(env)

        return run

    def _inner(self, body: S.Stmt) -> Closure:
        """What a statement is the body of another one's for: errors say that they happened there."""
        run_body = self.translate(body)

        def run(env: Env) -> None:
            try:
                run_body(env)
            except InterpreterError as error:
                error.at(body)
                raise

        return run

    # -- memory ----------------------------------------------------------------------------------------------------
    def _store(self, node: S.BufferStore) -> Closure:
        return self.expressions.accesses.store(node.buffer, node.indices, node.value, node.predicate)

    def _allocate(self, node: S.Allocate) -> Closure:
        extents = self.expressions.accesses.numbers(node.extents)
        self._regions.begins(node.buffer_var)
        return self._with_memory(
            node.buffer_var, node.dtype, lambda env: math.prod(_sizes(extents(env))), node.body
        )

    def _allocate_const(self, node: S.AllocateConst) -> Closure:
        content = node.data.reshape(-1).view("uint8")  # nothing writes it: it belongs to the program
        self._regions.begins(node.buffer_var)
        body, loops = self._inner(node.body), self.machine.loops

        def run(env: Env) -> None:
            env[node.buffer_var] = Pointer(Memory(content, loops), 0, dt.element_of(node.dtype))
            body(env)

        return run

    def _declare(self, node: S.DeclBuffer) -> Closure:
        self._regions.declared(node.buffer)
        allocate, body = self._allocation(node.buffer), self._inner(node.body)

        def run(env: Env) -> None:
            if node.buffer.data not in env:
                allocate(env)
            body(env)

        return run

    def _realize(self, node: S.BufferRealize) -> Closure:
        self._regions.begins(node.buffer.data)
        allocate, body = self._allocation(node.buffer), self._inner(node.body)

        def run(env: Env) -> None:
            allocate(env)
            body(env)

        return run

    def _with_memory(self, var: E.Var, dtype: str, count: Callable[[Env], int], body: S.Stmt) -> Closure:
        run_body, memory, element = self._inner(body), self._memory(var, None), dt.element_of(dtype)

        def run(env: Env) -> None:
            env[var] = Pointer(memory(count(env) * dt.bytes_of(dtype)), 0, element)
            run_body(env)

        return run

    def _allocation(self, buffer: Buffer, owner: E.Var | None = None) -> Closure:
        """What gives a buffer new memory, as much as its extents, strides and offset need."""
        accesses, element = self.expressions.accesses, dt.element_of(buffer.dtype)
        memory = self._memory(buffer.data, owner)
        shape, strides = accesses.numbers(buffer.shape), accesses.strides(buffer)
        begin = accesses.numbers([] if buffer.elem_offset is None else [buffer.elem_offset])

        def run(env: Env) -> None:
            extents = _sizes(shape(env))
            last = sum((extent - 1) * stride for extent, stride in zip(extents, strides(env)))
            count = last + 1 + sum(begin(env)) if all(extents) else 0
            env[buffer.data] = Pointer(memory(count * dt.bytes_of(buffer.dtype)), 0, element)

        return run

    def _memory(self, var: E.Var, owner: E.Var | None) -> Callable[[int], Memory]:
        """What allocates so many bytes: new ones, or those that threads of a kernel share."""
        machine, loops, statement = self.machine, self.machine.loops, object()
        scope = getattr(var.type_annotation, "storage_scope", "")
        if scope not in SHARED_SCOPES:
            return lambda size: Memory.allocated(size, loops, owner)

        def allocate(size: int) -> Memory:
            thread = machine.thread
            if thread is None:
                return Memory.allocated(size, loops, owner)
            return thread.memory(statement, scope, size, owner)

        return allocate

    # -- blocks ----------------------------------------------------------------------------------------------------
    def _block(self, node: S.BlockRealize) -> Closure:
        block, expressions = node.block, self.expressions
        predicate = expressions.condition(node.predicate)
        variables = [item.var for item in block.iter_vars]
        variable_names = [var.name for var in variables]
        domains = [
            (expressions.index(item.dom.min), expressions.index(item.dom.extent)) for item in block.iter_vars
        ]
        values = [
            _inside(domain, expressions.index(value), f"variable {var.name} of block {block.name_hint}")
            for var, value, domain in zip(variables, node.iter_values, domains)
        ]
        reductions = [
            (item.var, begin)
            for item, (begin, _) in zip(block.iter_vars, domains)
            if item.iter_type == E.IterVar.CommReduce
        ]
        stated, regions = StatedBlock(block), self._regions
        with regions.of(stated):
            for buffer in block.alloc_buffers:
                regions.begins(buffer.data)
            memory = [self._allocation(buffer, buffer.data) for buffer in block.alloc_buffers]
            views = [self._match(match) for match in block.match_buffers]
            init = None if block.init is None else self.translate(block.init)
        prepare = [*memory, *views]
        if init is not None and _may_have_nothing(block):
            kept = [
                (item.var, value)
                for item, value in zip(block.iter_vars, values)
                if item.iter_type != E.IterVar.CommReduce
            ]
            enter = stated.entry_over_nothing({var for var, _ in reductions})
            found = beside(self._around, node, Initialization(kept, [enter, *memory], views, init))
            if found is not None:
                self._before.setdefault(id(found[0]), []).append(found[1])
        outer, self._around = self._around, Around(expressions)
        with regions.of(stated):
            body = self.translate(block.body)
        self._around = outer
        if stated.is_asked:
            prepare.insert(0, stated.enter)  # the regions of views may load

        def run(env: Env) -> None:
            if not predicate(env):
                return
            bindings = [value(env) for value in values]
            env.update(zip(variables, bindings))
            is_init = init is not None
            try:
                for item in prepare:
                    item(env)
                if init is not None and all(env[var] == begin(env) for var, begin in reductions):
                    init(env)
                is_init = False
                body(env)
            except InterpreterError as error:
                error.at(block.init if is_init else block.body)
                error.in_block(block.name_hint, dict(zip(variable_names, bindings)))
                raise

        return run

    def _match(self, match: S.MatchBufferRegion) -> Closure:
        """What binds the view's address, and its symbolic offset, strides and extents."""
        view, source, region = match.buffer, match.source.buffer, match.source.region
        accesses = self.expressions.accesses
        dropped = len(region) - len(view.shape)
        first = accesses.corner(source, [item.min for item in region], [item.extent for item in region])
        extents, strides = accesses.numbers([item.extent for item in region]), accesses.strides(source)
        if not view.strides:
            accesses.views.add(view)
        bind_shape = self._bind_or_check(view.shape, f"the extents of {view.name}")
        bind_strides = self._bind_or_check(view.strides, f"the strides of {view.name}")
        bind_offset = self._bind_or_check(
            [] if view.elem_offset is None else [view.elem_offset], f"the offset of {view.name}"
        )
        element = dt.element_of(view.dtype)
        corner = accesses.numbers([item.min for item in region])
        self._regions.views(match)

        def run(env: Env) -> None:
            env[match] = corner(env)
            start, pointer = first(env), env[source.data]
            # a view with an offset of its own indexes from there, so its address is that of the source
            offset = 0 if view.elem_offset is not None else start * dt.bytes_of(source.dtype)
            env[view.data] = Pointer(pointer.memory, pointer.offset + offset, element)
            steps = strides(env)[dropped:]
            bind_offset(env, [start])
            bind_shape(env, extents(env)[dropped:])
            if view.strides:
                bind_strides(env, steps)
            else:
                env[view] = steps

        return run

    def _bind_or_check(
        self, declared: Sequence[E.PrimExpr], what: str
    ) -> Callable[[Env, Sequence[int]], None]:
        """Gives variables their values; other expressions must have them already."""
        is_variable = [isinstance(item, E.Var) for item in declared]
        closures = [self.expressions.index(item) for item in declared]

        def bind(env: Env, actual: Sequence[int]) -> None:
            for item, free, closure, value in zip(declared, is_variable, closures, actual):
                if free:
                    env[item] = value
                elif closure(env) != value:
                    raise refusal("view", f"{what} have {closure(env)} where the matched region has {value}")

        return bind


def _inside(domain: tuple[Closure, Closure], value: Closure, name: str) -> Closure:
    """What computes a value that a domain must hold."""
    begin, extent = domain

    def run(env: Env) -> Any:
        found = value(env)
        low = begin(env)
        if not low <= found < low + extent(env):
            raise refusal("block", f"{name} is {found}, outside of [{low}, {low + extent(env)})")
        return found

    return run


def _one_by_one(items: Sequence[Closure]) -> Closure:
    def run(env: Env) -> None:
        for item in items:
            item(env)

    return run


def _values(var: E.Var, begin: int, extent: int) -> range:
    """The values of a loop's variable, which its dtype must hold."""
    values = range(begin, begin + extent)
    if values:
        low, high = dt.integer_range(var.dtype)
        if values[0] < low or values[-1] > high:
            raise refusal("for", f"loop variable {var.name} runs to {values[-1]}, which is no {var.dtype}")
    return values


def _may_have_nothing(block: S.Block) -> bool:
    """Whether the domain of a reduction variable may be empty."""
    extents = [item.dom.extent for item in block.iter_vars if item.iter_type == E.IterVar.CommReduce]
    return any(not isinstance(extent, E.IntImm) or extent.value <= 0 for extent in extents)


def _sizes(extents: Sequence[int]) -> list[int]:
    """Extents of an allocation, which has nothing where one is negative."""
    return [max(extent, 0) for extent in extents]


_FORMS: dict[type, Callable[[Statements, Any], Closure]] = {
    S.SeqStmt: Statements._sequence,
    S.Evaluate: Statements._evaluate,
    S.IfThenElse: Statements._if,
    S.While: Statements._while,
    S.For: Statements._for,
    S.AttrStmt: Statements._attribute,
    S.LetStmt: Statements._let,
    S.AssertStmt: Statements._assert,
    S.BufferStore: Statements._store,
    S.Allocate: Statements._allocate,
    S.AllocateConst: Statements._allocate_const,
    S.DeclBuffer: Statements._declare,
    S.BufferRealize: Statements._realize,
    S.BlockRealize: Statements._block,
}
