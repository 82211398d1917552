"""How the statements of a PrimFunc are read."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...tir import expr as E
from ...tir import operators
from ...tir import stmt as S
from ...tir.analysis.verify_well_formed import assert_calls_fit, verify_well_formed
from ...tir.buffer import Buffer
from ...tir.function import PrimFunc
from ...tir.op import ret as _ret
from ...type import PrimType, Type
from ..ir_builder import tir_frames as F
from ..ir_builder import tir_functions as T
from ..ir_builder.core import Frame, name_value
from ..ir_builder.tir_access import region_as_load
from .core import CHECKS, FUNCTIONS, GLOBAL_CALLS, Parser, statement
from .evaluator import Ambiguous, assign_names, lift, unpack, what_is_no_buffer


class MetaVar:
    """A Python value that an assignment binds as it is: ``x = T.meta_var(value)``."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __iter__(self) -> Any:
        return iter(self.value)


# ---- functions ---------------------------------------------------------------------------------------------------


def annotation_type(value: Any) -> Any:
    """The type that an annotation of a result means."""
    if value is None or isinstance(value, Type):
        return value
    dtype = getattr(value, "dtype", value)
    if isinstance(dtype, str):
        return None if dtype == "void" else PrimType(dtype)
    raise TypeError(f"expected a dtype such as T.int32 or None as result, got {value!r}")


def annotated_param(value: Any) -> Any:
    """The variable or buffer that a parameter's annotation asks for."""
    if isinstance(value, Buffer | E.Var):
        return value
    if callable(value):
        found = value()
        if isinstance(found, Buffer | E.Var):
            return found
    raise TypeError(f"expected T.Buffer(shape, dtype), T.handle, or a dtype such as T.int32, got {value!r}")


def prim_func(parser: Parser, node: ast.FunctionDef, private: bool) -> Any:
    """Read a function definition as a PrimFunc."""
    frame = F.PrimFuncFrame(node.name, private)
    frame.span = parser.source.span(node)
    with parser.at(node), frame, parser.scope("tir"):
        if node.returns is not None:
            with parser.at(node.returns):
                frame.ret_type = annotation_type(parser.eval(node.returns))
        _check_signature(parser, node)
        for item in (*node.args.posonlyargs, *node.args.args):
            if item.annotation is None:
                raise parser.error(
                    item, f'parameter {item.arg!r} needs an annotation, such as T.Buffer((16,), "float32")'
                )
            with parser.at(item.annotation):
                value = annotated_param(parser.eval(item.annotation))
                parser.set(item.arg, T.arg(item.arg, value))
        parser.body(node.body[:-1] if _ends_anyway(node.body[-1]) else node.body)
    return frame.result


def _ends_anyway(last: ast.stmt) -> bool:
    """Whether the last statement of a function is a return of nothing, which says what holds there: it stays schedulable."""
    return isinstance(last, ast.Return) and (
        last.value is None or (isinstance(last.value, ast.Constant) and last.value.value is None)
    )


def _read_function(parser: Parser, node: ast.FunctionDef, options: dict[str, Any]) -> Any:
    return prim_func(parser, node, bool(options.get("private")))


FUNCTIONS["tir"] = _read_function


def _verify_functions(module: IRModule) -> None:
    for func in module.functions.values():
        if isinstance(func, PrimFunc):
            verify_well_formed(func)
    assert_calls_fit(module)


CHECKS.append(_verify_functions)


def _check_signature(parser: Parser, node: ast.FunctionDef) -> None:
    for item in (node.args.vararg, node.args.kwarg, *node.args.kwonlyargs):
        if item is not None:
            raise parser.error(item, f"parameter {item.arg!r}: a prim_func takes positional parameters only")
    if node.args.defaults:
        raise parser.error(node.args.defaults[0], "parameters of a prim_func have no defaults")


@statement("tir", ast.FunctionDef)
def _nested_function(parser: Parser, node: ast.FunctionDef) -> None:
    for decorator in node.decorator_list:
        found = parser.eval(decorator)
        define = getattr(found, "__script_define__", None)
        if define is not None:
            parser.set(node.name, define(parser, node))
            return
    raise parser.error(node, "functions inside a prim_func must be macros: decorate them with @T.macro")


