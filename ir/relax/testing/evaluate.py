"""A reference evaluator of Relax functions over numpy arrays: slow, and independent of everything that compiles.

Operators are computed by their numpy references, kernels by the TIR interpreter, symbolic variables get their values from the
arguments' shapes. It runs programs in every form between the import and the lowering of memory, and refuses what native
code would not notice:

- a value that does not have the struct info that the program declares for it;
- a kernel that writes to an argument which is not its output;
- reading a value behind an in-place call that overwrote its memory, or behind the end of its storage.

Values are those of :mod:`ir.relax.testing.values`; what the operators of the language itself mean is registered by
:mod:`ir.relax.testing.language`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import numpy as np

from ... import dtype as dt
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...registry import get_global_func
from ...tir.expr import PrimExpr
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ...tir.interpreter.error import InterpreterError
from ...tir.interpreter.machine import Interpreter
from ..analysis.memory import returns_nothing
from ..analysis.purity import contains_call_to_keep
from ..expr import (
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ..function import ExternFunc, Function
from ..op.declaration import memory_of
from ..struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .values import (
    Closure,
    EvaluationError,
    ExtentError,
    Gone,
    OperatorError,
    PackedArgument,
    apart,
    arrays,
    computing,
    dense,
    readable,
    received,
    replaced,
    returned,
)

OPERATORS: dict[str, Callable[[Evaluator, Call], Any]] = {}
"""Operators that are no function of arrays: calls, closures, shapes, memory."""

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""External functions that programs call by name and that no one registers."""

FUNCTIONS_WITH_CONTEXT: dict[str, Callable[..., Any]] = {}
"""Those of ``call_builtin_with_ctx`` that call back; they get the evaluator as first argument."""


MOST_NESTED_CALLS = 2000
"""How deep calls of functions nest, as in the virtual machine."""


class Frame:
    """What one call of a function knows: its variables and the values of its symbolic variables."""

    def __init__(self, outer: Frame | None = None, name: str = "a function") -> None:
        self.name = name
        self.values: dict[Any, Any] = dict(outer.values) if outer else {}
        self.symbols: dict[TirVar, Any] = dict(outer.symbols) if outer else {}


