"""Evaluation of expressions in scripts: Python's, with conditions that build nodes instead of deciding.

Each kind of syntax node has one function in :data:`EVALUATORS`. Names are looked up in the scopes of the script, then in
what surrounded the script in the Python program. Whatever fails is reported at the syntax node that failed.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from ...error import DiagnosticError, IRError, IRTypeError, IRValueError, did_you_mean
from ...expr import GlobalVar, RelaxExpr
from ...tir import expr as E
from ...tir import operators
from ...tir.buffer import Buffer
from ...tir.op import if_then_else
from ...tir.stmt import BufferRegion
from ..ir_builder.tir_access import region_as_load, subscript
from .comparison import DECIDING, check_compares_nothing, compare_pair, has_expression, is_undecided
from .source import Source

EVALUATORS: dict[type, Callable[[Any, Any], Any]] = {}
_MISSING = object()


def evaluates(*kinds: type) -> Callable[[Any], Any]:
    """Register the evaluation of kinds of syntax nodes: ``(evaluator, node) -> value``."""

    def register(function: Any) -> Any:
        for kind in kinds:
            EVALUATORS[kind] = function
        return function

    return register


class Evaluator:
    """Scopes of variables, and the values of expressions in them.

    Args:
        source: where the syntax nodes come from.
        outer: the mappings around the script, innermost first: locals, globals.
    """

    def __init__(self, source: Source, outer: Sequence[Mapping[str, Any]]) -> None:
        self.source = source
        self.outer = [*outer, vars(builtins)]
        self.scopes: list[dict[str, Any]] = [{}]
        self.ended: list[dict[str, str]] = [{}]
        """For each scope, by name that an ended scope in it has taken along: what to do about that, for the message of a use."""

    def lookup(self, name: str, default: Any = _MISSING) -> Any:
        """The value of a name; raises NameError with the nearest known name."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        for mapping in self.outer:
            if name in mapping:
                return mapping[name]
        if default is not _MISSING:
            return default
        for ended in reversed(self.ended):
            if name in ended:
                raise NameError(f"name {name!r} is not defined here; {ended[name]}")
        known = [key for scope in (*self.scopes, *self.outer[:-1]) for key in scope]
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise NameError(f"name {name!r} is not defined{hint}")

    def set(self, name: str, value: Any) -> None:
        """Bind a name in the innermost scope."""
        self.scopes[-1][name] = value

    def eval(self, node: ast.AST) -> Any:
        """The value of an expression; failures become a DiagnosticError at the node."""
        try:
            return EVALUATORS[node.__class__](self, node)
        except DiagnosticError:
            raise
        except KeyError as error:
            if node.__class__ in EVALUATORS:
                raise self.error(node, _describe(error)) from error
            raise self.error(
                node, f"{type(node).__name__} expressions are not supported in scripts"
            ) from None
        except Exception as error:
            # A script may call any Python function; its failure is reported at its place.
            raise self.error(node, _describe(error)) from error

    def error(self, node: Any, message: str) -> DiagnosticError:
        """An error at a syntax node."""
        return self.source.error(node, message)

    def call(self, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call what a script calls; the parser overrides it for what needs the parser."""
        return function(*args, **kwargs)


def _describe(error: BaseException) -> str:
    if isinstance(error, IRError | NameError):
        return str(error)
    return f"{type(error).__name__}: {error}"


class Ambiguous:
    """Stands in a scope for a variable that a loop variable of its name has hidden, behind that loop and in what repeats it."""

    def __init__(self, name: str) -> None:
        self.name = name


class ScriptFunction:
    """A lambda of a script as a Python function, evaluated by the script's rules."""

    def __init__(self, evaluator: Evaluator, node: ast.Lambda) -> None:
        self._evaluator, self._node = evaluator, node
        self._scopes = list(evaluator.scopes)
        args = node.args
        self.params = [item.arg for item in (*args.posonlyargs, *args.args)]
        self._variadic = args.vararg.arg if args.vararg else None
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(name, kind) for name in self.params]
        if self._variadic:
            parameters.append(inspect.Parameter(self._variadic, inspect.Parameter.VAR_POSITIONAL))
        self.__signature__ = inspect.Signature(parameters)
        self.__name__ = "<lambda>"

    def __call__(self, *args: Any) -> Any:
        evaluator = self._evaluator
        scope = dict(zip(self.params, args, strict=False))
        if self._variadic:
            scope[self._variadic] = args[len(self.params) :]
        elif len(args) != len(self.params):
            raise TypeError(f"the lambda takes {len(self.params)} arguments, got {len(args)}")
        saved = evaluator.scopes
        evaluator.scopes = [*self._scopes, scope]
        try:
            return evaluator.eval(self._node.body)
        finally:
            evaluator.scopes = saved


