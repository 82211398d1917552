"""How an operator is declared: once, beside the public function that builds its calls.

    @operator("relax.square", infer=infer_unary_arith, legalize=topi_unary("square"), reference=np.square)
    def square(x: Expr) -> Expr:
        '''Squares each element.'''
        return call("relax.square", x)

One declaration holds everything that passes ask; they have no lists of operators themselves. What the reference documents
name as attributes of an operator (``FLegalize``, ``FPurity``, ``TOpPattern``, ...) is set on the :class:`ir.Op` as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from ... import dtype as dt
from ...error import IRTypeError, IRValueError
from ...expr import RelaxExpr
from ...op import Op, register_op
from ..expr import Call, Var
from ..struct_info import StructInfo
from .folding import Known
from .layout_rule import LayoutRule
from .memory_effect import FRESH, OPAQUE, UNKNOWN, MemoryEffect, ReadFromCall

Expr = RelaxExpr
Infer = Callable[[Call, Any], StructInfo]
Legalize = Callable[[Any, Call], RelaxExpr]
Normalize = Callable[[Any, Call], Call]
Lowering = Callable[[Call], Call]
Fold = Callable[[Call, Known], RelaxExpr]
Gradient = Callable[[Var, Call, RelaxExpr, Any], list[Any]]


class OpPatternKind(IntEnum):
    """How an operator's output depends on its inputs, for fusion."""

    kElemWise = 0
    kBroadcast = 1
    kInjective = 2
    kCommReduce = 3
    kOutEWiseFusable = 4
    kTuple = 7
    kOpaque = 8


