"""UnrollLoop: unrolled loops, and small loops inside ``pragma_auto_unroll_max_step``, become straight-line code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ... import dtype as dt
from ...arith.index_arithmetic import IndexArithmetic
from ...arith.linear_form import combined, scaled
from ...module import IRModule
from ...node import Mutator, Visitor, post_order_visit
from ...transform import PassContext
from .. import operators
from ..analysis.empty_domains import initializes
from ..analysis.thread_groups import storage_scope
from ..buffer import Buffer
from ..expr import Add, BufferLoad, Call, Cast, CmpExpr, IntImm, Let, Mul, PrimExpr, Sub, Var
from ..function import PrimFunc
from ..intrinsic.address_arguments import ADDRESSES
from ..stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from ..stmt_functor import substitute
from .constant_folder import ConstantFolder
from .prim_func_pass import PrimFuncPass

_REGISTERS = ("local", "warp")
"""Scopes of memory that lies in registers where its indices are constant."""


class _Unroll(Mutator):
    def __init__(self, options: UnrollLoop) -> None:
        super().__init__()
        self.options = options
        self.max_step = options.auto_max_step
        self.explicit = options.explicit_unroll
        self.steps = 0  # statements executed by what was visited last, if unrolled
        self.normal_depth = 0  # loops in it that stay loops
        self.unroll_depth = 0
        self.to_copy: set[int] = set()  # identities of the loops whose bodies are copied

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        key = node.attr_key
        if key == "pragma_auto_unroll_max_step":
            saved, self.max_step = self.max_step, _number(node.value)
            body = self.visit(node.body)
            self.max_step = saved
            return body
        if key == "pragma_unroll_explicit":
            saved_explicit, self.explicit = self.explicit, bool(_number(node.value))
            body = self.visit(node.body)
            self.explicit = saved_explicit
            return body
        body = self.visit(node.body)
        return node if body is node.body else node.replace(body=body)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        self.steps += 1
        return node

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        self.steps += 1
        return node

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        mapped = self._beside_each_other(node.seq)
        return node if all(a is b for a, b in zip(mapped, node.seq)) else SeqStmt(mapped, node.span)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        names = ["then_case"] if node.else_case is None else ["then_case", "else_case"]
        mapped = self._beside_each_other([getattr(node, name) for name in names])
        return node.replace(**dict(zip(names, mapped, strict=True)))  # type: ignore[no-any-return]

    def _beside_each_other(self, statements: Sequence[Stmt]) -> list[Stmt]:
        """Statements of which none is in a loop of another one: their steps add up."""
        steps = normal = unrolled = 0
        mapped = []
        for item in statements:
            self.steps = self.normal_depth = self.unroll_depth = 0
            mapped.append(self.visit(item))
            steps += self.steps
            normal = max(normal, self.normal_depth)
            unrolled = max(unrolled, self.unroll_depth)
        self.steps, self.normal_depth, self.unroll_depth = steps, normal, unrolled
        return mapped

    def visit_For(self, loop: For) -> Stmt:
        body = self.visit(loop.body)
        extent = loop.extent.value if isinstance(loop.extent, IntImm) else None
        if extent is not None and extent <= 0 and initializes(loop):
            return loop if body is loop.body else loop.replace(body=body)
        automatic = (
            loop.kind == ForKind.SERIAL
            and extent is not None
            and self.normal_depth == 0
            and self.unroll_depth <= self.options.auto_max_depth
            and (extent * self.steps <= self.max_step or extent <= self.options.auto_max_extent)
        )
        if (
            not automatic
            and self.options.unroll_local_access
            and loop.kind == ForKind.SERIAL
            and extent is not None
            and self.normal_depth == 0
            and extent * self.steps <= self.options.local_max_step
            and _indexes_local(body, loop.loop_var)
        ):
            automatic = True
        unrolled = extent is not None and (loop.kind == ForKind.UNROLLED or automatic)
        limit = self.options.max_statements
        if unrolled and limit is not None and extent is not None and extent * self.steps > limit:
            # the inner loops are what registers and vectors need; the compiler's time is not worth the outer ones
            loop = loop.replace(kind=ForKind.SERIAL)
            unrolled = False
        if not unrolled:
            if extent is None or extent > 1:
                self.normal_depth += 1
            return loop if body is loop.body else loop.replace(body=body)
        assert extent is not None
        self.steps *= extent
        self.unroll_depth += 1
        marked = loop.replace(kind=ForKind.UNROLLED, body=body)
        if self.explicit or loop.kind == ForKind.UNROLLED:
            self.to_copy.add(id(marked))
        return marked


class _Definitions(Visitor):
    """Finds the loops that are to be copied, and what is defined in them."""

    def __init__(self, loops: set[int]) -> None:
        super().__init__()
        self.loops = loops
        self.found: set[Var] = set()
        self.is_copied = False

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        pass

    def _define(self, node: Any, var: Var) -> None:
        if self.is_copied:
            self.found.add(var)
        self.generic_visit(node)

    def visit_For(self, loop: For) -> None:
        outer = self.is_copied
        self.is_copied = outer or id(loop) in self.loops
        self._define(loop, loop.loop_var)
        self.is_copied = outer

    def visit_LetStmt(self, node: LetStmt) -> None:
        self._define(node, node.var)

    def visit_Allocate(self, node: Allocate | AllocateConst) -> None:
        self._define(node, node.buffer_var)

    visit_AllocateConst = visit_Allocate


@dataclass(slots=True, eq=False)
class _Template:
    """A node of a body: how it is copied, and what an expression or buffer has of the variables that differ between copies."""

    copy: Callable[[_Copies, Any], Any] | None
    """Makes a copy; None where only the children are copied."""
    variables: tuple[Var, ...] | None
    """None for statements and for what defines variables of its own: every copy is made anew."""
    linear: tuple[int, dict[Var, int]] | None = None
    """Constant and factors, if it is a sum of multiples of them and of nothing else."""
    made: dict[Any, Any] = field(default_factory=dict)
    """What it has become, by identities of the variables' values."""