@evaluates(ast.Constant)
def _constant(evaluator: Evaluator, node: ast.Constant) -> Any:
    return node.value


@evaluates(ast.Name)
def _name(evaluator: Evaluator, node: ast.Name) -> Any:
    found = evaluator.lookup(node.id)
    if found.__class__ is Ambiguous:
        raise IRValueError(
            f"{node.id} is a variable that a loop variable of this name has hidden, above or in an earlier turn of a loop around: here it"
            " would mean the first one, and in Python the last iteration's; give the loop variable another name"
        )
    return found


@evaluates(ast.Attribute)
def _attribute(evaluator: Evaluator, node: ast.Attribute) -> Any:
    value = evaluator.eval(node.value)
    try:
        return getattr(value, node.attr)
    except AttributeError as error:
        if isinstance(value, ModuleType) or hasattr(
            type(value), "__getattr__"
        ):  # these have messages of their own
            raise
        known = [name for name in dir(value) if not name.startswith("_")]
        raise AttributeError(
            f"{ast.unparse(node.value)} has no {node.attr!r}{did_you_mean(node.attr, known)}"
        ) from error


@evaluates(ast.Tuple)
def _tuple(evaluator: Evaluator, node: ast.Tuple) -> Any:
    return tuple(_elements(evaluator, node.elts))


@evaluates(ast.List)
def _list(evaluator: Evaluator, node: ast.List) -> Any:
    return _elements(evaluator, node.elts)


@evaluates(ast.Set)
def _set(evaluator: Evaluator, node: ast.Set) -> Any:
    return _set_of(_elements(evaluator, node.elts))


def _set_of(values: list[Any]) -> set[Any]:
    """A set, which drops equal values: of what is not known yet, nothing tells which are equal."""
    if has_expression(values):
        raise IRTypeError(
            "which elements of a set are equal is not known while the program is read, where one is an expression of the program;"
            " write a list"
        )
    return set(values)


def _elements(evaluator: Evaluator, nodes: Sequence[ast.expr]) -> list[Any]:
    found: list[Any] = []
    for item in nodes:
        if item.__class__ is ast.Starred:
            found.extend(evaluator.eval(item.value))  # type: ignore[attr-defined]
        else:
            found.append(evaluator.eval(item))
    return found


@evaluates(ast.Dict)
def _dict(evaluator: Evaluator, node: ast.Dict) -> Any:
    found: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            found.update(evaluator.eval(value))
        else:
            found[evaluator.eval(key)] = evaluator.eval(value)
    return found


@evaluates(ast.Call)
def _call(evaluator: Evaluator, node: ast.Call) -> Any:
    function = evaluator.eval(node.func)
    args = _elements(evaluator, node.args)
    kwargs: dict[str, Any] = {}
    for item in node.keywords:
        if item.arg is None:
            kwargs.update(evaluator.eval(item.value))
        else:
            kwargs[item.arg] = evaluator.eval(item.value)
    decide = DECIDING.get(id(function))
    if decide is not None and has_expression(args):
        return decide(*args)
    check_compares_nothing(function, args)
    return evaluator.call(node, function, args, kwargs)