# ---- assignments -------------------------------------------------------------------------------------------------


def bind(parser: Parser, node: Any, name: str, value: Any) -> Any:
    """Bind the value of an assignment to a name: buffers and variables get the name, other expressions a let."""
    if isinstance(value, MetaVar):
        return value.value
    if isinstance(value, list | tuple):
        return type(value)([bind(parser, node, f"{name}_{i}", item) for i, item in enumerate(value)])
    if isinstance(value, Frame):
        return bind_frame(name, value)
    if isinstance(value, Buffer | E.IterVar):
        return name_value(name, value)
    if isinstance(value, E.Var) and not value.name:
        return name_value(name, value)
    if isinstance(value, S.BufferRegion):
        return value
    if isinstance(value, E.PrimExpr | int | float | str):
        frame = T.LetStmt(value)
        return bind_frame(name, frame)
    return value


def bind_frame(name: str, frame: Frame) -> Any:
    """Open a frame for the rest of the body and name what it binds."""
    found = frame.enter_for_rest()
    if isinstance(found, list | tuple):
        return type(found)([name_value(f"{name}_{i}", item) for i, item in enumerate(found)])
    return name_value(name, found)


def _assign(parser: Parser, target: ast.expr, value: Any) -> None:
    if isinstance(target, ast.Name):
        _check_is_new(parser, target, value)
        parser.set(target.id, bind(parser, target, target.id, value))
    elif isinstance(target, ast.Tuple | ast.List):
        if isinstance(value, Frame):
            value = value.enter_for_rest()
        if not isinstance(value, list | tuple | MetaVar):
            raise parser.error(
                target, f"cannot unpack a {type(value).__name__} into {len(target.elts)} names"
            )
        values = value.value if isinstance(value, MetaVar) else value
        for item, part in unpack(parser, target, values):
            _assign(parser, item, MetaVar(part) if isinstance(value, MetaVar) else part)
    elif isinstance(target, ast.Subscript):
        _store(parser, target, value)
    else:
        raise parser.error(
            target, f"cannot assign to a {type(target).__name__}; expected a name or an element of a buffer"
        )


def _forget_hidden(parser: Parser, target: ast.expr) -> None:
    """Behind a loop, refuse the variables that its own hid: their names would mean them again, which they do not in Python."""
    if parser.macro is not None:  # its names are its own
        return
    for item in ast.walk(target):
        if isinstance(item, ast.Name):
            for scope in parser.scopes:
                if _is_variable(scope.get(item.id)):
                    scope[item.id] = Ambiguous(item.id)


def _forget_hidden_inside(parser: Parser, body: list[ast.stmt]) -> None:
    """What a loop repeats runs behind the loops in it, from the second turn on: refuse the variables that these hide in all of it."""
    for statement_inside in body:
        if isinstance(statement_inside, ast.FunctionDef):  # a macro's names are its own
            continue
        if isinstance(statement_inside, ast.For):
            _forget_hidden(parser, statement_inside.target)
        for field in ("body", "orelse"):
            _forget_hidden_inside(parser, getattr(statement_inside, field, []))


def _check_is_new(parser: Parser, target: ast.Name, value: Any) -> None:
    """Refuse an assignment that looks like a change: a variable has one value, and another one of its name would hide it."""
    name = target.id
    known = parser.scopes[-1].get(name)
    if isinstance(known, Buffer | E.PrimExpr) and known is not value and not isinstance(value, MetaVar):
        raise parser.error(target, f"variable {name} is defined in this scope already; {_TO_CHANGE}")
    if _makes_variable(value) and any(_is_variable(scope.get(name)) for scope in parser.scopes[:-1]):
        raise parser.error(
            target,
            f"variable {name} is defined around this scope already, and is not changed here; {_TO_CHANGE}",
        )


