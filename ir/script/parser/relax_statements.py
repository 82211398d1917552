"""How the statements of a Relax function are read: bindings through a block builder, which infers struct infos on the way."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ...attrs import DictAttrs
from ...error import IRTypeError
from ...expr import GlobalVar, RelaxExpr
from ...relax import expr as X
from ...relax.analysis.well_formed import check_well_formed
from ...relax.block_builder import BlockBuilder
from ...relax.function import Function
from ...relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ...relax.struct_info_lattice import BaseCheckResult, struct_info_base_check
from ...tir import expr as E
from ..ir_builder.core import IRBuilder, name_value
from .core import ARGUMENTS, CHECKS, FUNCTIONS, GLOBAL_CALLS, Parser, statement
from .functions import function_decorator
from .struct_info import Deferred, StructInfoFactory, as_struct_info, resolved


class MatchCastValue:
    """What ``R.match_cast`` gives: the binding is made by the assignment."""

    def __init__(self, value: Any, struct_info: Any) -> None:
        self.value, self.struct_info = value, struct_info


class DataflowScope:
    """What ``R.dataflow()`` gives."""


class FunctionState:
    """The function being read: its symbolic variables, finished blocks, attributes and result."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self.symbols: dict[str, Any] = {}
        self.attrs: dict[str, Any] = {}
        self.blocks: list[X.BindingBlock] = []
        self.output: Any = None
        self.returned = False
        self.in_branch = 0
        self.dataflow: dict[str, int] | None = None
        """Inside a dataflow block: how many assignments of each output name are left, its last one is visible outside."""


def state_of(parser: Parser) -> FunctionState:
    """The state of the function being read."""
    return parser.states[-1]


# ---- struct infos ------------------------------------------------------------------------------------------------


def symbol(parser: Parser, name: str) -> Any:
    """The symbolic variable of a name in a quoted extent; made when nothing has that name."""
    for state in reversed(parser.states):
        if name in state.symbols:
            return state.symbols[name]
    found = parser.lookup(name, None)
    if isinstance(found, E.PrimExpr):
        return found
    made = state_of(parser).symbols[name] = E.Var(name, "int64")
    return made


def struct_info(parser: Parser, node: ast.expr) -> StructInfo:
    """The struct info that an annotation means."""
    value = parser.eval(node)
    with parser.at(node):
        found = resolved(as_struct_info(value), lambda name: symbol(parser, name))
        if not isinstance(found, StructInfo):
            raise TypeError(f"expected a struct info such as R.Tensor, got {value!r}")
        return found


