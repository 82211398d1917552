"""One LLVM function while it is written: what the variables are, and which function prints which node.

:mod:`.expression`, :mod:`.conversion`, :mod:`.memory`, :mod:`.intrinsics` and :mod:`.statement` enter a function for each class of node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ... import dtype as dt
from ...tir.expr import Add, Broadcast, Cast, IntImm, Mul, PrimExpr, Ramp, Sub, Var
from ...tir.intrinsic.matrix_registers import MATRIX_SCOPE
from ...tir.stmt import For, Stmt
from ..error import CodegenError
from ..printers import entering
from .builder import FunctionBuilder, Value
from .kernel_context import KernelContext

if TYPE_CHECKING:
    from .matrix import MatrixRegisters
    from .tile_order import Tile

_EXPRESSIONS: dict[type, Callable[[FunctionEmitter, Any], Value]] = {}
_STATEMENTS: dict[type, Callable[[FunctionEmitter, Any], None]] = {}


prints = entering(_EXPRESSIONS)
"""The decorated ``(emitter, expression) -> Value`` prints expressions of these classes."""
prints_statement = entering(_STATEMENTS)
"""The decorated ``(emitter, statement)`` prints statements of these classes."""


class FunctionEmitter:
    """Prints the body of one LLVM function.

    Loop variables and integer parameters are 64 bits wide in registers, whatever their dtype: they are numbers that do not
    overflow, and addresses are made of them.
    """

    def __init__(self, context: KernelContext, builder: FunctionBuilder) -> None:
        self.context = context
        self.module = context.module
        self.b = builder
        self.variables: dict[Var, Value] = {}
        self.result: Value | None = None
        """Where the function's result is stored; None if it has none."""
        self.is_part = False
        """Whether the function is a part of another one, which a return in it could not end."""
        self.loop: For | None = None
        """The innermost loop around what is printed."""
        self.reduction_update: PrimExpr | None = None
        """The expression that combines a partial result with the next value of a reduction; its order is free."""
        self.reduction_is_long = False
        """Whether that happens in a loop over so many values that LLVM should make vectors of them."""
        self.private: set[Var] = set()
        """Memory that nothing else has the address of."""
        self.tile: Tile | None = None
        """The register tile at hand, see :mod:`.tile_order`."""
        self.matrix_registers: MatrixRegisters | None = None
        """The registers of a matrix unit that the function uses; None where vectors take their place."""
        self.exact: set[int] = set()
        """Float arithmetic that must not contract, by identity."""
        self.body: Stmt | None = None
        """The body of the loop at hand, or of the function."""
        self.library_instructions: int | None = None
        """What calls of generated functions in that body come to, if all of them are inlined; None until somebody asks."""
        self.inner = 0
        """Loops and calls of functions printed so far."""
        self._cleanups: list[Callable[[], None]] = []
        # What the expression at hand has given already, by identity, latest last: a shared operand is printed once.
        self._printed: dict[int, tuple[PrimExpr, Value]] | None = None
        self._effects = 0
        self._addresses: dict[tuple[str, str, str], Value] = {}  # of the basic block at hand
        self._block = ""

    # -- nodes ---------------------------------------------------------------------
    def statement(self, node: Stmt) -> None:
        """Prints a statement.

        Raises:
            CodegenError: statements of this class are not printed.
        """
        handler = _STATEMENTS.get(node.__class__)
        if handler is None:
            raise CodegenError(
                f"code generation has no statement {type(node).__name__}; lower the function with ir.tir.lower first"
            )
        handler(self, node)

    def value(self, expr: PrimExpr) -> Value:
        """Prints an expression and returns its value in a register; operands that occur again are not printed again.

        Raises:
            CodegenError: expressions of this class are not printed.
        """
        handler = _EXPRESSIONS.get(expr.__class__)
        if handler is None:
            raise CodegenError(f"code generation has no expression {type(expr).__name__}")
        printed = self._printed
        if printed is None:
            self._printed = {}
            try:
                return handler(self, expr)
            finally:
                self._printed = None
        if not expr.is_compound:
            return handler(self, expr)
        found = printed.get(id(expr))
        if found is not None:
            return found[1]
        effects = self._effects
        value = handler(self, expr)
        if effects == self._effects:
            printed[id(expr)] = (expr, value)
        return value

    @contextmanager
    def knowing(self, *values: tuple[PrimExpr, Value]) -> Iterator[None]:
        """The next expression has some in it that are printed already."""
        self._printed = {id(expr): (expr, value) for expr, value in values}
        try:
            yield
        finally:
            self._printed = None

    def index(self, expr: PrimExpr) -> Value:
        """An integer scalar as i64, for addresses and the bounds of loops."""
        if isinstance(expr, IntImm):
            return Value(str(expr.value), "i64")
        value = self.variable(expr) if isinstance(expr, Var) else self.value(expr)
        return self.widened(value, dt.is_uint(expr.dtype))

    def widened(self, value: Value, unsigned: bool = False) -> Value:
        """Any scalar integer as i64."""
        if value.type == "i64" or value.literal is not None:
            return Value(value.ref, "i64")
        return self.b.cast("zext" if unsigned or value.type == "i1" else "sext", value, "i64")

    def integer_bounds(self, expr: PrimExpr) -> tuple[int, int]:
        """The least and the greatest value of an integer expression, as far as variables and constants tell."""
        if isinstance(expr, IntImm):
            return expr.value, expr.value
        least, greatest = dt.integer_range(expr.dtype)
        low, high = least, greatest
        if isinstance(expr, Var):
            bits = self.b.magnitude(self.variables[expr]) if expr in self.variables else 64
            low, high = max(low, -(1 << bits)), min(high, 1 << bits)
        elif isinstance(expr, Broadcast):
            return self.integer_bounds(expr.value)
        elif isinstance(expr, Add | Sub | Mul | Ramp):
            low, high = self._bounds_of_sum(expr)
        elif isinstance(expr, Cast) and dt.is_integral(expr.value.dtype):
            low, high = self.integer_bounds(expr.value)
        return (low, high) if least <= low and high <= greatest else (least, greatest)

    def _bounds_of_sum(self, expr: Add | Sub | Mul | Ramp) -> tuple[int, int]:
        if isinstance(expr, Ramp):
            (low, high), steps = self.integer_bounds(expr.base), self.integer_bounds(expr.stride)
            ends = [step * (expr.lanes - 1) for step in steps]
            return low + min(0, *ends), high + max(0, *ends)
        (a_low, a_high), (b_low, b_high) = self.integer_bounds(expr.a), self.integer_bounds(expr.b)
        if isinstance(expr, Add):
            return a_low + b_low, a_high + b_high
        if isinstance(expr, Sub):
            return a_low - b_high, a_high - b_low
        corners = [x * y for x in (a_low, a_high) for y in (b_low, b_high)]
        return min(corners), max(corners)

    def variable(self, var: Var) -> Value:
        """What a variable is; see the class for its width.

        Raises:
            CodegenError: the variable is not defined here.
        """
        try:
            return self.variables[var]
        except KeyError:
            if getattr(var.type_annotation, "storage_scope", "") == MATRIX_SCOPE:
                raise CodegenError(
                    f"matrix register {var.name} is no memory: only matrix_load, matrix_store and matrix_accumulate use it"
                ) from None
            raise CodegenError(f"variable {var.name} is used where it is not defined") from None

    def offset(self, base: Value, element: str, index: Value) -> Value:
        """The address ``base + index`` elements; the same one is printed once in a basic block."""
        if self._block != self.b.block:
            self._block = self.b.block
            self._addresses.clear()
        key = (base.ref, element, index.ref)
        found = self._addresses.get(key)
        if found is None:
            found = self._addresses[key] = self.b.offset_pointer(base, element, index)
        return found

    # -- evaluation ----------------------------------------------------------------
    @contextmanager
    def conditionally(self) -> Iterator[None]:
        """A part of an expression whose values are not those of the rest: it is evaluated under a condition."""
        printed = self._printed
        known = len(printed) if printed is not None else 0
        yield
        while printed is not None and len(printed) > known:
            printed.popitem()

    def has_effect(self) -> None:
        """The expression at hand must be evaluated as often as it is written, and may write what a tile has loaded."""
        self._effects += 1
        self.tile = None

    # -- leaving -------------------------------------------------------------------
    @contextmanager
    def releasing(self, release: Callable[[], None]) -> Iterator[None]:
        """A region that holds something: it is given back at the end, and wherever the function is left before."""
        self._cleanups.append(release)
        yield
        self._cleanups.pop()
        release()

    def leave_with(self, code: Value) -> None:
        """Returns from the function, giving back what was acquired inside."""
        for release in reversed(self._cleanups):
            release()
        self.b.ret(code)

    def fail_if(self, condition: Value, error: Callable[[], Value]) -> None:
        """Leaves with the code that ``error`` prints if the condition holds."""
        bad, good = self.b.fresh("fail"), self.b.fresh("ok")
        self.b.cond_branch(condition, bad, good)
        self.b.label(bad)
        self.leave_with(error())
        self.b.label(good)

    def set_error(self, text: str, code: int) -> Value:
        """Tells the runtime what went wrong; the code to leave with."""
        self.module.declare("loopsmith_set_error", "void", ["ptr"])
        self.b.call("loopsmith_set_error", "void", [self.module.string(text)])
        return Value(str(code), "i32")

    def check_status(self, status: Value) -> None:
        """Leaves if what was called has failed."""
        self.fail_if(self.b.icmp("ne", status, Value("0", "i32")), lambda: status)
