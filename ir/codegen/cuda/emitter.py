"""One kernel while it is printed: its lines, its names, and which function prints which node.

:mod:`.expression`, :mod:`.memory`, :mod:`.intrinsics` and :mod:`.statement` enter a function for each class of node. A vector is
printed lane by lane: registers of GPUs are scalars, and only memory is read and written in vectors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ... import dtype as dt
from ...arith.analyzer import Analyzer
from ...arith.index_arithmetic import IndexArithmetic
from ...tir.expr import BufferLoad, Call, PrimExpr, Var
from ...tir.intrinsic.declaration import CallEffectKind, effect_of
from ...tir.stmt import Stmt
from ..error import CodegenError
from ..printers import entering
from .device_functions import FUNCTIONS, MATHEMATICS
from .order import expressions_of, needs_order
from .text import Text
from .types import HEADERS, value_type

Lanes = list[Text]
"""The value of an expression: one text for each lane."""

_EXPRESSIONS: dict[type, Callable[[KernelEmitter, Any], Lanes]] = {}
_STATEMENTS: dict[type, Callable[[KernelEmitter, Any], None]] = {}

_KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const const_cast
    constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto if
    inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true
    try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    char8_t co_await co_return co_yield concept requires""".split()
)
"""Of C++17, and of C++20."""
_MACROS = frozenset(
    "NULL EOF NAN INFINITY HUGE_VAL CHAR_BIT RAND_MAX BUFSIZ assert errno stdin stdout stderr linux unix".split()
)
"""Of the standard headers and of compilers."""
_MACRO = re.compile(
    r"(M_|FP_|MATH_|FLT_|DBL_|LDBL_|U?(CHAR|SHRT|INT|LONG|LLONG)_(MAX|MIN)$|INT\d|UINT\d|CUDART?_)"
)
"""How others begin."""
_OF_CUDA = frozenset(
    "half vec threadIdx blockIdx blockDim gridDim warpSize min max abs memcpy atomicAdd".split()
)

_LIBRARY = frozenset(f"{name}{suffix}" for name in (*MATHEMATICS, "fma") for suffix in ("", "f"))


def _is_taken(name: str) -> bool:
    """Whether a name of C++, of CUDA or of the functions that kernels call would be hidden, or is no name."""
    return (
        any(name in group for group in (_KEYWORDS, _MACROS, _OF_CUDA, _LIBRARY, FUNCTIONS))
        or _MACRO.match(name) is not None
    )


def _is_ordered(expr: PrimExpr) -> bool:
    """Whether an expression itself reads memory, or has an effect, and has a value."""
    if isinstance(expr, BufferLoad):
        return True
    return (
        isinstance(expr, Call)
        and expr.dtype not in ("void", "handle")
        and effect_of(expr) > CallEffectKind.PURE
    )


prints = entering(_EXPRESSIONS)
"""The decorated ``(emitter, expression) -> Lanes`` prints expressions of these classes."""
prints_statement = entering(_STATEMENTS)
"""The decorated ``(emitter, statement)`` prints statements of these classes."""


