"""From a model to a module: inputs and weights become values, then every node is converted in order.

What is not supported is found before anything is converted and reported all at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.error import IRError
from ir.module import IRModule
from ir.relax.analysis.well_formed import check_well_formed
from ir.relax.block_builder import BlockBuilder
from ir.relax.expr import Expr, TupleGetItem, Var
from ir.relax.expr import Tuple as RxTuple
from ir.relax.struct_info import TensorStructInfo, TupleStructInfo
from ir.tir.expr import PrimExpr, SizeVar
from ir.tir.expr import Var as TirVar

from .agreement import agree
from .context import Known, NodeContext, Value, computed_dtype
from .error import (
    ConversionError,
    DynamicShapeError,
    InvalidModelError,
    ONNXImportError,
    UnsupportedOperatorError,
)
from .folding import fold
from .registry import find_converter, normalize_domain

Dim = int | PrimExpr


def onnx_library() -> Any:
    """The onnx package; raises ONNXImportError with the fix when it is not installed."""
    try:
        import onnx
    except ImportError as error:
        raise ONNXImportError(
            "reading ONNX models needs the onnx package: pip install 'loopsmith[onnx]'"
        ) from error
    return onnx


def load_model(path: str | Path) -> Any:
    """Read an ONNX file, with external data beside it.

    Raises:
        InvalidModelError: the file is not there, is truncated, or is no ONNX model.
    """
    onnx = onnx_library()
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load(str(path))
    except FileNotFoundError as error:
        raise InvalidModelError(
            f"no such file: {error.filename or path}; check the path of the model"
        ) from error
    except DecodeError as error:
        raise InvalidModelError(
            f"{path} is truncated or no ONNX model ({error}); export or download it again"
        ) from error
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise InvalidModelError(f"cannot read {path}: {error}") from error
    if not model.HasField("graph") or not model.graph.output:
        raise InvalidModelError(
            f"{path} is truncated or no ONNX model: it has no graph with outputs; export it again"
        )
    return model


def from_onnx(
    model: Any,
    shape_dict: Mapping[str, Iterable[Any]] | None = None,
    dtype_dict: str | Mapping[str, str] | None = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> IRModule:
    """Convert an ONNX model into a module with one Relax function, ``main``.

    Args:
        model: a ``ModelProto`` (or a ``GraphProto``), or the path of a file.
        shape_dict: shapes of inputs by name, where the model's own are symbolic or missing. Without one, named dimensions become
            symbolic variables that inputs share, unnamed ones variables of their own.
        dtype_dict: dtypes of inputs by name; a single dtype is used for inputs of which the model does not say any.
        opset: override the model's opset.
        keep_params_in_input: weights become inputs behind the model's own, and the function's attribute ``params`` holds
            their values, to be taken off by :func:`ir.relax.frontend.detach_params`. By default they are constants.
        sanitize_input_names: make the names of inputs valid identifiers.

    Returns:
        The module; ``main`` has the attribute ``num_input``, the number of the model's own inputs.

    Raises:
        UnsupportedOperatorError: some operators have no converter; all of them are listed.
        InvalidModelError: the model is no valid graph.
        DynamicShapeError, ConversionError: a node cannot be converted; the message names it.
    """
    if isinstance(model, str | Path):
        model = load_model(model)
    graph, opsets = _graph_and_opsets(model, opset)
    return GraphImporter(
        graph, opsets, shape_dict, dtype_dict, keep_params_in_input, sanitize_input_names
    ).run()


def dynamic_dimensions(
    model: Any, shape_dict: Mapping[str, Iterable[Any]] | None = None
) -> dict[str, list[Any]]:
    """The inputs whose shape has no value for some dimension: their shapes, with names (or ``"?"``) for those."""
    graph = getattr(model, "graph", model)
    weights = {item.name for item in graph.initializer}
    found: dict[str, list[Any]] = {}
    for item in graph.input:
        if item.name in weights or item.name in (shape_dict or {}):
            continue
        shape = _declared_shape(item)
        if shape is None or any(not isinstance(dim, int) for dim in shape):
            found[item.name] = ["..."] if shape is None else [dim or "?" for dim in shape]
    return found


def require_static_shapes(model: Any, shape_dict: Mapping[str, Iterable[Any]] | None = None) -> None:
    """Raise :class:`DynamicShapeError`, naming the inputs and the fix, unless every input has a fixed shape."""
    found = dynamic_dimensions(model, shape_dict)
    if found:
        shapes = "; ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in found.items())
        example = ", ".join(f"{name!r}: [1, ...]" for name in found)
        raise DynamicShapeError(
            f"the model has dynamic dimensions without a value: {shapes}. Give each such input a shape, "
            f"with shape_dict={{{example}}} in Python or --shape NAME:1,3,224,224 on the command line."
        )


def _graph_and_opsets(model: Any, opset: int | None) -> tuple[Any, dict[str, int]]:
    onnx = onnx_library()
    if isinstance(model, onnx.GraphProto):
        return model, {"": opset or onnx.defs.onnx_opset_version()}
    if not isinstance(model, onnx.ModelProto):
        raise InvalidModelError(
            f"from_onnx takes an onnx.ModelProto or the path of a file, got {type(model).__name__}"
        )
    for node in (*model.graph.node, *(inner for item in model.functions for inner in item.node)):
        _require_texts_of_node(node)
    if model.functions:
        from onnx.inliner import inline_local_functions

        model = inline_local_functions(model)
    for item in model.opset_import:
        if not 0 <= item.version < _OPSETS:
            raise InvalidModelError(
                f"the model says that it has version {item.version} of the operators of {item.domain or 'ONNX'!r}"
            )
    model = _with_functions_expanded(model)
    opsets = {normalize_domain(item.domain): int(item.version) for item in model.opset_import}
    opsets.setdefault("", 1)
    if opset is not None:
        opsets[""] = opset
    return model.graph, opsets


def _require_texts_of_node(node: Any) -> None:
    _require_texts("a node", (node.op_type, node.domain, node.name, *node.input, *node.output))


def _require_texts(what: str, names: Iterable[Any]) -> None:
    """Refuse names that are no text: what is no UTF-8 comes as bytes."""
    for name in names:
        if not isinstance(name, str):
            raise InvalidModelError(f"{what} has the name {name!r}, which is no text in UTF-8")


def _with_functions_expanded(model: Any) -> Any:
    """The model with operators that have no converter replaced by what ONNX itself defines them to be, where it does."""
    from inspect import signature

    import onnx
    from onnx import defs, inliner

    if (
        "inline_schema_functions"
        not in signature(getattr(inliner, "inline_selected_functions", object)).parameters
    ):
        return model  # older releases of onnx cannot
    opsets = {normalize_domain(item.domain): int(item.version) for item in model.opset_import}
    seen: set[tuple[str, str]] = set()
    while True:
        wanted: set[tuple[str, str]] = set()
        for node in model.graph.node:
            domain = normalize_domain(node.domain)
            version = opsets.get(domain, 1)
            if find_converter(node.op_type, domain, version) is None and defs.has(
                node.op_type, version, domain
            ):
                schema = defs.get_schema(node.op_type, version, domain)
                if schema.has_function or schema.has_context_dependent_function:
                    wanted.add((domain, node.op_type))
        if wanted <= seen:
            return model
        seen |= wanted
        typed = onnx.shape_inference.infer_shapes(_with_weights_as_inputs(model))
        try:
            model = inliner.inline_selected_functions(typed, sorted(wanted), inline_schema_functions=True)
        except RuntimeError:
            # The library gives up where it knows no types; what is left is reported as not supported.
            return model


def _with_weights_as_inputs(model: Any) -> Any:
    """A copy in which weights are optional inputs too, which is where the library looks for their types."""
    from onnx import ModelProto, helper

    copied = ModelProto()
    copied.CopyFrom(model)
    declared = {item.name for item in copied.graph.input}
    for tensor in copied.graph.initializer:
        if tensor.name not in declared:
            copied.graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    return copied


_OPSETS = 2**31
"""Versions of operators are less: ONNX keeps them in 64 bits, and looks them up in 32."""
_DATA_DEPENDENT = frozenset({"NonZero", "Unique"})


class GraphImporter:
    """Converts one graph; holds the values of its names while it does."""

    def __init__(
        self,
        graph: Any,
        opsets: dict[str, int],
        shape_dict: Mapping[str, Iterable[Any]] | None,
        dtype_dict: str | Mapping[str, str] | None,
        keep_params: bool,
        sanitize: bool,
    ) -> None:
        self.graph = graph
        self.opsets = opsets
        self.shapes = {name: list(shape) for name, shape in (shape_dict or {}).items()}
        self.dtypes = dtype_dict if isinstance(dtype_dict, Mapping) else {}
        self.default_dtype = dtype_dict if isinstance(dtype_dict, str) else "float32"
        self.keep_params = keep_params
        self.sanitize = sanitize
        self.builder = BlockBuilder()
        self.values: dict[str, Value] = {}
        self.inputs: list[Var] = []
        self.params: dict[str, tuple[Var, np.ndarray]] = {}
        self.symbols: dict[str, TirVar] = {}
        self.taken: set[str] = set()

    def run(self) -> IRModule:
        """The module."""
        self._check_names()
        self._check_operators()
        self._add_weights()
        self._add_inputs()
        builder = self.builder
        with builder.function("main"):
            with builder.dataflow():
                for node in self.graph.node:
                    self._convert(node)
                outputs = [self._output(item.name) for item in self.graph.output]
                result = builder.emit_output(outputs[0] if len(outputs) == 1 else RxTuple(outputs))
            builder.emit_func_output(
                result, params=[*self.inputs, *(var for var, _ in self._ordered_params())]
            )
        mod = builder.finalize()
        attrs: dict[str, Any] = {"num_input": len(self.inputs)}
        if self.keep_params:
            attrs["params"] = [array for _, array in self._ordered_params()]
        mod["main"] = mod["main"].with_attr(attrs)
        check_well_formed(mod)
        return mod

    # --------------------------------------------------------------------------------------------- inputs, weights
    def _add_weights(self) -> None:
        for tensor in self.graph.initializer:
            if not tensor.name:
                raise InvalidModelError("a weight of the graph has no name")
            array = _array_of(tensor, f"the weight {tensor.name!r}")
            self.values[tensor.name] = self._weight(tensor.name, array)
        if len(self.graph.sparse_initializer):
            raise ConversionError("sparse weights are not supported; store them densely")

    def _weight(self, name: str, array: np.ndarray) -> Known:
        # Integers in small tensors are shapes, axes and indices: they stay what the converters can read.
        if not self.keep_params or (array.dtype.kind in "iub" and array.ndim <= 1):
            return Known(array)

        def make(values: np.ndarray) -> Expr:
            var = Var(self._identifier(name), TensorStructInfo(values.shape, dt.from_numpy(values.dtype)))
            self.params[name] = (var, values)
            return var

        return Known(array, make)

    def _ordered_params(self) -> list[tuple[Var, np.ndarray]]:
        order = {tensor.name: i for i, tensor in enumerate(self.graph.initializer)}
        return [self.params[name] for name in sorted(self.params, key=lambda name: order[name])]

    def _add_inputs(self) -> None:
        from onnx import TensorProto, helper

        unknown = set(self.shapes) - {item.name for item in self.graph.input}
        if unknown:
            names = ", ".join(item.name for item in self.graph.input if item.name not in self.values)
            raise ConversionError(
                f"shape_dict (--shape) names {sorted(unknown)}, which the model has no inputs of; it has: {names}"
            )
        for item in self.graph.input:
            if item.name in self.values:  # a weight with a default
                continue
            if item.type.WhichOneof("value") not in ("tensor_type", None):
                kind = item.type.WhichOneof("value").removesuffix("_type")
                raise ConversionError(
                    f"input {item.name!r} is a {kind}; only tensors are supported as inputs"
                )
            elem = item.type.tensor_type.elem_type
            dtype = self.dtypes.get(item.name)
            if dtype is None and elem != TensorProto.UNDEFINED:
                if elem not in TensorProto.DataType.values():
                    raise InvalidModelError(
                        f"input {item.name!r} has elements of the type {elem}, which ONNX does not have"
                    )
                dtype = computed_dtype(helper.tensor_dtype_to_np_dtype(elem), f"input {item.name!r}")
            shape = self._input_shape(item)
            var = Var(
                self._identifier(item.name) if self.sanitize else item.name,
                TensorStructInfo(shape, dtype or self.default_dtype),
            )
            self.inputs.append(var)
            self.values[item.name] = var

    def _input_shape(self, item: Any) -> list[Dim]:
        declared = _declared_shape(item)
        given = self.shapes.get(item.name)
        if given is None:
            if declared is None:
                raise DynamicShapeError(
                    f"the model does not say how many dimensions its input {item.name!r} has; "
                    f"give a shape: shape_dict={{{item.name!r}: [...]}} in Python, --shape {item.name}:1,3,224,224 on the command line"
                )
            given = [dim if dim is not None else f"{item.name}_dim{i}" for i, dim in enumerate(declared)]
        elif declared is not None:
            self._compare_shapes(item.name, declared, given)
        return [self._dim(item.name, dim) for dim in given]

    def _compare_shapes(self, name: str, declared: list[Any], given: list[Any]) -> None:
        fits = len(declared) == len(given) and all(
            old == new for old, new in zip(declared, given) if isinstance(old, int) and isinstance(new, int)
        )
        if not fits:
            wanted = ", ".join(str(dim or "?") for dim in declared)
            raise ConversionError(
                f"shape_dict (--shape) gives the input {name!r} the shape {given}, the model has [{wanted}]"
            )

    def _dim(self, name: str, dim: Any) -> Dim:
        if isinstance(dim, str):
            return self.symbols.setdefault(dim, SizeVar(_as_identifier(dim), "int64"))
        if isinstance(dim, PrimExpr):
            return dim
        if not isinstance(dim, int | np.integer) or dim < 0:
            raise DynamicShapeError(
                f"input {name!r}: an extent is an integer from 0 on or a name, got {dim!r}"
            )
        return int(dim)

    def _identifier(self, name: str) -> str:
        base = _as_identifier(name)
        unique, count = base, 1
        while unique in self.taken:
            unique, count = f"{base}_{count}", count + 1
        self.taken.add(unique)
        return unique

    # ------------------------------------------------------------------------------------------------------- nodes
    def _check_names(self) -> None:
        graph = self.graph
        values = (*graph.input, *graph.output)
        _require_texts(
            "an input, an output or a weight", (item.name for item in (*values, *graph.initializer))
        )
        dims = (dim for item in values for dim in item.type.tensor_type.shape.dim)
        _require_texts("a dimension", (dim.dim_param for dim in dims))

    def _check_operators(self) -> None:
        missing: dict[tuple[str, str], list[str]] = {}
        for position, node in enumerate(_all_nodes(self.graph)):
            _require_texts_of_node(node)
            domain = normalize_domain(node.domain)
            _require_arity(node, domain, self._opset(domain))
            if (domain, node.op_type) == ("", "If"):
                continue  # _branch takes one of its graphs
            if find_converter(node.op_type, domain, self._opset(domain)) is None:
                missing.setdefault((domain, node.op_type), []).append(node.name or f"number {position}")
        if not missing:
            return
        rows, listed = [], []
        for (domain, op_type), nodes in sorted(missing.items()):
            shown = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
            rows.append(
                f"  {op_type} (domain {domain or 'ai.onnx'}, opset {self._opset(domain)}): node {shown}"
            )
            listed.append((domain or "ai.onnx", op_type, self._opset(domain), nodes))
        raise UnsupportedOperatorError(
            f"the model uses {len(rows)} operator{'s' if len(rows) > 1 else ''} that cannot be imported yet:\n"
            + ";\n".join(rows)
            + ".\nExport the model without them, or register a converter with ir.relax.frontend.onnx.converter.",
            listed,
        )

    def _opset(self, domain: str) -> int:
        return self.opsets.get(domain, 1)

    def _convert(self, node: Any) -> None:
        domain = normalize_domain(node.domain)
        name = node.name or (node.output[0] if node.output else node.op_type)
        if (domain, node.op_type) == ("", "If"):
            self._branch(node, name)
            return
        inputs = [self._value(item, node.op_type, name) if item else None for item in node.input]
        attributes = _attributes(node, name)
        context = NodeContext(
            node.op_type, name, inputs, attributes, len(node.output), self._opset(domain), self.builder
        )
        found = find_converter(node.op_type, domain, context.opset)
        assert found is not None  # _check_operators has looked
        try:
            folded = fold(context, domain)
            if folded is None:
                agree(context)
                folded = found(context)
            self._bind(node, name, folded)
        except ONNXImportError:
            raise
        except (IRError, IndexError, KeyError, TypeError, ValueError) as error:
            # Inference rejects what the model asks for; the message lacks only the place.
            shapes = ", ".join(_describe(value) for value in inputs)
            raise ConversionError(
                f"ONNX {node.op_type} (node {name!r}) with inputs ({shapes}): {error}"
            ) from error

    def _branch(self, node: Any, name: str) -> None:
        """Put the nodes of the branch that is taken in place of an ``If``, whose condition must be known."""
        condition = self._value(node.input[0], node.op_type, name)
        if not isinstance(condition, Known) or condition.is_symbolic:
            raise ConversionError(
                f"ONNX If (node {name!r}): the condition is computed when the model runs, which is not supported; "
                "export the model for fixed shapes or without the branch"
            )
        wanted = "then_branch" if bool(condition.array.reshape(-1)[0]) else "else_branch"
        graph = next(attribute.g for attribute in node.attribute if attribute.name == wanted)
        for tensor in graph.initializer:
            self.values[tensor.name] = Known(_array_of(tensor, f"the weight {tensor.name!r}"))
        for inner in graph.node:
            self._convert(inner)
        for output, result in zip(node.output, graph.output):
            self.values[output] = self._value(result.name, node.op_type, name)

    def _bind(self, node: Any, name: str, results: Any) -> None:
        """Give the node's outputs their values; results that are not bound yet are emitted under the outputs' names."""
        if not isinstance(results, list | tuple):
            results = self._fields(results, node) if len(node.output) > 1 else [results]
        if len([item for item in node.output if item]) > len(results):
            raise ConversionError(
                f"ONNX {node.op_type} (node {name!r}): {len(node.output)} outputs are used, only {len(results)} are supported"
            )
        for output, result in zip(node.output, results):
            if not output:
                continue
            if result is None:
                raise ConversionError(
                    f"ONNX {node.op_type} (node {name!r}): the output {output!r} is not supported"
                )
            if isinstance(result, np.ndarray | np.generic):
                result = Known(np.asarray(result))
            elif isinstance(result, Expr) and not isinstance(result, Var):
                result = self.builder.emit(result, _as_identifier(output))
            if isinstance(result, Var) and isinstance(result.struct_info_, TensorStructInfo):
                result = self._with_named_extents(node, name, output, result)
            self.values[output] = result

    def _with_named_extents(self, node: Any, name: str, output: str, value: Var) -> Var:
        """A tensor whose extents depend on data, as Unique's do, with a symbol for each: the run says what they are."""
        info = value.struct_info_
        assert isinstance(info, TensorStructInfo)
        if info.shape_values is not None or info.ndim < 0:
            return value
        if node.op_type not in _DATA_DEPENDENT:
            inputs = ", ".join(_describe(self.values.get(item)) for item in node.input)
            raise DynamicShapeError(
                f"ONNX {node.op_type} (node {name!r}) with inputs ({inputs}): the shape of the result is not known before the program"
                " runs, because it is not known which of these extents are equal; give fixed input shapes through"
                " shape_dict={'input name': [...]} (--shape on the command line), or give equal extents one name in the model"
            )
        base = _as_identifier(output)
        dims = [SizeVar(f"{base}_dim{axis}", "int64") for axis in range(info.ndim)]
        return self.builder.match_cast(value, TensorStructInfo(dims, info.dtype), base)

    def _fields(self, result: Expr, node: Any) -> list[Expr]:
        bound = self.builder.emit(result)
        if not isinstance(bound.struct_info, TupleStructInfo):
            return [bound]
        return [TupleGetItem(bound, i) for i in range(len(bound.struct_info.fields))]

    def _value(self, item: str, op_type: str, node: str) -> Value:
        try:
            return self.values[item]
        except KeyError:
            raise InvalidModelError(
                f"ONNX {op_type} (node {node!r}) reads the value {item!r}, which no earlier node, weight or input defines; "
                "the graph is broken or not sorted, export it again"
            ) from None

    def _output(self, name: str) -> Expr:
        value = self._value(name, "graph output", name)
        return value.as_expr(self.builder) if isinstance(value, Known) else value