_TO_CHANGE = (
    "a variable has one value: for one that changes, store to a buffer of one element, as in"
    ' x = T.alloc_buffer((1,), "int32") and x[0] = x[0] + 1; for a new one, choose another name'
)


def _makes_variable(value: Any) -> bool:
    """Whether to assign a value makes a let, see :func:`bind`."""
    if isinstance(value, E.IterVar) or (isinstance(value, E.Var) and not value.name):
        return False
    return isinstance(value, E.PrimExpr | int | float | str)


def _is_variable(value: Any) -> bool:
    return isinstance(value, E.Var)


def _store(parser: Parser, target: ast.Subscript, value: Any) -> None:
    buffer = parser.eval(target.value)
    index = parser.eval(target.slice)
    if not isinstance(buffer, Buffer):
        raise parser.error(target.value, f"expected a buffer to store to, got {what_is_no_buffer(buffer)}")
    with parser.at(target):
        T.buffer_store(buffer, value, index)


@statement("tir", ast.Assign)
def _assign_stmt(parser: Parser, node: ast.Assign) -> None:
    if len(node.targets) != 1:
        raise parser.error(node, "assign to one target at a time: a = b = c is not supported")
    target = node.targets[0]
    value = parser.eval(node.value)
    if isinstance(value, S.BufferRegion) and isinstance(target, ast.Subscript):
        value = region_as_load(value)
    if value is None and isinstance(target, ast.Subscript):
        raise parser.error(
            node.value, "None is no value that an element can have; expected a number or an expression"
        )
    with parser.at(node):
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, list | tuple):
            if any(isinstance(item, ast.Subscript) for item in ast.walk(target)):
                value = _evaluated_first(parser, target, value)
        _assign(parser, target, value)


def _evaluated_first(parser: Parser, target: ast.expr, value: Any) -> Any:
    """What a tuple assignment stores, bound before its first store: Python evaluates the right side first."""
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, list | tuple):
        ready: list[Any] = []
        for written, (item, part) in zip(target.elts, unpack(parser, target, value), strict=True):
            found = _evaluated_first(parser, item, part)
            ready.extend(found if isinstance(written, ast.Starred) else [found])
        return ready
    if isinstance(value, list | tuple):  # what a starred name takes
        return [_evaluated_first(parser, target, part) for part in value]
    found = lift(value)
    if not isinstance(found, E.PrimExpr) or isinstance(found, (E.Var, *E.IMMEDIATES)):
        return value
    if not isinstance(target, ast.Name):
        return bind_frame("value", T.LetStmt(found))
    _check_is_new(parser, target, found)
    return MetaVar(bind_frame(target.id, T.LetStmt(found)))


@statement("tir", ast.AugAssign)
def _aug_assign(parser: Parser, node: ast.AugAssign) -> None:
    target = node.target
    load: Any
    if isinstance(target, ast.Subscript):
        load = ast.Subscript(value=target.value, slice=target.slice, ctx=ast.Load())
    elif isinstance(target, ast.Name):
        load = ast.Name(id=target.id, ctx=ast.Load())
    else:
        raise parser.error(target, "expected a name or an element of a buffer")
    ast.copy_location(load, target)
    expression = ast.copy_location(ast.BinOp(left=load, op=node.op, right=node.value), node)
    value = parser.eval(expression)
    with parser.at(node):
        _assign(parser, target, value)


@statement("tir", ast.AnnAssign)
def _ann_assign(parser: Parser, node: ast.AnnAssign) -> None:
    if node.value is None:
        raise parser.error(node, "a declaration needs a value")
    if not isinstance(node.target, ast.Name):
        raise parser.error(node.target, "expected a name")
    value = parser.eval(node.value)
    with parser.at(node.annotation):
        var = annotated_param(parser.eval(node.annotation))
        if not isinstance(var, E.Var):
            raise parser.error(node.annotation, "expected the annotation of a variable, such as T.int32")
    if isinstance(value, Frame):
        parser.set(node.target.id, bind_frame(node.target.id, value))
        return
    with parser.at(node):
        found = lift(value)
        if not isinstance(found, E.PrimExpr) and not isinstance(found, str):
            found = operators.const(found, var.dtype)
        if (
            isinstance(found, E.PrimExpr)
            and found.dtype != var.dtype
            and "handle" not in (found.dtype, var.dtype)
        ):
            raise TypeError(
                f"{node.target.id} is declared {var.dtype}, but its value is {found.dtype}; convert the value, as in"
                f' T.Cast("{var.dtype}", ...), or declare it {found.dtype}'
            )
        _check_is_new(parser, node.target, found)
        parser.set(node.target.id, bind_frame(node.target.id, T.LetStmt(found, var=var)))