def _resolve_arguments(
    parser: Parser, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Struct infos with quoted extents among arguments (``out_sinfo=R.Tensor(("n",))``), unless they build another one."""
    if not parser.states or not _mentions_deferred((*args, *kwargs.values())):
        return args, kwargs
    return (
        [_resolve_argument(parser, item) for item in args],
        {key: _resolve_argument(parser, item) for key, item in kwargs.items()},
    )


ARGUMENTS["relax"] = _resolve_arguments


def _mentions_deferred(values: Any) -> bool:
    for item in values:
        if isinstance(item, Deferred | StructInfoFactory):
            return True
        if isinstance(item, list | tuple) and _mentions_deferred(item):
            return True
    return False


def _resolve_argument(parser: Parser, value: Any) -> Any:
    if isinstance(value, Deferred):
        return value.resolve(lambda name: symbol(parser, name))
    if isinstance(value, StructInfoFactory):
        return value()
    if isinstance(value, list):
        return [_resolve_argument(parser, item) for item in value]
    if isinstance(value, tuple):
        return tuple([_resolve_argument(parser, item) for item in value])
    return value


# ---- functions ---------------------------------------------------------------------------------------------------


def builder_of(parser: Parser) -> BlockBuilder:
    """The block builder of the module being read."""
    if parser.block_builder is None:
        parser.block_builder = BlockBuilder()
    return parser.block_builder


def signature(parser: Parser, node: ast.FunctionDef) -> tuple[list[X.Var], StructInfo | None]:
    """The parameters and the declared result of a function."""
    for item in (node.args.vararg, node.args.kwarg, *node.args.kwonlyargs):
        if item is not None:
            raise parser.error(
                item, f"parameter {item.arg!r}: a Relax function takes positional parameters only"
            )
    params = []
    for item in (*node.args.posonlyargs, *node.args.args):
        if item.annotation is None:
            raise parser.error(
                item, f'parameter {item.arg!r} needs an annotation, such as R.Tensor((2, 3), "float32")'
            )
        params.append(X.Var(item.arg, struct_info(parser, item.annotation)))
    returns = node.returns
    return params, None if returns is None else struct_info(parser, returns)


def declare_function(parser: Parser, node: ast.FunctionDef, is_pure: bool) -> FuncStructInfo:
    """The struct info of a function before its body is read."""
    builder = builder_of(parser)
    parser.states.append(FunctionState(builder))
    try:
        with parser.scope("relax"):
            params, ret = signature(parser, node)
    finally:
        parser.states.pop()
    return FuncStructInfo([param.struct_info_ for param in params], ret or ObjectStructInfo(), is_pure)


def relax_function(
    parser: Parser, node: ast.FunctionDef, private: bool = False, pure: bool = True, local: bool = False
) -> Function:
    """Read a function definition."""
    builder = builder_of(parser)
    state = FunctionState(builder)
    parser.states.append(state)
    depth = len(builder._blocks), len(builder._scopes)
    try:
        with parser.scope("relax"):
            params, ret = signature(parser, node)
            for param in params:
                parser.set(param.name_hint, param)
            if local:
                builder.begin_inner_scope()
                known = builder._scopes.pop()
                builder.begin_scope(params)
                builder._scopes[-1].update(known)
            else:
                builder.begin_scope(params)
            builder._begin_binding_block()
            parser.body(node.body)
            if not state.returned:
                raise parser.error(node, f"function {node.name!r} must end with a return statement")
            _finish_block(state)
            with parser.at(node):
                seq = builder.normalize(X.SeqExpr(state.blocks, state.output))
                builder.end_scope()
                if ret is not None:
                    _check_result(parser, node, seq, ret)
                attrs = dict(state.attrs)
                if private and "global_symbol" in attrs:
                    raise ValueError(f"function {node.name!r} is private, but sets global_symbol")
                if not private and not local and "global_symbol" not in attrs:
                    attrs["global_symbol"] = node.name
                span = parser.source.span(node)
                return Function(params, seq, ret, pure, DictAttrs(attrs), span)
    finally:
        parser.states.pop()
        del builder._blocks[depth[0] :], builder._scopes[depth[1] :]


def _read_function(parser: Parser, node: ast.FunctionDef, options: dict[str, Any]) -> Function:
    return relax_function(parser, node, bool(options.get("private")), bool(options.get("pure", True)))


FUNCTIONS["relax"] = _read_function
CHECKS.append(check_well_formed)


def _check_result(parser: Parser, node: ast.FunctionDef, seq: X.SeqExpr, ret: StructInfo) -> None:
    info = seq.body.struct_info_
    if (
        info is not None
        and struct_info_base_check(ret, info) < BaseCheckResult.FAIL_L1
        and node.returns is not None
    ):
        raise parser.error(node.returns, f"the function is declared to return {ret}, but it returns {info}")


def _finish_block(state: FunctionState) -> None:
    block = state.builder._end_block()
    if block.bindings:
        state.blocks.append(block)


@statement("relax", ast.FunctionDef)
def _local_function(parser: Parser, node: ast.FunctionDef) -> None:
    for decorator in node.decorator_list:
        define = getattr(parser.eval(decorator), "__script_define__", None)
        if define is not None:  # a macro
            parser.set(node.name, define(parser, node))
            return
    dialect, options = function_decorator(parser, node)
    if dialect != "relax":
        raise parser.error(
            node, f"function {node.name!r} inside a Relax function needs the decorator R.function"
        )
    pure = bool(options.get("pure", True))
    if node.returns is not None:  # it may call itself
        var = _new_var(parser, node.name, declare_function(parser, node, pure))
        with parser.scope():
            parser.set(node.name, var)
            func = relax_function(parser, node, pure=pure, local=True)
    else:
        func = relax_function(parser, node, pure=pure, local=True)
        var = _new_var(parser, node.name, func.struct_info)
    builder = state_of(parser).builder
    builder.emit_normalized(X.VarBinding(var, func))
    parser.set(node.name, var)


# ---- bindings ----------------------------------------------------------------------------------------------------


def _new_var(parser: Parser, name: str, info: StructInfo | None) -> X.Var:
    """The variable of a binding: visible outside of a dataflow block only when it is an output."""
    outputs = state_of(parser).dataflow
    left = 1
    if outputs is not None:
        left = outputs.get(name, 0)
        outputs[name] = left - 1
    var = X.Var(name, info) if left == 1 else X.DataflowVar(name, info)
    IRBuilder.current().locate(var)
    return var


def as_expr(value: Any) -> RelaxExpr:
    """What an assignment's value stands for."""
    if isinstance(value, RelaxExpr):
        return value
    if isinstance(value, bool | int | float | np.generic | np.ndarray):
        return X.const(value)
    if isinstance(value, tuple | list):
        return X.Tuple([as_expr(item) for item in value])
    if isinstance(value, E.PrimExpr | str):
        return X.convert_to_expr(value)
    raise TypeError(f"a {type(value).__name__} is no Relax value: {value!r}")


def emit(parser: Parser, node: Any, name: str, value: Any, info: StructInfo | None = None) -> X.Var:
    """Bind a value to a new variable."""
    state = state_of(parser)
    builder = state.builder
    if isinstance(value, MatchCastValue):
        found = builder._normalizer.argument(as_expr(value.value))
        if not isinstance(found, X.Var | X.Constant | X.Tuple | X.ShapeExpr | X.PrimValue):
            found = builder.emit(found)
        var = _new_var(parser, name, info or value.struct_info)
        builder.emit_normalized(X.MatchCast(var, found, value.struct_info))
        return var
    found = builder.normalize(as_expr(value))
    while isinstance(found, X.SeqExpr):
        for block in found.blocks:
            for binding in block.bindings:
                builder.emit_normalized(binding)
        found = found.body
    inferred = found.struct_info_
    if info is not None and inferred is not None and inferred is not info:
        if struct_info_base_check(info, inferred) < BaseCheckResult.FAIL_L1:
            raise parser.error(node, f"{name} is declared {info}, but its value has {inferred}")
    var = _new_var(parser, name, info or inferred)
    builder.emit_normalized(X.VarBinding(var, found))
    return var


def _bind_symbol(parser: Parser, node: Any, name: str, value: E.Var) -> Any:
    """``n = T.int64()``: the variable that the signature defines under this name, or a new one."""
    state = state_of(parser)
    known = state.symbols.get(name)
    if known is not None:
        if known.dtype != value.dtype:
            raise parser.error(node, f"symbolic variable {name} is {known.dtype} already, not {value.dtype}")
        return known
    state.symbols[name] = name_value(name, value)
    return value


def bind(parser: Parser, node: Any, target: ast.expr, value: Any, info: StructInfo | None = None) -> None:
    """Carry out an assignment."""
    if isinstance(target, ast.Tuple | ast.List):
        items = _unpacked(parser, target, value)
        for item, part in zip(target.elts, items, strict=True):
            bind(parser, node, item, part)
        return
    if not isinstance(target, ast.Name):
        raise parser.error(target, "a Relax binding assigns to a name")
    name = target.id
    if isinstance(value, E.Var) and (not value.name or name == value.name) and info is None:
        parser.set(name, _bind_symbol(parser, node, name, value))
    elif isinstance(
        value, MatchCastValue | RelaxExpr | bool | int | float | tuple | list | np.ndarray | np.generic
    ):
        parser.set(name, emit(parser, node, name, value, info))
    elif isinstance(value, E.PrimExpr | str):
        parser.set(name, emit(parser, node, name, value, info))
    else:
        parser.set(name, value)  # the module's alias, and other Python values


def _unpacked(parser: Parser, target: Any, value: Any) -> list[Any]:
    count = len(target.elts)
    if isinstance(value, RelaxExpr) and not isinstance(value, X.Tuple):
        if not isinstance(value, X.Var):
            value = emit(parser, target, "lv", value)
        known = value.struct_info_
        if isinstance(known, TupleStructInfo) and len(known.fields) != count:
            raise parser.error(target, f"expected {count} values, the tuple has {len(known.fields)}")
        return [X.TupleGetItem(value, index) for index in range(count)]
    items = list(value.fields) if isinstance(value, X.Tuple) else list(value)
    if len(items) != count:
        raise parser.error(target, f"expected {count} values, got {len(items)}")
    return items


@statement("relax", ast.Assign)
def _assign(parser: Parser, node: ast.Assign) -> None:
    if len(node.targets) != 1:
        raise parser.error(node, "bind one name at a time: a = b = c is not supported")
    value = parser.eval(node.value)
    with parser.at(node.value):
        bind(parser, node, node.targets[0], value)


@statement("relax", ast.AnnAssign)
def _ann_assign(parser: Parser, node: ast.AnnAssign) -> None:
    if node.value is None:
        raise parser.error(node, "a declaration needs a value")
    info = struct_info(parser, node.annotation)
    value = parser.eval(node.value)
    with parser.at(node.value):
        bind(parser, node, node.target, value, info)


@statement("relax", ast.Expr)
def _expr(parser: Parser, node: ast.Expr) -> None:
    value = parser.eval(node.value)
    if isinstance(value, RelaxExpr | MatchCastValue):
        if isinstance(value, X.Var):
            return
        with parser.at(node.value):
            emit(parser, node, "_", value)
    elif value is not None and not isinstance(value, str):
        raise parser.error(node, f"a {type(value).__name__} is no statement of a Relax function")


@statement("relax", ast.Pass)
def _pass(parser: Parser, node: ast.Pass) -> None:
    return None


@statement("relax", ast.Return)
def _return(parser: Parser, node: ast.Return) -> None:
    state = state_of(parser)
    if state.in_branch or state.dataflow is not None:
        where = (
            "a branch; bind one name in both branches and return it behind them"
            if state.in_branch
            else ("a dataflow block; list the value in R.output(...) and return it behind the block")
        )
        raise parser.error(node, f"return cannot stand inside {where}")
    if state.returned:
        raise parser.error(node, "the function has returned already")
    value = None if node.value is None else parser.eval(node.value)
    with parser.at(node):
        found = state.builder.normalize(X.Tuple(()) if value is None else as_expr(value))
        while isinstance(found, X.SeqExpr):
            found = found.body
        state.output = state.builder._normalizer.argument(found)
    state.returned = True


# ---- dataflow and branches ---------------------------------------------------------------------------------------


def _is_output(node: Any) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "output"
    )