class MixedPrecisionPolicy(IntEnum):
    """What mixed precision does with an operator."""

    ALWAYS = 0
    """Run in the low precision: convolutions, matrix products."""
    FOLLOW = 1
    """Follow the inputs: low precision when they are in it anyway."""
    NEVER = 2
    """Stay in full precision: what loses accuracy, such as exponentials and long sums."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """What a composite operator is made of: from a call to an expression of simpler operators.

    Attributes:
        inference: what it means when a model is run; None leaves the call as it is.
        training: what it means when a model is trained; None leaves the call as it is.
    """

    inference: Callable[[Call], RelaxExpr] | None = None
    training: Callable[[Call], RelaxExpr] | None = None


@dataclass(frozen=True, slots=True)
class OperatorDeclaration:
    """All that is known of one operator."""

    name: str
    infer: Infer
    """From a call (and the builder) to the struct info of its result; raises for arguments that it does not take."""
    build: Callable[..., Any] | None = None
    """The public function that makes calls."""
    normalize: Normalize | None = None
    """The normal form of a call whose arguments are in A-normal form: the builder asks when it makes a call, and
    well-formedness holds programs to it."""
    reference: Callable[..., Any] | None = None
    """numpy arrays (shapes as tuples, scalars as numbers) and the attributes as keywords to the expected result."""
    undefined: tuple[type[Exception], ...] = ()
    """What the reference raises where the operator has no value: IndexError for an index that is out of range, TypeError for
    numbers that numpy does not compute. Any other exception is a mistake in the reference."""
    fold: Fold | None = None
    """From a call, and what is known of its arguments, to what it is when the program is built, for what no reference computes;
    it raises :class:`.folding.NotComputable` where that is not known. Of other pure operators the kernels are run."""
    moves: bool = False
    """Whether the result consists of the operands' elements, unchanged, at places that the shapes tell: the reference then gives what a
    kernel gives, to the bit, and is folded by."""
    memory: MemoryEffect | ReadFromCall = FRESH
    """What a call does to memory; whether the operator is pure follows from it."""
    legalize: Legalize | None = None
    """From the builder and a call to what computes it, usually ``call_tir`` of a kernel that it adds."""
    fast_legalize: Legalize | None = None
    """Legalization to a fast, approximate kernel, for FastMathTransform."""
    data_dependent: bool = False
    """Whether the extents of the result depend on data, so that legalization does without them."""
    call_packed: str | None = None
    """The function of the runtime that a call becomes where it is not legalized."""
    lowering: Lowering | None = None
    """From a call to the one of the virtual machine that takes its place, for what is not legalized to a kernel."""
    is_lowered: bool = False
    """Whether calls are what a lowered program consists of, so that no legalization is missed."""
    pattern: OpPatternKind | None = None
    """How the result depends on the operands, for fusion; None where the kernel is looked at."""
    commutative: bool = False
    """Whether both operands may change places, so that patterns match either order."""
    callee: int | None = None
    """The number of the argument that is a function which the call calls."""
    layout: LayoutRule | None = None
    """How a call runs on operands whose axes are stored in another order; None: in the original order only."""
    preferred_layouts: tuple[str, ...] | None = None
    """The layouts of its operands in which generated kernels are fastest on processors."""
    mixed_precision: MixedPrecisionPolicy = MixedPrecisionPolicy.NEVER
    infer_mixed_precision: Callable[..., Any] | None = None
    """From a call on low-precision operands and a result dtype to the call that computes it, where the policy is ALWAYS."""
    decomposition: Decomposition | None = None
    """What a composite operator is made of, for DecomposeOpsForInference and DecomposeOpsForTraining."""
    gradient: Gradient | None = None
    """``(orig_var, orig_call, output_grad, builder)`` to one gradient per argument; :mod:`.gradient` says what is what."""


OPERATORS: dict[str, OperatorDeclaration] = {}
"""Every declared operator by name."""


class Builders:
    """The functions that build calls, by operator name, looked up when they are called: ``make.nn.relu(x)``.

    The rules of an operator use other operators through it, so that the files of operators need not know each other.
    """

    def __init__(self, prefix: str = "relax") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python asks of any object is no operator
            raise AttributeError(name)
        declaration = OPERATORS.get(f"{self._prefix}.{name}")
        return Builders(f"{self._prefix}.{name}") if declaration is None else declaration.build

    def __call__(self, *args: Any, **options: Any) -> Any:
        raise IRValueError(f"operator {self._prefix!r} is not declared")


make = Builders()

F = TypeVar("F", bound=Callable[..., Any])


def declare(declaration: OperatorDeclaration) -> Op:
    """Register an operator and its attributes."""
    OPERATORS[declaration.name] = declaration
    op = register_op(declaration.name)
    attributes = {
        "FInferStructInfo": declaration.infer,
        "FLegalize": declaration.legalize,
        "FInferMixedPrecision": declaration.infer_mixed_precision,
        "FRelaxInferLayout": declaration.layout,
        "TOpPattern": declaration.pattern,
        "FPrimalGradient": declaration.gradient,
        "FCallPacked": declaration.call_packed,
        "FNormalize": declaration.normalize,
        "FReference": declaration.reference,
        "FDataDependent": declaration.data_dependent or None,
    }
    op.set_attr("FPurity", declaration.memory.pure)
    op.set_attr("TMixedPrecisionPolicy", int(declaration.mixed_precision))
    for name, value in attributes.items():
        if value is not None:
            op.set_attr(name, value)
    return op


def declaration_of(callee: Any) -> OperatorDeclaration | None:
    """The declaration of what a call calls; None for functions, and for operators that were registered without one."""
    return OPERATORS.get(callee.name) if isinstance(callee, Op) else None


def memory_of(op: Op) -> MemoryEffect | ReadFromCall:
    """What calls of an operator do to memory; nothing is known of one that is not declared, unless its FPurity is set."""
    declaration = declaration_of(op)
    if declaration is not None:
        return declaration.memory
    return UNKNOWN if op.get_attr("FPurity") else OPAQUE


def operator(name: str, **what: Any) -> Callable[[F], F]:
    """Decorator of the function that builds calls of the operator ``name``; keywords are those of OperatorDeclaration."""

    def register(build: F) -> F:
        declare(OperatorDeclaration(name, build=build, **what))
        return build

    return register


def call(op_name: str, *args: Any, attrs: dict[str, Any] | None = None, sinfo_args: Any = None) -> Call:
    """A call of a declared operator; a dtype attribute may be written "void" for one that is not given.

    Raises:
        IRTypeError: an attribute is called a dtype and is none.
    """
    if attrs and not _DTYPE_ATTRIBUTES.isdisjoint(attrs):
        attrs = {
            name: _dtype_attribute(op_name, name, value) if name in _DTYPE_ATTRIBUTES else value
            for name, value in attrs.items()
        }
    return Call(Op.get(op_name), args, attrs, sinfo_args)


_DTYPE_ATTRIBUTES = frozenset(("dtype", "out_dtype"))


def _dtype_attribute(op_name: str, name: str, value: Any) -> str:
    if value is None or value in ("", "void"):
        return ""
    try:
        return dt.checked(value)
    except IRTypeError as error:
        raise IRTypeError(f"{op_name}: {name}: {error}") from None