class KernelEmitter:
    """Prints the body of one kernel.

    Args:
        names: taken in the source already.
        exact: float arithmetic that must be rounded operation by operation, by identity.
        used: the variables that the kernel's expressions use.
        alignments: bytes to which memory must be aligned for what it is given to, by its address.
        in_pairs: by the dtypes that are computed with two at a time: the functions of operations.
    """

    def __init__(
        self,
        names: set[str],
        exact: set[int],
        used: set[Var],
        alignments: Mapping[Var, int],
        in_pairs: Mapping[str, Mapping[type, str]],
    ) -> None:
        self.lines: list[str] = []
        self.variables: dict[Var, Lanes] = {}
        self.functions: set[str] = set()
        """Those of :mod:`.device_functions` that are called."""
        self.instructions: set[str] = set()
        """The functions of ``prelude/*.cuh`` that are called."""
        self.definitions: dict[str, str] = {}
        """Functions that are made for this kernel, by name."""
        self.barriers = ""
        """The name of its barriers that count transactions."""
        self.headers: set[str] = set()
        self.exact = exact
        self.used = used
        self.alignments = alignments
        self.in_pairs = in_pairs
        self.analyzer = Analyzer()
        self.is_index = IndexArithmetic()
        self.in_data = False
        """Whether int32 and int64 arithmetic wraps where the printer stands."""
        self.aligned: dict[Var, int] = {}
        """Bytes to which addresses are aligned."""
        self.in_order = False
        """Whether whatever reads memory or has an effect, in the statement at hand, gets a line of its own, in the order of the program."""
        self.whole: PrimExpr | None = None
        """The call that is a statement by itself, in a line already."""
        self.loaded: dict[str, Lanes] = {}
        """Vectors that the statement at hand has loaded already, by what loads them."""
        self._names = names
        self._indent = 1
        self._conditional = 0

    # -- text ------------------------------------------------------------------------------------------------------
    def line(self, code: str) -> None:
        """One line of code."""
        self.lines.append("  " * self._indent + code)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Braces behind a line."""
        self.line(f"{head} {{")
        self._indent += 1
        before, self.loaded = self.loaded, dict(self.loaded)
        yield
        self.loaded = before
        self._indent -= 1
        self.line("}")

    def fresh(self, hint: str) -> str:
        """A name that nothing has yet."""
        stem = "".join(ch if ch.isalnum() and ch.isascii() else "_" for ch in hint) or "value"
        if stem[0].isdigit() or stem.startswith("__") or _is_taken(stem):
            stem = f"v_{stem}"
        name, number = stem, 0
        while name in self._names:
            number += 1
            name = f"{stem}_{number}"
        self._names.add(name)
        return name

    def use(self, function: str) -> str:
        """A function of :mod:`.device_functions`, which the source will hold."""
        self.functions.add(function)
        return function

    def declare(self, var: Var, code: str) -> str:
        """A variable of the program gets a name and a value."""
        name = self.fresh(var.name)
        self.variables[var] = [Text(name)]
        self.line(f"const {self.type_of(var.dtype)} {name} = {code};")
        return name

    def type_of(self, dtype: str) -> str:
        """The C++ type that values of a dtype are computed in."""
        header = HEADERS.get(dt.element_of(dtype))
        if header is not None:
            self.headers.add(header)
        return value_type(dtype)

    # -- nodes -----------------------------------------------------------------------------------------------------
    def statement(self, node: Stmt) -> None:
        """Prints a statement.

        Raises:
            CodegenError: statements of this class are not printed.
        """
        handler = _STATEMENTS.get(node.__class__)
        if handler is None:
            raise CodegenError(
                f"a CUDA kernel has no statement {type(node).__name__}; lower it with ir.tir.lower first"
            )
        self.loaded = {}
        before, self.in_order = self.in_order, needs_order(expressions_of(node))
        handler(self, node)
        self.in_order = before

    def lanes(self, expr: PrimExpr) -> Lanes:
        """An expression, lane by lane.

        Raises:
            CodegenError: expressions of this class are not printed.
        """
        handler = _EXPRESSIONS.get(expr.__class__)
        if handler is None:
            raise CodegenError(f"a CUDA kernel has no expression {type(expr).__name__}")
        found = handler(self, expr)
        if not self.in_order or expr is self.whole or not _is_ordered(expr):
            return found
        self.loaded = {}
        return [self.kept(lane, dt.element_of(expr.dtype)) for lane in found]

    def scalar(self, expr: PrimExpr) -> Text:
        """The text of an expression of one lane."""
        (found,) = self.lanes(expr)
        return found

    def data(self, expr: PrimExpr) -> Lanes:
        """A value that is stored, passed or bound: integer arithmetic wraps in it."""
        with self._in_position(True):
            return self.lanes(expr)

    def number(self, expr: PrimExpr) -> Lanes:
        """What stands in an index position or is a condition: integer arithmetic is that of ℤ."""
        with self._in_position(False):
            return self.lanes(expr)

    def index(self, expr: PrimExpr) -> Text:
        """One index, extent or condition."""
        (found,) = self.number(expr)
        return found

    @contextmanager
    def _in_position(self, in_data: bool) -> Iterator[None]:
        before, self.in_data = self.in_data, in_data
        yield
        self.in_data = before

    # -- evaluation ------------------------------------------------------------------------------------------------
    @contextmanager
    def conditionally(self) -> Iterator[None]:
        """What is printed is evaluated under a condition within its expression: nothing of it may be computed before."""
        self._conditional += 1
        yield
        self._conditional -= 1

    @property
    def is_conditional(self) -> bool:
        """Whether what is printed is evaluated under a condition within its expression."""
        return self._conditional > 0

    def kept(self, value: Text, dtype: str, hint: str = "x") -> Text:
        """A value under a name, so that it is computed once; as it is where that must not be done before."""
        if value.is_atom or self.is_conditional:
            return value
        name = self.fresh(hint)
        self.line(f"const {self.type_of(dtype)} {name} = {value.code};")
        return Text(name)

    def address(self, data: Var) -> str:
        """The name of an address.

        Raises:
            CodegenError: it is not defined here.
        """
        found = self.variables.get(data)
        if found is None:
            raise CodegenError(f"address {data.name} is used where it is not defined")
        return found[0].code