_SAME = _Template(None, ())


class _Copies(ConstantFolder):
    """Puts copies of their bodies in place of loops.

    Nested loops are copied in one walk. An expression that is the same in several copies is one object in all of them, so that
    the work follows the number of different expressions.
    """

    remembers: ClassVar[bool] = False  # what an expression becomes depends on the copy

    def __init__(self, loops: set[int], body: Stmt) -> None:
        super().__init__()
        self.loops = loops
        definitions = _Definitions(loops)
        definitions.visit(body)
        self.varying = definitions.found
        self.values: dict[Var, PrimExpr] = {}  # what the variables are in the copy at hand
        self.is_first = True  # first copies keep the variables that they define; others need their own
        self._templates: dict[int, _Template] = {}
        self._numbers: dict[tuple[int, int, int], PrimExpr] = {}
        self._kept: list[Any] = []  # whose identities are keys
        self._is_index = IndexArithmetic()

    def visit(self, node: Any) -> Any:
        """A copy; expressions and buffers are made once for the same values of their variables."""
        template = self._templates.get(id(node)) or self._template(node)
        variables = template.variables
        if variables is None:
            copy = template.copy
            return node._map_children(self.visit) if copy is None else copy(self, node)
        if not variables:
            return node
        values = self.values
        key: Any = id(values.get(variables[0]))
        if len(variables) == 2:
            key = (key, id(values.get(variables[1])))
        elif len(variables) > 2:
            key = (key, *[id(values.get(var)) for var in variables[1:]])
        found = template.made.get(key)
        if found is None:
            if template.linear is not None:
                found = self._evaluated(template.linear, node.dtype)
            if found is None:
                copy = template.copy
                found = node._map_children(self.visit) if copy is None else copy(self, node)
            template.made[key] = found
        return found

    def is_fixed(self, node: Any) -> bool:
        """Nothing: in a copy a variable is a number, whether or not a reduction over nothing stands there."""
        return False

    def visit_Add(self, node: Add) -> PrimExpr:
        """Sums of an index and a displacement are what most copies consist of."""
        a, b = self.visit(node.a), self.visit(node.b)
        if b.__class__ is IntImm and a.__class__ is not IntImm:
            return node._rebuild(a, b, node.span) if b.value else a
        return self.folded(node, a, b)

    def _evaluated(self, linear: tuple[int, dict[Var, int]], dtype: str) -> PrimExpr | None:
        """The number that a sum is in the copy at hand; None if some variable is not a number."""
        result, factors = linear
        for var, factor in factors.items():
            value = self.values.get(var)
            if not isinstance(value, IntImm):
                return None
            result += factor * value.value
        return IntImm(dtype, operators.wrap_integer(result, dtype))

    def _template(self, node: Any) -> _Template:
        found = self._templates.get(id(node))
        if found is None:
            method = self.method_for(node.__class__)
            unmasked = isinstance(node, BufferLoad | BufferStore) and node.predicate is None
            copy = None if unmasked or method is Mutator.generic_visit else method
            found = self._templates[id(node)] = (
                _Template(copy, None) if isinstance(node, Stmt) else self._template_of_value(node, copy)
            )
        return found

    def _template_of_value(self, node: Any, copy: Callable[[_Copies, Any], Any] | None) -> _Template:
        variables: dict[Var, None] = {}
        binds = isinstance(node, Let)

        def collect(child: Any) -> None:
            nonlocal binds
            below = self._template(child).variables
            if below is None:
                binds = True
            elif below:
                variables.update(dict.fromkeys(below))

        node._visit_children(collect)
        if binds:
            return _Template(copy, None)
        if isinstance(node, Var) and node in self.varying:
            variables[node] = None
        return _Template(copy, tuple(variables), self._linear(node)) if variables else _SAME

    def _linear(self, node: Any) -> tuple[int, dict[Var, int]] | None:
        if isinstance(node, IntImm):
            return node.value, {}
        if not isinstance(node, PrimExpr) or not dt.is_index(node.dtype):
            return None
        if isinstance(node, Var):
            return (0, {node: 1}) if node in self.varying else None
        if not isinstance(node, Add | Sub | Mul):
            return None
        a, b = self._linear(node.a), self._linear(node.b)
        if a is None or b is None:
            return None
        if isinstance(node, Mul):
            if b[1]:
                a, b = b, a
            return None if b[1] else (a[0] * b[0], scaled(a[1], b[0]))
        sign = -1 if isinstance(node, Sub) else 1
        return a[0] + sign * b[0], combined(a[1], b[1], sign)

    def _define(self, var: Var) -> Var:
        if self.is_first:
            self.values.pop(var, None)
            return var
        fresh = self.values[var] = type(var)(var.name, var.type_annotation or var.dtype)
        self._kept.append(fresh)
        return fresh

    def _number(self, loop: For, start: PrimExpr, i: int) -> PrimExpr:
        """What the variable of a loop is in a copy; the same object each time."""
        key = (id(loop), id(start), i)
        found = self._numbers.get(key)
        if found is None:
            self._kept.append(start)
            found = self._numbers[key] = operators.add(start, operators.const(i, loop.loop_var.dtype))
        return found

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.values.get(var, var)

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return self.generic_visit(buffer)

    # -- data stays data, also in a copy in which the loads that make it so are gone -----------------------------------
    def visit_CmpExpr(self, node: CmpExpr) -> PrimExpr:
        return self._of_the_same_class(node, super().visit_CmpExpr(node))

    def visit_Cast(self, node: Cast) -> PrimExpr:
        return self._of_the_same_class(node, super().visit_Cast(node))

    def _bound(self, node: Let | LetStmt) -> PrimExpr:
        """The value of a let, which says of which class its variable is."""
        if not self._is_index(node.value):
            self._is_index.mark_data(node.var)
        return self._of_the_same_class(node.value, self.visit(node.value))

    def _of_the_same_class(self, before: PrimExpr, after: PrimExpr) -> PrimExpr:
        """What was folded, or what was not where folding would make index arithmetic of data."""
        if after is before or not self._is_index.changes_meaning(before, after, lambda part: False):
            return after
        return substitute(before, dict(self.values))

    def visit_Let(self, node: Let) -> PrimExpr:
        value = self._bound(node)
        return Let(node.var, value, self.visit(node.body), node.span)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self._bound(node)
        var = self._define(node.var)
        if not self._is_index(node.var):
            self._is_index.mark_data(var)
        return node.replace(var=var, value=value, body=self.visit(node.body))

    def visit_Allocate(self, node: Allocate | AllocateConst) -> Stmt:
        self._define(node.buffer_var)
        return self.generic_visit(node)

    visit_AllocateConst = visit_Allocate

    def visit_For(self, loop: For) -> Stmt:
        if id(loop) not in self.loops:
            var = self._define(loop.loop_var)
            mapped = super().visit_For(loop)
            return (
                mapped.replace(loop_var=var)
                if isinstance(mapped, For) and var is not loop.loop_var
                else mapped
            )
        assert isinstance(loop.extent, IntImm)
        start = self.visit(loop.min)
        is_first = self.is_first
        copies: list[Stmt] = []
        for i in range(loop.extent.value):
            self.values[loop.loop_var] = self._number(loop, start, i)
            self.is_first = is_first and i == 0
            copies.append(self.visit(loop.body))
        self.is_first = is_first
        self.values.pop(loop.loop_var, None)
        return seq(copies)