def _output_names(parser: Parser, nodes: list[ast.stmt]) -> dict[str, int]:
    """The names in ``R.output(...)`` with how often the block assigns them."""
    found: dict[str, int] = {}
    outputs: list[Any] = [node for node in nodes if _is_output(node)]
    if len(outputs) > 1:
        raise parser.error(outputs[1], "a dataflow block has one R.output")
    for node in outputs:
        for item in node.value.args:
            if not isinstance(item, ast.Name):
                raise parser.error(item, "R.output lists names that the dataflow block binds")
            found[item.id] = 0
    for node in nodes:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = list(node.targets)
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.FunctionDef) and node.name in found:
            found[node.name] += 1
        while targets:
            target = targets.pop()
            if isinstance(target, ast.Tuple | ast.List):
                targets += target.elts
            elif isinstance(target, ast.Name) and target.id in found:
                found[target.id] += 1
    return found


@statement("relax", ast.With)
def _with(parser: Parser, node: ast.With) -> None:
    (item,) = node.items if len(node.items) == 1 else (None,)
    value = None if item is None else parser.eval(item.context_expr)
    if not isinstance(value, DataflowScope):
        raise parser.error(node, "the only scope in a Relax function is `with R.dataflow():`")
    state = state_of(parser)
    if state.dataflow is not None:
        raise parser.error(node, "dataflow blocks do not nest")
    builder = state.builder
    _finish_block(state)
    builder._begin_dataflow_block()
    state.dataflow = _output_names(parser, node.body)
    names = list(state.dataflow)
    position = next((i for i, item in enumerate(node.body) if _is_output(item)), len(node.body))
    if position < len(node.body) - 1:
        raise parser.error(
            node.body[position + 1], "R.output ends a dataflow block; nothing can follow it there"
        )
    with parser.scope():
        parser.body(node.body)
        inner = dict(parser.scopes[-1])
    state.dataflow = None
    _finish_block(state)
    builder._begin_binding_block()
    for name in names:
        if name not in inner or not isinstance(inner[name], X.Var) or isinstance(inner[name], X.DataflowVar):
            output = next(item for item in node.body if _is_output(item))
            raise parser.error(output, f"R.output: {name!r} is not bound in this dataflow block")
        parser.set(name, inner[name])
    for name in inner:
        if name not in names:
            parser.ended[-1][name] = (
                f"it is bound in a dataflow block, whose last statement, R.output({name}), gives it to what follows"
            )


