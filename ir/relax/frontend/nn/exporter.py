"""Tracing: an exporter runs a module's methods on placeholders inside a block builder and collects the functions."""

from __future__ import annotations

from typing import Any

from ir.module import IRModule
from ir.relax.analysis.well_formed import check_well_formed
from ir.relax.block_builder import BlockBuilder
from ir.relax.expr import Expr, TupleGetItem, Var
from ir.relax.expr import Tuple as RxTuple
from ir.relax.struct_info import ObjectStructInfo, ShapeStructInfo, TupleStructInfo
from ir.tir.expr import Var as TirVar

from . import spec as _spec
from .effects import Effect, IOEffect
from .error import NNValueError
from .extern import ExternModule
from .module import Module, find_attributes, register_module_function
from .tensor import Object, Parameter, Tensor, unwrap_nested
from .tracing import Trace

_State = list[tuple[str, Effect]]


def add_extern(mod: ExternModule) -> None:
    """Add an external module to the module that is being exported; call it once for each, while a method is traced.

    Raises:
        NNError: no export is going on.
        NNValueError: one of its symbols is there already.
    """
    Exporter.current().add_external_module(mod)


class Exporter(Trace):
    """Builds the IRModule of a specification; while it does, ``Exporter.current()`` finds it."""

    def __init__(self, debug: bool) -> None:
        self.builder = BlockBuilder()
        self.io_effect: IOEffect | None = IOEffect() if debug else None
        self.extern_mods: list[ExternModule] = []

    def add_external_module(self, mod: ExternModule) -> None:
        """Register an external module; raises NNValueError when one of its symbols is registered already."""
        taken = {symbol for other in self.extern_mods for symbol in other.symbols}
        for symbol in mod.symbols:
            if symbol in taken:
                raise NNValueError(
                    f"external symbol {symbol!r} is already provided by another module; add each once"
                )
        self.extern_mods.append(mod)

    def build(
        self, spec: _spec.ModuleSpec
    ) -> tuple[IRModule, list[tuple[str, Parameter]], list[ExternModule]]:
        """Trace the methods; returns the module, its named parameters, and the external modules."""
        effects = self._effects(spec.module)
        params = list(spec.module.named_parameters())
        with self:
            if effects:
                with self.builder.function("_initialize_effect"):
                    with self.builder.dataflow():
                        state = _emit_effect_init(self.builder, effects)
                    self.builder.emit_func_output(state, params=[])
            for name, method in zip(spec.method_names, spec.method_specs):
                n_effects = {"packed": 1, "none": 0, "plain": len(effects)}[method.effect_mode]
                attrs = {"num_input": len(method.arg_specs) + n_effects}
                with self.builder.function(name, attrs=attrs):
                    with self.builder.dataflow():
                        outputs, inputs = _emit_method(self.builder, method, params, effects)
                    self.builder.emit_func_output(outputs, inputs)
        mod = self.builder.finalize()
        check_well_formed(mod)
        return mod, params, self.extern_mods

    def _effects(self, module: Module) -> _State:
        own: _State = [] if self.io_effect is None else [("", self.io_effect)]
        found = find_attributes(module, "", condition_yield=lambda item: isinstance(item, Effect))
        return own + list(found)


def _emit_effect_init(builder: BlockBuilder, effects: _State) -> Var:
    state: list[Expr] = []
    for name, effect in effects:
        state += effect.emit_init(name, builder)
    return builder.emit_output(builder.emit(RxTuple(state)))


def _emit_method(
    builder: BlockBuilder, spec: _spec.MethodSpec, params: list[tuple[str, Parameter]], effects: _State
) -> tuple[Var, list[Var]]:
    """Trace one method; returns the output variable and the function's inputs."""
    symbols: dict[str, TirVar] = {}
    explicit = [_placeholder(name, arg, symbols) for name, arg in zip(spec.arg_names, spec.arg_specs)]
    inputs = [_input_var(name, arg) for name, arg in zip(spec.arg_names, explicit)]
    inputs += _bind_effects(builder, spec.effect_mode, effects)
    inputs += _bind_params(builder, spec.param_mode, params, symbols)
    # The function gets its parameters at its end; what is emitted before must know that their extents are not negative.
    builder.begin_scope(inputs)
    arguments = [
        _detuple(arg, var, builder) if isinstance(arg, _spec.Tuple) else arg
        for arg, var in zip(explicit, inputs)
    ]
    # By name: an argument that was left out of the specification keeps its default wherever it stands.
    outputs = unwrap_nested(spec.method(**dict(zip(spec.arg_names, arguments))))
    if effects:
        last = [var for _, effect in effects for var in effect.finalize()]
        if spec.effect_mode != "none":
            outputs = RxTuple([outputs, RxTuple(last)])
    output = builder.emit_output(outputs)
    builder.end_scope()
    return output, inputs