@evaluates(ast.Subscript)
def _subscript(evaluator: Evaluator, node: ast.Subscript) -> Any:
    value = evaluator.eval(node.value)
    index = evaluator.eval(node.slice)
    if value.__class__ is Buffer:
        return subscript(value, index)
    if isinstance(value, E.Var):
        raise IRTypeError(f"expected a buffer to read, got {what_is_no_buffer(value)}")
    return value[index]


def what_is_no_buffer(value: Any) -> str:
    """What stands where a buffer belongs, for a message; a handle's says how it becomes one."""
    if not isinstance(value, E.Var):
        return f"a {type(value).__name__}"
    if value.dtype != "handle":
        return f"the {value.dtype} variable {value.name}"
    return f'the handle {value.name}; say what it points to, as in B = T.match_buffer({value.name}, (16,), "float32")'


@evaluates(ast.Slice)
def _slice(evaluator: Evaluator, node: ast.Slice) -> Any:
    lower = None if node.lower is None else evaluator.eval(node.lower)
    upper = None if node.upper is None else evaluator.eval(node.upper)
    return slice(lower, upper, None if node.step is None else evaluator.eval(node.step))


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}


def lift(value: Any) -> Any:
    """A region where a value is wanted is a vector load."""
    return region_as_load(value) if value.__class__ is BufferRegion else value


def _check_operand(value: Any) -> Any:
    if value.__class__ is BufferRegion:
        return region_as_load(value)
    if value.__class__ is Buffer:
        raise TypeError(
            f"buffer {value.name or '(unnamed)'} is no value; read an element, as in {value.name or 'A'}[i]"
        )
    return value


@evaluates(ast.BinOp)
def _binary(evaluator: Evaluator, node: ast.BinOp) -> Any:
    left, right = _check_operand(evaluator.eval(node.left)), _check_operand(evaluator.eval(node.right))
    return _OPERATORS[node.op.__class__](left, right)


@evaluates(ast.UnaryOp)
def _unary(evaluator: Evaluator, node: ast.UnaryOp) -> Any:
    value = _check_operand(evaluator.eval(node.operand))
    kind = node.op.__class__
    if kind is ast.Not:
        return operators.logical_not(value) if isinstance(value, E.PrimExpr) else not value
    if kind is ast.USub:
        return -value
    return ~value if kind is ast.Invert else +value


@evaluates(ast.BoolOp)
def _bool_op(evaluator: Evaluator, node: ast.BoolOp) -> Any:
    conjunction = node.op.__class__ is ast.And
    combine = operators.logical_and if conjunction else operators.logical_or
    result = lift(evaluator.eval(node.values[0]))
    for item in node.values[1:]:
        if isinstance(result, E.PrimExpr):
            result = combine(result, lift(evaluator.eval(item)))
        elif bool(result) == conjunction:
            result = lift(evaluator.eval(item))
        else:
            return result
    return result


@evaluates(ast.Compare)
def _compare(evaluator: Evaluator, node: ast.Compare) -> Any:
    left = lift(evaluator.eval(node.left))
    result: Any = None
    for operation, item in zip(node.ops, node.comparators, strict=True):
        right = (
            _elements(evaluator, item.elts)
            if isinstance(item, ast.Set) and isinstance(operation, ast.In | ast.NotIn)
            else lift(evaluator.eval(item))
        )
        found = compare_pair(operation, left, right)
        if result is None:
            result = found
        elif isinstance(result, E.PrimExpr) or isinstance(found, E.PrimExpr):
            result = operators.logical_and(result, found)
        else:
            result = result and found
        left = right
    return result


@evaluates(ast.IfExp)
def _if_exp(evaluator: Evaluator, node: ast.IfExp) -> Any:
    condition = lift(evaluator.eval(node.test))
    if isinstance(condition, E.PrimExpr):
        return if_then_else(condition, lift(evaluator.eval(node.body)), lift(evaluator.eval(node.orelse)))
    if isinstance(condition, RelaxExpr) and not isinstance(condition, GlobalVar):
        raise IRTypeError(
            "a Relax value decides only in an if statement, not in a conditional expression; choose elements with R.where"
        )
    return evaluator.eval(node.body if condition else node.orelse)