def _branch(parser: Parser, node: ast.If, nodes: list[ast.stmt]) -> tuple[X.SeqExpr, X.Var, bool]:
    """A branch as a sequence whose body is what its last statement binds; that variable, and whether it is annotated."""
    state = state_of(parser)
    builder = state.builder
    saved, state.blocks = state.blocks, []
    outer, state.dataflow = state.dataflow, None
    state.in_branch += 1
    builder.begin_inner_scope()
    builder._begin_binding_block()
    with parser.scope():
        parser.body(nodes)
    _finish_block(state)
    blocks, state.blocks = state.blocks, saved
    state.dataflow = outer
    state.in_branch -= 1
    if not blocks:
        builder.end_scope()
        raise parser.error(
            nodes[0] if nodes else node, "a branch must end by binding the value of the if statement"
        )
    last = blocks[-1]
    final = last.bindings[-1]
    if isinstance(last, X.DataflowBlock):
        body: Any = final.var
    else:
        body = final.value if isinstance(final, X.VarBinding) else final.var
        if isinstance(final, X.VarBinding):
            kept = last.bindings[:-1]
            blocks = [*blocks[:-1], X.BindingBlock(kept)] if kept else blocks[:-1]
    seq = builder.normalize(X.SeqExpr(blocks, body))
    builder.end_scope()
    closing = nodes[-1]
    while isinstance(closing, ast.If):
        closing = closing.body[-1]
    return seq, final.var, isinstance(closing, ast.AnnAssign)