def _number(value: Any) -> int:
    return int(getattr(value, "value", value))


def _indexes_local(body: Stmt, var: Var) -> bool:
    """Whether registers of a thread, or of a warp, are indexed with the variable: only constant indices keep them such."""
    found = False

    def uses(node: Any) -> None:
        nonlocal found
        found = found or node is var

    def check(node: Any) -> None:
        if found:
            return
        if isinstance(node, BufferLoad | BufferStore) and node.buffer.scope() in _REGISTERS:
            for index in node.indices:
                post_order_visit(index, uses)
        elif isinstance(node, Call):
            for address, offset in ADDRESSES.get(getattr(node.op, "name", ""), ()):
                data = node.args[address]
                if isinstance(data, Var) and storage_scope(data) in _REGISTERS:
                    post_order_visit(node.args[offset], uses)

    post_order_visit(body, check)
    return found


@dataclass(frozen=True)
class UnrollLoop(PrimFuncPass):
    """Unroll loops marked so, and serial loops that the pragmas allow.

    ``pragma_auto_unroll_max_step = n`` unrolls the loops below it, from the inside out, as long as a nest executes at
    most ``n`` statements.

    Args:
        auto_max_step: the limit where no pragma sets one.
        auto_max_depth: nested loops unrolled at most.
        auto_max_extent: loops up to this extent are always unrolled.
        explicit_unroll: copy the body; otherwise only mark automatic loops as unrolled (``pragma_unroll_explicit``).
        expand: copy bodies; otherwise only mark the loops that are to be copied, which leaves less to do for the passes between.
        unroll_local_access: also unroll small loops that index memory of a thread or of a warp, which keeps it in registers.
        local_max_step: the limit of statements for that.
        max_statements: a loop whose copies would have more statements than this stays a loop, marked or not.

    The option ``tir.UnrollLoop`` of the PassContext sets these by name.

    Before::

        for i in T.unroll(2):
            A[i] = 0.0

    After::

        A[0] = 0.0
        A[1] = 0.0
    """

    auto_max_step: int = 0
    auto_max_depth: int = 8
    auto_max_extent: int = 0
    explicit_unroll: bool = True
    expand: bool = True
    unroll_local_access: bool = False
    local_max_step: int = 256
    max_statements: int | None = None
    pass_name = "tir.UnrollLoop"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The unrolled function."""
        options = self.configured(ctx)
        marking = _Unroll(options)
        body = marking.visit(func.body)
        if options.expand and marking.to_copy:
            body = _Copies(marking.to_copy, body).visit(body)
        return func if body is func.body else func.replace(body=body)