@evaluates(ast.Lambda)
def _lambda(evaluator: Evaluator, node: ast.Lambda) -> Any:
    return ScriptFunction(evaluator, node)


def _generate(
    evaluator: Evaluator, generators: Sequence[ast.comprehension], produce: Callable[[], None]
) -> None:
    """Run a comprehension's loops, in a scope of their own."""
    if not generators:
        produce()
        return
    first = generators[0]
    for value in evaluator.eval(first.iter):
        assign_names(evaluator, first.target, value)
        if all(_decided(evaluator, test) for test in first.ifs):
            _generate(evaluator, generators[1:], produce)


def _decided(evaluator: Evaluator, test: ast.expr) -> Any:
    """The condition of a comprehension, which chooses while the program is read."""
    value = evaluator.eval(test)
    if is_undecided(value):
        raise evaluator.error(
            test,
            "the condition of a comprehension must be known while the program is read; choose with T.if_then_else",
        )
    return value


def unpack(evaluator: Evaluator, target: Any, value: Any) -> list[tuple[ast.expr, Any]]:
    """The targets of a tuple assignment with their values; a starred target takes a list."""
    values, targets = list(value), list(target.elts)
    starred = [position for position, item in enumerate(targets) if isinstance(item, ast.Starred)]
    if starred and len(values) >= len(targets) - 1:
        first = starred[0]
        last = first + len(values) - len(targets) + 1
        values = [*values[:first], values[first:last], *values[last:]]
        targets[first] = targets[first].value
    elif len(values) != len(targets):
        raise evaluator.error(target, f"expected {len(targets)} values, got {len(values)}")
    return list(zip(targets, values, strict=True))


def assign_names(evaluator: Evaluator, target: ast.expr, value: Any) -> None:
    """Bind plain Python values to names, tuples of names included."""
    if isinstance(target, ast.Name):
        evaluator.set(target.id, value)
    elif isinstance(target, ast.Tuple | ast.List):
        for item, part in unpack(evaluator, target, value):
            assign_names(evaluator, item, part)
    else:
        raise evaluator.error(target, f"cannot assign to a {type(target).__name__} here; expected a name")


@evaluates(ast.ListComp, ast.GeneratorExp, ast.SetComp)
def _comprehension(evaluator: Evaluator, node: Any) -> Any:
    found: list[Any] = []
    evaluator.scopes.append({})
    try:
        _generate(evaluator, node.generators, lambda: found.append(evaluator.eval(node.elt)))
    finally:
        evaluator.scopes.pop()
    return _set_of(found) if isinstance(node, ast.SetComp) else found


@evaluates(ast.DictComp)
def _dict_comprehension(evaluator: Evaluator, node: ast.DictComp) -> Any:
    found: dict[Any, Any] = {}

    def produce() -> None:
        found[evaluator.eval(node.key)] = evaluator.eval(node.value)

    evaluator.scopes.append({})
    try:
        _generate(evaluator, node.generators, produce)
    finally:
        evaluator.scopes.pop()
    return found


@evaluates(ast.JoinedStr)
def _joined(evaluator: Evaluator, node: ast.JoinedStr) -> Any:
    return "".join([str(evaluator.eval(item)) for item in node.values])


_CONVERSIONS: dict[int, Callable[[Any], Any]] = {115: str, 114: repr, 97: ascii, -1: lambda value: value}


@evaluates(ast.FormattedValue)
def _formatted(evaluator: Evaluator, node: ast.FormattedValue) -> Any:
    value = evaluator.eval(node.value)
    if isinstance(value, E.PrimExpr) and not isinstance(value, E.IMMEDIATES):
        raise evaluator.error(
            node.value,
            f"{value} has no value while the program is read, which is when an f-string is made; write the text without it",
        )
    value = _CONVERSIONS[node.conversion](value)
    return format(value, evaluator.eval(node.format_spec) if node.format_spec else "")