def _all_nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and of the branches in it."""
    for node in graph.node:
        yield node
        if node.op_type == "If":
            for attribute in node.attribute:
                if attribute.name in ("then_branch", "else_branch"):
                    yield from _all_nodes(attribute.g)


def _declared_shape(item: Any) -> list[Any] | None:
    """The shape of a graph's input: integers, names, and None for what has neither; None when even the rank is open.

    Names such as ``?`` say only that an extent is not known; two of them need not be equal.
    """
    tensor = item.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    shape: list[Any] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            shape.append(int(dim.dim_value))
        else:
            shape.append(dim.dim_param if any(char.isalnum() for char in dim.dim_param) else None)
    return shape


def _require_arity(node: Any, domain: str, version: int) -> None:
    """Refuse a node with more or fewer inputs or outputs than ONNX says that its operator has."""
    from onnx import defs

    if not defs.has(node.op_type, version, domain):
        return
    schema = defs.get_schema(node.op_type, version, domain)
    for what, values, least, most in (
        ("inputs", node.input, schema.min_input, schema.max_input),
        ("outputs", node.output, schema.min_output, schema.max_output),
    ):
        if not least <= len(values) <= most:
            bounds = str(least) if least == most else f"{least} to {most}"
            raise InvalidModelError(
                f"{node.op_type} (node {node.name or (node.output[0] if node.output else '')!r}) has {len(values)} {what}, and ONNX"
                f" has it with {bounds}"
            )


def _attributes(node: Any, name: str) -> dict[str, Any]:
    """The attributes of a node by their names, as plain values; ``name`` is the node's."""
    from onnx import helper

    found: dict[str, Any] = {}
    for attribute in node.attribute:
        what = f"the attribute {attribute.name!r} of {node.op_type} (node {name!r})"
        try:
            found[attribute.name] = _plain(helper.get_attribute_value(attribute), what)
        except ValueError as error:  # of an unknown type, or text that is none
            raise InvalidModelError(f"{what} cannot be read: {error}") from error
    return found


def _plain(value: Any, what: str) -> Any:
    from onnx import TensorProto

    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, TensorProto):
        return _array_of(value, what)
    if isinstance(value, list | tuple) or type(value).__name__.startswith("Repeated"):
        return [_plain(item, what) for item in value]
    return value


def _array_of(tensor: Any, what: str) -> np.ndarray:
    """The numbers of a tensor of a file.

    Raises:
        InvalidModelError: they are of no type that ONNX has, fewer or more than its shape says, or not there.
    """
    from onnx import numpy_helper

    try:
        found: np.ndarray = numpy_helper.to_array(tensor)
    except KeyError as error:
        raise InvalidModelError(
            f"{what} has elements of the type {error}, which ONNX does not have"
        ) from error
    except (ValueError, TypeError, OSError) as error:
        raise InvalidModelError(f"{what} cannot be read: {error}") from error
    return found


def _describe(value: Value | None) -> str:
    if value is None:
        return "none"
    if isinstance(value, Known):
        return f"constant {list(value.array.shape)}"
    return str(value.struct_info_)


def _as_identifier(name: str) -> str:
    """A valid identifier close to ``name``."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return text if re.match(r"[A-Za-z_]", text) else f"input_{text}"