def _placeholder(name: str, arg: Any, symbols: dict[str, TirVar]) -> Any:
    """What a method is called with for an argument of that specification."""
    if isinstance(arg, _spec.Int):
        return _symbol(name, symbols)
    if isinstance(arg, _spec.Tensor):
        shape = [_symbol(extent, symbols) if isinstance(extent, str) else extent for extent in arg.shape]
        return Tensor.placeholder(shape, arg.dtype, name=name)
    if isinstance(arg, _spec.Object):
        return arg.object_type(_expr=Var(name, ObjectStructInfo()), _name=name)
    elements = [_placeholder(f"{name}_{i}", item, symbols) for i, item in enumerate(arg.elements)]
    return _spec.Tuple(name, tuple(elements) if isinstance(arg.elements, tuple) else elements)


def _symbol(name: str, symbols: dict[str, TirVar]) -> TirVar:
    return symbols.setdefault(name, TirVar(name, "int64"))


def _input_var(name: str, arg: Any) -> Var:
    """The function's input for a placeholder."""
    if isinstance(arg, TirVar):
        return Var(name, ShapeStructInfo([arg]))
    if isinstance(arg, _spec.Tuple):
        return Var(
            name,
            TupleStructInfo(
                [_input_var(f"{name}_{i}", item).struct_info for i, item in enumerate(arg.elements)]
            ),
        )
    return arg._expr  # type: ignore[no-any-return]  # a Tensor or Object of which the expression is the input


def _detuple(arg: Any, var: Expr, builder: BlockBuilder) -> Any:
    """A tuple argument as Python's: its fields read from the input."""
    if isinstance(arg, _spec.Tuple):
        fields = [
            _detuple(item, builder.emit(TupleGetItem(var, i), name_hint=f"{arg.name}_{i}"), builder)
            for i, item in enumerate(arg.elements)
        ]
        return type(arg.elements)(fields)
    if isinstance(arg, Tensor):
        return Tensor(_expr=var)
    if isinstance(arg, Object):
        return type(arg)(_expr=var, _name=arg._expr.name_hint)  # type: ignore[attr-defined]
    return arg


def _bind_effects(builder: BlockBuilder, mode: str, effects: _State) -> list[Var]:
    """Give each effect its variables and return the inputs that carry them."""
    created: list[list[Var]] = []
    for name, effect in effects:
        created.append(effect.create(name))
        effect.set_state(created[-1])
    flat = [var for state in created for var in state]
    if mode == "none":
        return []
    if mode == "plain":
        return flat
    packed = Var("packed_effects", TupleStructInfo([var.struct_info for var in flat]))
    index = 0
    for state, (_, effect) in zip(created, effects):
        fields: list[Var] = []
        for var in state:
            fields.append(builder.emit(TupleGetItem(packed, index), name_hint=var.name_hint))
            index += 1
        effect.set_state(fields)
    return [packed]


def _bind_params(
    builder: BlockBuilder, mode: str, params: list[tuple[str, Parameter]], symbols: dict[str, TirVar]
) -> list[Var]:
    """Give each parameter its variable and return the inputs that carry them.

    Symbolic extents are made anew for every function and shared within it by name, so that ``vocab_size`` of an embedding
    and of the last layer are one variable. A name that the method's own inputs use is theirs.
    """
    inputs: list[Var] = []
    for name, param in params:
        shape = [
            _symbol(extent.name, symbols) if isinstance(extent, TirVar) else extent for extent in param.shape
        ]
        var = Tensor.placeholder(shape, param.dtype, name)._expr
        assert isinstance(var, Var)
        inputs.append(var)
        param._expr = var
    if mode == "none":
        return []
    if mode == "plain":
        return inputs
    packed = Var("packed_params", TupleStructInfo([var.struct_info for var in inputs]))
    for i, (name, param) in enumerate(params):
        param._expr = builder.emit(TupleGetItem(packed, i), name_hint=name)
    return [packed]


def export_tvm(
    module: Module, spec: _spec.ModuleSpecType, debug: bool, allow_extern: bool
) -> (
    tuple[IRModule, list[tuple[str, Parameter]]]
    | tuple[IRModule, list[tuple[str, Parameter]], list[ExternModule]]
):
    """What :meth:`Module.export_tvm` does."""
    mod, params, ext_mods = Exporter(debug=debug).build(_spec.ModuleSpec.from_raw(spec, module))
    if allow_extern:
        return mod, params, ext_mods
    if ext_mods:
        raise NNValueError(
            "the program adds external modules; export it with allow_extern=True and link them"
        )
    return mod, params


register_module_function(export_tvm=export_tvm)