class Evaluator:
    """Runs functions of a module; use :func:`evaluate`."""

    def __init__(self, mod: IRModule | None) -> None:
        self.mod = mod
        self.stack: list[Frame] = []
        self._constants: dict[int, tuple[Any, np.ndarray]] = {}
        """What the constants that were read are made of, with their arrays, by the identity of the former."""

    @property
    def frame(self) -> Frame:
        """The frame of the function that runs."""
        return self.stack[-1]

    # -- symbolic shapes ---------------------------------------------------------------------------------------

    def number(self, expr: PrimExpr) -> Any:
        """The value of a scalar expression over symbolic variables."""
        interpreter = Interpreter()
        interpreter.values.update(self.frame.symbols)
        try:
            return interpreter.evaluate(expr)
        except InterpreterError as error:
            known = ", ".join(var.name for var in self.frame.symbols) or "none"
            kind = ExtentError if error.rule == "div-zero" else EvaluationError
            raise kind(
                f"the symbolic expression {expr} has no value ({error}); known symbols: {known}"
            ) from None

    def extents(self, dims: Iterable[PrimExpr]) -> tuple[int, ...]:
        """A shape as numbers."""
        return tuple(int(self.number(dim)) for dim in dims)

    def match(self, declared: Sequence[tuple[StructInfo | None, Any]], what: str) -> None:
        """Give symbolic variables their values, then check that values have the struct info declared for them."""
        for info, value in declared:
            for dim, extent in self._dims(info, value, what):
                if isinstance(dim, TirVar) and dim not in self.frame.symbols:
                    self.frame.symbols[dim] = dt.to_numpy(dim.dtype).type(extent)
        for info, value in declared:
            for dim, extent in self._dims(info, value, what):
                if self.number(dim) != extent:
                    raise EvaluationError(
                        f"{what}: a value of extent {extent} where {info} declares {dim} = {self.number(dim)}"
                    )

    def _dims(self, info: StructInfo | None, value: Any, what: str) -> Iterable[tuple[PrimExpr, Any]]:
        """Pairs of a declared extent and that of the value; the kind of the value is checked on the way."""
        if isinstance(info, TensorStructInfo):
            if not isinstance(value, np.ndarray):
                raise EvaluationError(f"{what}: {info} declared, got a {type(value).__name__}")
            if info.dtype and value.dtype != dt.to_numpy(info.dtype):
                raise EvaluationError(f"{what}: {info} declared, got a tensor of {value.dtype}")
            return self._pairs(info, info.shape_values, info.ndim, value.shape, what)
        if isinstance(info, ShapeStructInfo):
            if not isinstance(value, tuple):
                raise EvaluationError(f"{what}: {info} declared, got a {type(value).__name__}")
            return self._pairs(info, info.values, info.ndim, value, what)
        if isinstance(info, PrimStructInfo):
            if isinstance(value, np.ndarray | list | tuple | str):
                raise EvaluationError(f"{what}: {info} declared, got a {type(value).__name__}")
            return [] if info.value is None else [(info.value, value)]
        if isinstance(info, TupleStructInfo):
            if not isinstance(value, list | tuple) or len(value) != len(info.fields):
                raise EvaluationError(f"{what}: {info} declared, got {type(value).__name__}")
            return [pair for item, part in zip(info.fields, value) for pair in self._dims(item, part, what)]
        return []

    def _pairs(
        self, info: StructInfo, dims: Any, ndim: int, extents: Sequence[int], what: str
    ) -> Iterable[tuple[PrimExpr, Any]]:
        if ndim not in (-1, len(extents)):
            raise EvaluationError(f"{what}: {info} declared, got the extents {tuple(extents)}")
        return [] if dims is None else list(zip(dims, extents, strict=True))

    def conforms(self, info: StructInfo | None, value: Any, what: str) -> Any:
        """The value, checked against the struct info of the call that made it as far as its symbols are known."""
        for dim, extent in self._dims(info, value, what):
            try:
                declared = self.number(dim)
            except EvaluationError:
                continue
            if declared != extent:
                raise EvaluationError(f"{what}: a value of extent {extent} where {info} declares {declared}")
        return value

    # -- functions ---------------------------------------------------------------------------------------------

    def function(self, func: Function, args: Sequence[Any], outer: Frame | None = None) -> Any:
        """Call a function of the module, or a local one, whose variables are then those of ``outer`` too."""
        name = func.attrs.get("global_symbol") or "a function"
        if len(args) != len(func.params):
            raise EvaluationError(f"{name} takes {len(func.params)} arguments, got {len(args)}")
        if len(self.stack) >= MOST_NESTED_CALLS:
            raise EvaluationError(
                f"{name} is called {len(self.stack)} calls deep, which is the limit; does the recursion end?"
            )
        self.stack.append(Frame(outer, name))
        try:
            self.match(
                [(param.struct_info_, arg) for param, arg in zip(func.params, args)], f"call of {name}"
            )
            self.frame.values.update((param.vid, arg) for param, arg in zip(func.params, args))
            result = readable(self.expr(func.body))
            return self.conforms(func.ret_struct_info, result, f"result of {name}")
        finally:
            self.stack.pop()

    def kernel(self, func: PrimFunc, args: Sequence[Any], written: Container[int]) -> Any:
        """Run a kernel on arrays and numbers; only the memory of the arguments in ``written`` may be changed by it."""
        outputs = [arg for index, arg in enumerate(args) if index in written and isinstance(arg, np.ndarray)]

        def only_read(arg: Any) -> bool:
            return isinstance(arg, np.ndarray) and not any(np.may_share_memory(arg, item) for item in outputs)

        passed = [arg.copy() if only_read(arg) else arg for arg in args]
        result = Interpreter(self.mod).call(func, passed)
        for index, (before, after) in enumerate(zip(args, passed)):
            if before is not after and before.tobytes() != after.tobytes():
                raise EvaluationError(
                    f"kernel {self._name_of(func)} writes to its argument {index}, which is no output of the call"
                )
        return result

    def kept_apart(self, func: PrimFunc, args: Sequence[Any], written: Sequence[int]) -> list[Any]:
        """The arguments of a kernel, copies of those that lie in what it writes, unless it says that it takes one array for several."""
        passed = list(args)
        if not func.attrs.get("tir.noalias", True):
            return passed
        for index in written:
            for other, arg in enumerate(passed):
                if other != index and isinstance(arg, np.ndarray) and np.may_share_memory(arg, passed[index]):
                    passed[other] = arg.copy()
        return passed

    def _name_of(self, func: PrimFunc) -> str:
        functions = self.mod.functions.items() if self.mod is not None else ()
        return next((var.name_hint for var, item in functions if item is func), "main")

    def invoke(self, callee: Any, args: Sequence[Any]) -> Any:
        """Call what a value of the program stands for."""
        if isinstance(callee, Closure):
            return self.function(callee.function, [*callee.captured, *args], callee.frame)
        if isinstance(callee, Function):
            return self.function(callee, args)
        if isinstance(callee, PrimFunc):
            result = self.kernel(callee, args, range(len(args)))
            return [] if result is None else result
        if isinstance(callee, ExternFunc):
            return self.packed(callee.global_symbol, args)
        if callable(callee):
            return received(callee(*[self.handed(arg) for arg in args]))
        raise EvaluationError(f"a {type(callee).__name__} is no function")

    def packed(self, name: str, args: Sequence[Any]) -> Any:
        """Call an external function: one of the runtime's, or one that was registered under the name."""
        function = FUNCTIONS.get(name)
        if function is not None:
            return function(*args)
        return received(get_global_func(name)(*[self.handed(arg) for arg in args]))  # type: ignore[misc]

    def handed(self, value: Any) -> Any:
        """A value as a function outside of the program gets it: tuples for lists, something to call for closures."""
        if isinstance(value, np.ndarray):
            return value.view(PackedArgument)
        if isinstance(value, list):
            return tuple(self.handed(item) for item in value)
        if isinstance(value, Closure):
            return lambda *args: self.invoke(value, [received(arg) for arg in args])
        return value

    def overwritten(self, memory: np.ndarray, why: str) -> None:
        """Whatever shares memory with an array cannot be read any more."""
        for frame in self.stack:
            for vid, value in frame.values.items():
                frame.values[vid] = replaced(
                    value, lambda part: Gone(why) if np.may_share_memory(part, memory) else part
                )

    # -- expressions -------------------------------------------------------------------------------------------

    def expr(self, expr: Any) -> Any:
        """The value of an expression."""
        method = _EVALUATE.get(type(expr))
        if method is None:
            raise EvaluationError(f"the evaluator does not know {type(expr).__name__}")
        return method(self, expr)

    def operands(self, exprs: Iterable[Any]) -> list[Any]:
        """The values of expressions, all of them still there."""
        return [readable(self.expr(expr)) for expr in exprs]

    def _variable(self, var: Var) -> Any:
        try:
            return self.frame.values[var.vid]
        except KeyError:
            raise EvaluationError(f"variable {var.name_hint} has no value here") from None

    def _global(self, var: GlobalVar) -> Any:
        if self.mod is None:
            raise EvaluationError(f"a call of {var.name_hint} needs the module; evaluate the module instead")
        return self.mod[var]

    def _constant(self, expr: Constant) -> Any:
        found = self._constants.get(id(expr.data))
        if found is None:
            data = np.asarray(expr.data, order="C").view()
            data.flags.writeable = False
            # What a view or a copy was made of does not live as long as it does, and something else would have its id.
            found = self._constants[id(expr.data)] = (expr.data, data)
        return found[1]

    def writable(self, memory: Any, what: str) -> Any:
        """The array to overwrite for ``memory``: a copy of a constant, which nothing overwrites.

        Raises:
            EvaluationError: it is an array of the caller's that may only be read.
        """
        if not isinstance(memory, np.ndarray) or memory.flags.writeable:
            return memory
        if any(np.may_share_memory(memory, item) for _, item in self._constants.values()):
            return memory.copy()
        raise EvaluationError(f"{what} overwrites an array that may only be read")

    def _item(self, expr: TupleGetItem) -> Any:
        return readable(self.expr(expr.tuple_value)[expr.index])

    def _seq(self, seq: SeqExpr) -> Any:
        for block in seq.blocks:
            for binding in block.bindings:
                self.frame.values[binding.var.vid] = self._bound(binding)
        return self.expr(seq.body)

    def _bound(self, binding: Any) -> Any:
        """The value of a binding; one that may be removed and whose extents have no value is an error where it is used."""
        what = f"binding of {binding.var.name_hint}"
        try:
            value = self.expr(binding.value)
            if isinstance(binding, MatchCast):
                self.match([(binding.struct_info, value)], what)
            return self.conforms(binding.var.struct_info_, value, what)
        except ExtentError as error:
            if isinstance(binding, MatchCast) or contains_call_to_keep(binding.value):
                raise
            return Gone(str(error), ExtentError)
        except OperatorError as error:
            raise error.at(f"{what} in {self.frame.name}") from error.__cause__

    def _if(self, expr: If) -> Any:
        condition = readable(self.expr(expr.cond))
        return self.expr(expr.true_branch if bool(condition) else expr.false_branch)

    def _call(self, call: Call) -> Any:
        if not isinstance(call.op, Op):
            result = self.invoke(self.expr(call.op), self.operands(call.args))
            # A Python function that returns nothing returns None.
            return [] if result is None and returns_nothing(call) else result
        special = OPERATORS.get(call.op.name)
        if special is not None:
            return self.conforms(call.struct_info_, special(self, call), call.op.name)
        reference = call.op.get_attr("FReference")
        if reference is None:
            raise EvaluationError(f"operator {call.op.name} has no numpy reference to evaluate it with")
        args = self.operands(call.args)
        with np.errstate(all="ignore"), computing(call.op.name):
            value = dense(reference(*args, **call.attrs.dict))
        effect = memory_of(call.op).of(call)
        if not effect.unknown:
            value = apart(value, arrays(args), [view.at for view in effect.views])
        return self.conforms(call.struct_info_, value, call.op.name)