# ---- control flow ------------------------------------------------------------------------------------------------


def _iterable(parser: Parser, node: ast.expr) -> Any:
    """The loop frame of a for statement; Python's ``range`` is a serial loop."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        if parser.lookup("range") is range:
            args = [parser.eval(item) for item in node.args]
            with parser.at(node):
                if len(args) == 3:
                    return _stepped(args)
                return T.serial(
                    *args, **{item.arg: parser.eval(item.value) for item in node.keywords if item.arg}
                )
    return parser.eval(node)


def _stepped(args: list[Any]) -> Any:
    if isinstance(args[2], int) and args[2] == 1:
        return T.serial(args[0], args[1])
    raise ValueError("range with a step is not supported; scale the index in the body instead")


@statement("tir", ast.For)
def _for(parser: Parser, node: ast.For) -> None:
    frame = _iterable(parser, node.iter)
    if not isinstance(frame, F.ForFrame):
        raise parser.error(
            node.iter,
            f"expected a loop such as range, T.serial, T.grid, T.parallel, T.vectorized, T.unroll or T.thread_binding,"
            f" got a {type(frame).__name__}",
        )
    if node.orelse:
        raise parser.error(node.orelse[0], "for loops have no else in a prim_func")
    _forget_hidden_inside(parser, node.body)
    with frame as variables, parser.scope():
        target = node.target
        if isinstance(target, ast.Tuple | ast.List) and frame.single:
            raise parser.error(target, f"expected one loop variable, got {len(target.elts)}")
        if isinstance(target, ast.Name) and not frame.single:
            if len(variables) == 1:
                variables = variables[0]
                parser.set(target.id, name_value(target.id, variables))
            else:
                parser.set(
                    target.id, [name_value(f"{target.id}_{i}", var) for i, var in enumerate(variables)]
                )
        else:
            _name_targets(parser, target, variables)
            assign_names(parser, target, variables)
        parser.body(node.body)
    _forget_hidden(parser, node.target)


def _name_targets(parser: Parser, target: ast.expr, value: Any) -> None:
    if isinstance(target, ast.Name):
        if isinstance(value, list | tuple):
            for position, item in enumerate(value):
                name_value(f"{target.id}_{position}", item)
        else:
            name_value(target.id, value)
    elif isinstance(target, ast.Tuple | ast.List):
        if not isinstance(value, list | tuple):
            raise parser.error(
                target, f"cannot unpack a {type(value).__name__} into {len(target.elts)} names"
            )
        for item, part in unpack(parser, target, value):
            _name_targets(parser, item, part)


@statement("tir", ast.While)
def _while(parser: Parser, node: ast.While) -> None:
    if node.orelse:
        raise parser.error(node.orelse[0], "while loops have no else in a prim_func")
    _forget_hidden_inside(parser, node.body)
    condition = lift(parser.eval(node.test))
    with parser.at(node.test):
        frame = T.While(condition)
    with frame, parser.scope():
        parser.body(node.body)


@statement("tir", ast.If)
def _if(parser: Parser, node: ast.If) -> None:
    condition = lift(parser.eval(node.test))
    if not isinstance(condition, E.PrimExpr):  # decided while reading
        parser.body(node.body if condition else node.orelse)
        return
    with parser.at(node.test):
        frame = T.If(condition)
    with frame:
        with T.Then(), parser.scope():
            parser.body(node.body)
        if node.orelse:
            with T.Else(), parser.scope():
                parser.body(node.orelse)


@statement("tir", ast.With)
def _with(parser: Parser, node: ast.With) -> None:
    _with_items(parser, node, list(node.items))


def _with_items(parser: Parser, node: ast.With, items: list[ast.withitem]) -> None:
    if not items:
        parser.body(node.body)
        return
    item = items[0]
    frame = parser.eval(item.context_expr)
    if not isinstance(frame, Frame):
        called = ast.unparse(item.context_expr)
        if inspect.isroutine(frame):
            raise parser.error(
                item.context_expr,
                f"expected a scope, got the function {called}; call it, as in {called}(...)",
            )
        raise parser.error(
            item.context_expr,
            f"expected a scope such as T.block, T.init or T.allocate, got a {type(frame).__name__}",
        )
    with parser.at(item.context_expr), frame as value, parser.scope():
        if item.optional_vars is not None:
            if isinstance(frame, F.BlockFrame):
                raise parser.error(
                    item.optional_vars, "T.block binds nothing; its axes are made with T.axis in the body"
                )
            _name_targets(parser, item.optional_vars, value)
            assign_names(parser, item.optional_vars, value)
        _with_items(parser, node, items[1:])


@statement("tir", ast.Assert)
def _assert(parser: Parser, node: ast.Assert) -> None:
    condition = lift(parser.eval(node.test))
    message = "" if node.msg is None else parser.eval(node.msg)
    if node.msg is not None and not isinstance(message, str | E.StringImm):
        raise parser.error(node.msg, f"the message of an assert is a text in quotes, got {message}")
    T.Assert(condition, message).enter_for_rest()


@statement("tir", ast.Return)
def _return(parser: Parser, node: ast.Return) -> None:
    if parser.macro is not None:
        raise parser.error(
            node,
            f"a return in macro {parser.macro!r} would end the function that uses it; guard the rest of the macro with if,"
            " or write the return where the macro is used",
        )
    value = None if node.value is None else lift(parser.eval(node.value))
    if isinstance(value, Buffer):
        raise parser.error(
            node,
            f"a prim_func returns a number or nothing, got buffer {value.name}; its results are stored to buffers that are parameters",
        )
    with parser.at(node):
        T.evaluate(_ret(value))


@statement("tir", ast.Pass)
def _pass(parser: Parser, node: ast.Pass) -> None:
    return None


@statement("tir", ast.Expr)
def _expr(parser: Parser, node: ast.Expr) -> None:
    value = parser.eval(node.value)
    if value is None or isinstance(value, str):  # a declaration such as T.reads, or a docstring
        return
    if isinstance(value, Frame):
        value.enter_for_rest()
    elif isinstance(value, S.Stmt):
        F.emit(value)
    elif isinstance(value, E.PrimExpr | int | float | S.BufferRegion):
        if not isinstance(node.value, ast.Call):
            raise parser.error(node, _does_nothing(node.value))
        T.evaluate(value)
    elif isinstance(value, list | tuple) and not value:
        return
    else:
        raise parser.error(
            node, f"a {type(value).__name__} is no statement; expected a call or an assignment"
        )


def _does_nothing(expression: ast.expr) -> str:
    text = ast.unparse(expression)
    if isinstance(expression, ast.Compare) and isinstance(expression.ops[0], ast.Eq):
        stored = f"{ast.unparse(expression.left)} = {ast.unparse(expression.comparators[0])}"
        return f"{text} compares and does nothing with the answer; to store, write {stored}, to demand it, assert {text}"
    return f"{text} is computed and nothing is done with it; store it, as in A[0] = {text}, or write T.evaluate({text})"


def _call_function(parser: Parser, var: GlobalVar, args: list[Any]) -> E.Call:
    """A call of another function of the module."""
    ret_type = parser.functions.get(var)
    dtype = ret_type.dtype if isinstance(ret_type, PrimType) else "void"
    return E.Call(dtype, var, [lift(item) for item in args])


GLOBAL_CALLS["tir"] = _call_function