def _check_condition(test: RelaxExpr) -> None:
    """What is known of a condition is that of one bool."""
    info = test.struct_info_
    if isinstance(info, TensorStructInfo) and (info.ndim > 0 or info.dtype not in ("", "bool")):
        raise IRTypeError(f"the condition of if must be one bool, got {info}")


@statement("relax", ast.If)
def _if(parser: Parser, node: ast.If) -> None:
    condition = parser.eval(node.test)
    if not isinstance(condition, RelaxExpr | E.PrimExpr):
        parser.body(node.body if condition else node.orelse)
        return
    if not node.orelse:
        raise parser.error(
            node, "an if statement in a Relax function needs an else, which binds the same name"
        )
    state = state_of(parser)
    if state.dataflow is not None:
        raise parser.error(node, "a dataflow block cannot contain an if statement")
    with parser.at(node.test):
        test = state.builder._normalizer.argument(as_expr(condition))
        _check_condition(test)
    yes, yes_var, annotated = _branch(parser, node, node.body)
    no, no_var, _ = _branch(parser, node, node.orelse)
    if yes_var.name_hint != no_var.name_hint:
        raise parser.error(
            node,
            f"both branches must bind one name last; they bind {yes_var.name_hint!r} and {no_var.name_hint!r}",
        )
    with parser.at(node):
        info = yes_var.struct_info_ if annotated else None
        var = emit(parser, node, yes_var.name_hint, X.If(test, yes, no), info)
    parser.set(yes_var.name_hint, var)


def _call_function(parser: Parser, var: GlobalVar, args: list[Any]) -> X.Call:
    """A call of a function of the module."""
    return X.Call(
        var, [as_expr(item) if not isinstance(item, E.PrimExpr) else X.PrimValue(item) for item in args]
    )


GLOBAL_CALLS["relax"] = _call_function
