"""BlockBuilder: builds functions and modules binding by binding, normalizing every expression on the way.

>>> from ir import relax as rx
>>> x = rx.Var("x", rx.TensorStructInfo((2, 3)))
>>> bb = rx.BlockBuilder()
>>> with bb.function("main", [x]):
...     with bb.dataflow():
...         y = bb.emit(rx.op.add(x, x))
...         out = bb.emit_output(y)
...     _ = bb.emit_func_output(out)
>>> mod = bb.finalize()
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar

from ..arith.analyzer import Analyzer
from ..error import IRTypeError, IRValueError
from ..expr import GlobalVar, RelaxExpr
from ..function import BaseFunc
from ..module import IRModule
from ..structural import structural_equal, structural_hash
from .expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Id,
    MatchCast,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
    convert_to_expr,
    update_struct_info,
)
from .function import Function
from .function_names import named_by_symbol
from .normalizer import Normalizer
from .op.base import call_tir, call_tir_with_grad
from .struct_info import StructInfo, callee_struct_info
from .symbolic_vars import collect_non_negative_expressions, definable_tir_vars_in_struct_info
from .te_conversion import gen_call_tir_inputs

_NO_BLOCK = "nothing to emit into: use the builder inside bb.function(...) or a mutator"


class BlockBuilderError(IRValueError, RuntimeError):
    """A method of the builder was called where it does not belong, or once too often."""


class FunctionScope:
    """Scope of :meth:`BlockBuilder.function`."""

    def __init__(
        self,
        block_builder: BlockBuilder,
        name: str | None,
        params: Sequence[Var] | None,
        attrs: Mapping[str, Any],
        pure: bool,
    ) -> None:
        self._bb, self._name, self._params, self._attrs, self._pure = block_builder, name, params, attrs, pure
        self._blocks: list[BindingBlock] = []
        self._finished = False

    def __enter__(self) -> FunctionScope:
        self._bb._enter_function_scope(self)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bb._exit_function_scope(exc_type)


class DataflowScope:
    """Scope of :meth:`BlockBuilder.dataflow`."""

    def __init__(self, block_builder: BlockBuilder) -> None:
        self._bb = block_builder

    def __enter__(self) -> None:
        self._bb._close_block_into_function()
        self._bb._begin_dataflow_block()

    def __exit__(
        self, exc_type: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bb._close_block_into_function()
        self._bb._begin_binding_block()


class TestingScope:
    """Scope of :meth:`BlockBuilder.testing_scope`."""

    __test__ = False

    def __init__(self, block_builder: BlockBuilder, def_vars: Sequence[Any]) -> None:
        self._bb = block_builder
        self._vars = def_vars

    def __enter__(self) -> TestingScope:
        self._bb._scopes.append(set(self._vars))
        self._bb._begin_binding_block()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bb._end_block()
        self._bb.end_scope()


class BlockBuilder:
    """Builds Relax functions imperatively; see the module's docstring for an example.

    Args:
        mod: a module to start from; the builder works on a copy.
    """

    _stack: ClassVar[threading.local] = threading.local()

    def __init__(self, mod: IRModule | None = None) -> None:
        self._mod = mod.clone() if mod is not None else IRModule()
        self._normalizer = Normalizer(self)
        self._blocks: list[tuple[bool, list[Binding]]] = []
        self._scopes: list[set[Any]] = []
        self._numbers: set[Any] = set()
        """Symbolic variables that scalars define, which may be negative."""
        self._names: dict[str, int] = {}
        self._function_names: dict[str, int] = {}
        self._values: dict[Id, RelaxExpr | None] = {}
        self._by_hash: dict[type[BaseFunc], dict[int, list[tuple[GlobalVar, BaseFunc]]]] = {}
        self._func: FunctionScope | None = None
        self._analyzer: Any = None

    @staticmethod
    def current() -> BlockBuilder | None:
        """The builder whose ``function`` scope this thread is in, or None."""
        stack = getattr(BlockBuilder._stack, "builders", None)
        return stack[-1] if stack else None

    # Scopes of functions and blocks

    def function(
        self,
        name: str,
        params: Var | Tuple | Sequence[Var] | None = None,
        attrs: Mapping[str, Any] | None = None,
        pure: bool = True,
        private: bool = False,
    ) -> FunctionScope:
        """A scope that builds the function ``name``; ``emit_func_output`` ends it.

        Args:
            params: the parameters; they may be given to ``emit_func_output`` instead.
            attrs: attributes of the function.
            pure: whether the function is to be pure (``Function.is_pure``).
            private: leave out the ``global_symbol`` attribute, so that the function is visible in the module only.
        """
        if isinstance(params, Var):
            params = [params]
        elif isinstance(params, Tuple):
            params = params.fields  # type: ignore[assignment]
        if params is not None:
            for param in params:  # type: ignore[union-attr]
                if not isinstance(param, Var):
                    raise IRTypeError(
                        f"function {name}: parameters must be relax.Var, got {type(param).__name__}"
                    )
        attrs = dict(attrs or {})
        if not private:
            attrs.setdefault("global_symbol", name)
        elif "global_symbol" in attrs:
            raise IRValueError(f"function {name} is private and cannot have a global_symbol")
        return FunctionScope(self, name, params, attrs, pure)  # type: ignore[arg-type]

    def _enter_function_scope(self, scope: FunctionScope) -> None:
        if self._func is not None:
            raise IRValueError(
                "a function is being built already; BlockBuilder scopes of functions do not nest"
            )
        stack = BlockBuilder._stack.__dict__.setdefault("builders", [])
        stack.append(self)
        self._func = scope
        self.begin_scope(scope._params)
        self._begin_binding_block()

    def _exit_function_scope(self, exc_type: type[BaseException] | None) -> None:
        scope = self._func
        finished = scope is not None and scope._finished
        if not finished:
            self._blocks.clear()
            self._scopes.clear()
        self._func = None
        BlockBuilder._stack.builders.pop()
        if exc_type is None and not finished:
            raise BlockBuilderError("emit_func_output must be called in a relax function")

    def dataflow(self) -> DataflowScope:
        """A scope that emits into a dataflow block; ``emit_output`` gives what is visible after it."""
        return DataflowScope(self)

    def testing_scope(self, def_vars: Sequence[Any]) -> TestingScope:
        """A scope in which the given symbolic variables are defined, for tests of emission and normalization."""
        return TestingScope(self, def_vars)

    def begin_scope(self, params: Sequence[Var] | None = None) -> None:
        """Begin a scope of symbolic variables, those that ``params`` define."""
        known: set[Any] = set()
        for param in params or ():
            self._define(param.struct_info, known)
            self._values[param.vid] = None
            self._names.setdefault(param.name_hint, 0)
        self._scopes.append(known)

    def _define(self, info: StructInfo, known: set[Any]) -> None:
        defined = definable_tir_vars_in_struct_info(info)
        known.update(defined)
        self._numbers.update(set(defined).difference(collect_non_negative_expressions(info)))

    def begin_inner_scope(self) -> None:
        """Begin a scope that also sees the symbolic variables of the one around it."""
        self._scopes.append(set(self._scopes[-1]) if self._scopes else set())

    def end_scope(self) -> None:
        """End the innermost scope."""
        self._scopes.pop()

    def scope_shape_vars(self) -> set[Any]:
        """The symbolic variables that parameters (of this scope and those around it) define."""
        return self._scopes[-1] if self._scopes else set()

    def scope_extents(self) -> set[Any]:
        """Those of :meth:`scope_shape_vars` that are extents of parameters, which are not negative."""
        return self.scope_shape_vars() - self._numbers

    @property
    def in_block(self) -> bool:
        """Whether there is a block to emit into."""
        return bool(self._blocks)

    def _begin_block(self, is_dataflow: bool) -> None:
        self._blocks.append((is_dataflow, []))

    def _begin_dataflow_block(self) -> None:
        self._begin_block(True)

    def _begin_binding_block(self) -> None:
        self._begin_block(False)

    def _end_block(self) -> BindingBlock:
        is_dataflow, bindings = self._blocks.pop()
        return DataflowBlock(bindings) if is_dataflow else BindingBlock(bindings)

    def _close_block_into_function(self) -> None:
        if not self._blocks:
            raise BlockBuilderError("dataflow() needs a function scope around it: with bb.function(...)")
        block = self._end_block()
        if block.bindings and self._func is not None:
            self._func._blocks.append(block)

    def current_block_is_dataflow(self) -> bool:
        """Whether emission goes into a dataflow block."""
        return bool(self._blocks) and self._blocks[-1][0]

    # Emission

    def _current_bindings(self) -> list[Binding]:
        if not self._blocks:
            raise BlockBuilderError(_NO_BLOCK)
        return self._blocks[-1][1]

    def _new_var(self, name_hint: str, info: StructInfo, output: bool) -> Var:
        dataflow = self.current_block_is_dataflow() and not output
        name = self.get_unique_name(name_hint or ("lv" if dataflow else "gv"))
        return (DataflowVar if dataflow else Var)(name, info)

    def emit(self, expr: Any, name_hint: str = "") -> Var:
        """Bind an expression to a new variable: a DataflowVar inside a dataflow block."""
        return self._emit(expr, name_hint, False)

    def emit_output(self, output: Any, name_hint: str = "") -> Var:
        """Bind an expression to a variable that is visible after the dataflow block."""
        if isinstance(output, list | tuple):
            output = Tuple(output)
        if not self.current_block_is_dataflow():
            raise BlockBuilderError(
                "emit_output belongs into a dataflow block; use emit or emit_func_output here"
            )
        return self._emit(output, name_hint, True)

    def _emit(self, expr: Any, name_hint: str, output: bool) -> Var:
        value = self.normalize(convert_to_expr(expr))
        bindings = self._current_bindings()
        while isinstance(value, SeqExpr):
            for block in value.blocks:
                for binding in block.bindings:
                    bindings.append(binding)
            value = value.body
        var = self._new_var(name_hint, value.struct_info, output)
        bindings.append(VarBinding(var, value))
        self._values[var.vid] = value
        return var

    def match_cast(self, value: RelaxExpr, struct_info: StructInfo, name_hint: str = "") -> Var:
        """Bind a value whose struct info is checked at run time; the struct info may define new symbolic variables."""
        value = self._normalizer.argument(value)
        var = self._new_var(name_hint, struct_info, False)
        self._current_bindings().append(MatchCast(var, value, struct_info))
        self._values[var.vid] = value
        return var

    def emit_normalized(self, binding: Binding) -> None:
        """Emit a binding that is normalized already, keeping its variable."""
        if not self._blocks:
            raise BlockBuilderError(_NO_BLOCK)
        self._blocks[-1][1].append(binding)
        vid = binding.var.vid
        self._values[vid] = binding.value
        self._names.setdefault(vid.name_hint, 0)

    def record_binding(self, binding: Binding) -> None:
        """Make a binding known to :meth:`lookup_binding`."""
        vid = binding.var.vid
        self._values[vid] = binding.value
        self._names.setdefault(vid.name_hint, 0)

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
        """Bind a call of the PrimFunc made from ``func``, a function from te tensors to te tensors.

        Relax tensors among the arguments become te placeholders, shapes lists of extents, scalars TIR expressions; everything
        else is passed as it is.

        Args:
            primfunc_name_hint: the name of the PrimFunc (default: the name of ``func``).
            primfunc_attrs: attributes of the PrimFunc.
            name_hint: the name of the variable.
        """
        name_hint = kwargs.pop("name_hint", "")
        return self.emit(self.call_te(func, *args, **kwargs), name_hint)

    def call_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
        """As :meth:`emit_te`, returning the call instead of binding it."""
        name = kwargs.pop("primfunc_name_hint", None) or getattr(func, "__name__", "te_func")
        attrs = kwargs.pop("primfunc_attrs", None)
        prim_func, call_args, out_sinfo, tir_vars = gen_call_tir_inputs(func, *args, **kwargs)
        if attrs:
            prim_func = prim_func.with_attr(dict(attrs))

        return call_tir(self.add_func(prim_func, name), call_args, out_sinfo, tir_vars)

    def call_te_with_grad(
        self,
        func: Callable[..., Any],
        *args: Any,
        te_grad_name: str,
        te_grad_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Call:
        """As :meth:`call_te` with a registered te gradient: a ``call_tir_with_grad``."""
        name = kwargs.pop("primfunc_name_hint", None) or getattr(func, "__name__", "te_func")
        attrs = kwargs.pop("primfunc_attrs", None)
        prim_func, call_args, out_sinfo, tir_vars = gen_call_tir_inputs(func, *args, **kwargs)
        if attrs:
            prim_func = prim_func.with_attr(dict(attrs))
        gvar = self.add_func(prim_func, name)
        return call_tir_with_grad(
            gvar,
            call_args,
            out_sinfo,
            tir_vars=tir_vars,
            te_grad_name=te_grad_name,
            te_grad_kwargs=te_grad_kwargs,
        )

    def emit_te_with_grad(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
        """As :meth:`emit_te` with a registered te gradient (``te_grad_name``, ``te_grad_kwargs``)."""
        name_hint = kwargs.pop("name_hint", "")
        return self.emit(self.call_te_with_grad(func, *args, **kwargs), name_hint)

    def emit_func_output(self, output: Any, params: Var | Tuple | Sequence[Var] | None = None) -> GlobalVar:
        """End the function: it returns ``output`` (tuples and lists are tuples). Returns the reference to it."""
        scope = self._func
        if scope is None:
            raise BlockBuilderError("emit_func_output belongs into a function scope: with bb.function(...)")
        if scope._finished:
            raise BlockBuilderError("emit_func_output was called already for this function")
        if params is not None:
            if scope._params is not None:
                raise BlockBuilderError("parameters were given to both bb.function and emit_func_output")
            if isinstance(params, Var):
                params = [params]
            scope._params = tuple(params.fields if isinstance(params, Tuple) else params)  # type: ignore[arg-type]
            for param in scope._params:
                self._define(param.struct_info, self._scopes[-1])
        if scope._params is None:
            raise BlockBuilderError(
                "emit_func_output: the function has no parameters; pass [] when it takes none"
            )
        if isinstance(output, list | tuple):
            output = Tuple(output)
        block = self._end_block()
        if block.bindings:
            scope._blocks.append(block)
        body = self.normalize(SeqExpr(scope._blocks, convert_to_expr(output)))
        func = Function(scope._params, body, None, scope._pure, scope._attrs)
        self.end_scope()
        scope._finished = True
        return self.add_func(func, str(scope._name))

    # Normalization and look-up

    def normalize(self, expr: Any) -> Any:
        """The expression in A-normal form with struct info; what its arguments need is emitted into the current block."""
        return self._normalizer.normalize(expr)

    def visible_outside(self, seq: SeqExpr) -> StructInfo:
        """The struct info of a sequence of normalized bindings: its result's without what the sequence itself defines."""
        return self._normalizer.visible_outside(seq)

    def lookup_binding(self, var: Var) -> RelaxExpr | None:
        """The value bound to a variable; None for parameters and variables of elsewhere."""
        return self._values.get(var.vid)

    def get_analyzer(self) -> Any:
        """The arithmetic analyzer of this builder."""
        if self._analyzer is None:
            self._analyzer = Analyzer()
        return self._analyzer

    def get_unique_name(self, name_prefix: str) -> str:
        """A name for a variable that was not given before: ``lv``, ``lv1``, ``lv2`` ..."""
        return _unique(self._names, name_prefix)

    # The module

    def add_func(self, func: BaseFunc, func_name: str) -> GlobalVar:
        """Add a function under a unique name; an equal one in the module is reused. Returns the reference to it."""
        if not isinstance(func, BaseFunc):
            raise IRTypeError(f"add_func needs a function, got {type(func).__name__}")
        table = self._dedup_table(type(func))
        key = structural_hash(func)
        for var, found in table.get(key, ()):
            if structural_equal(found, func):
                return var
        name = _unique(self._function_names, func_name)
        while self._mod.contains(name):
            name = _unique(self._function_names, func_name)
        var = GlobalVar(name, callee_struct_info(func))
        self._mod.functions[var] = func
        table.setdefault(key, []).append((var, func))
        return var

    def _dedup_table(self, kind: type[BaseFunc]) -> dict[int, list[tuple[GlobalVar, BaseFunc]]]:
        """Functions of a kind by hash; kinds apart, for hashing a graph function reads all its weights."""
        table = self._by_hash.get(kind)
        if table is None:
            table = self._by_hash[kind] = {}
            for var, func in self._mod.functions.items():
                if type(func) is kind:
                    table.setdefault(structural_hash(func), []).append((var, func))
        return table

    def update_func(self, gv: GlobalVar, updated_func: BaseFunc) -> None:
        """Replace a function of the module.

        References are shared with other modules, so one that has a struct info keeps it; a function whose signature
        changes is to be added under a new reference.
        """
        self._mod.update_func(gv, updated_func)
        if gv.struct_info_ is None and updated_func.struct_info_ is not None:
            update_struct_info(gv, updated_func.struct_info_)
        for table in self._by_hash.values():
            for entries in table.values():
                entries[:] = [entry for entry in entries if entry[0] is not gv]
        if type(updated_func) in self._by_hash:
            self._by_hash[type(updated_func)].setdefault(structural_hash(updated_func), []).append(
                (gv, updated_func)
            )

    def finalize(self) -> IRModule:
        """The module built so far; private functions whose name a public one claims are renamed."""
        for var, func in self._mod.functions.items():
            if func.attrs.get("global_symbol", var.name_hint) != var.name_hint:
                return named_by_symbol(self._mod)
        return self._mod

    def get(self) -> IRModule:
        """The module built so far (the older name of :meth:`finalize`)."""
        return self.finalize()

    def get_context_ir_module(self) -> IRModule:
        """The module built so far."""
        return self._mod


def _unique(taken: dict[str, int], prefix: str) -> str:
    prefix = prefix.replace(".", "_")
    if prefix not in taken:
        taken[prefix] = 0
        return prefix
    count = taken[prefix]
    while True:
        count += 1
        name = f"{prefix}{count}"
        if name not in taken:
            taken[prefix] = count
            taken[name] = 0
            return name