_EVALUATE: dict[type, Callable[[Evaluator, Any], Any]] = {
    Call: Evaluator._call,
    Constant: Evaluator._constant,
    DataflowVar: Evaluator._variable,
    DataTypeImm: lambda self, expr: expr.value,
    ExternFunc: lambda self, expr: expr,
    Function: lambda self, expr: Closure(expr, self.frame),
    GlobalVar: Evaluator._global,
    If: Evaluator._if,
    PrimValue: lambda self, expr: self.number(expr.value),
    SeqExpr: Evaluator._seq,
    ShapeExpr: lambda self, expr: self.extents(expr.values),
    StringImm: lambda self, expr: expr.value,
    Tuple: lambda self, expr: [self.expr(item) for item in expr.fields],
    TupleGetItem: Evaluator._item,
    Var: Evaluator._variable,
}


def evaluate(func: Function | IRModule, *args: Any, name: str = "main") -> Any:
    """Run a function (or one of a module) on numpy arrays, numbers, shapes and tuples.

    The arrays are those that the program works on: an in-place call of a parameter changes them.

    Args:
        func: the function, or the module that holds it.
        args: one per parameter.
        name: the function of the module to run.

    Returns:
        An array, number, shape or closure, or a tuple of them.

    Raises:
        EvaluationError: the program breaks one of the rules above.
        InterpreterError: a kernel does something wrong.
    """
    mod = func if isinstance(func, IRModule) else None
    callee = func[name] if isinstance(func, IRModule) else func
    return returned(Evaluator(mod).invoke(callee, [received(arg) for arg in args]))
