"""Index maps: functions from one set of indices to another, which describe layouts of buffers and blocks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import dtype as dt
from ..error import IRValueError
from ..external import external
from ..node import Node, field, post_order_visit
from .evaluate import evaluate
from .expr import Call, IntImm, PrimExpr, Range, Select, Var, as_exprs
from .operators import cast, const, convert, index_number, logical_or, match_dtypes
from .stmt_functor import StmtExprMutator
from .written_condition import written_as_function


class _Mapping(StmtExprMutator):
    """Puts indices in place of a map's variables; operations on numbers of two types are ones on the wider."""

    def __init__(self, values: Mapping[Any, PrimExpr]) -> None:
        super().__init__()
        self._values = values

    def visit_Var(self, var: Var) -> PrimExpr:
        return self._values.get(var, var)

    def _binary(self, node: Any) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node  # type: ignore[no-any-return]
        return type(node)(*match_dtypes(a, b))  # type: ignore[no-any-return]

    visit_BinaryOpExpr = visit_CmpExpr = _binary

    def visit_Select(self, node: Select) -> PrimExpr:
        true_value, false_value = match_dtypes(self.visit(node.true_value), self.visit(node.false_value))
        return Select(self.visit(node.condition), true_value, false_value)

    def visit_Call(self, node: Call) -> PrimExpr:
        if getattr(node.op, "name", "") != "tir.if_then_else":
            return self.generic_visit(node)  # type: ignore[no-any-return]
        condition, *values = [self.visit(item) for item in node.args]
        true_value, false_value = match_dtypes(*values)
        return Call(true_value.dtype, node.op, (condition, true_value, false_value))


class IndexMap(Node, type_key="tir.IndexMap"):
    """A map from ``initial_indices`` (variables) to ``final_indices`` (expressions over them).

    >>> IndexMap.from_func(lambda i, j: [i // 4, j, i % 4]).map_shape([16, 8])
    [4, 8, 4]
    """

    initial_indices: tuple[Var, ...] = field(defines=True)
    final_indices: tuple[PrimExpr, ...] = field(convert=as_exprs)
    inverse_index_map: Any = field(default=None, kind="leaf", compare=False)
    """The inverse, when it was given rather than derived."""

    AXIS_SEPARATOR: ClassVar[str] = "axis_separator"

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """The map that a Python function computes; raises when it contains axis separators."""
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise IRValueError("the mapping function returned axis separators; use from_func_with_separators")
        return index_map

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int64",
    ) -> tuple[IndexMap, list[int]]:
        """The map and the positions of axis separators among its final indices."""
        names, variadic = [], None
        for param in inspect.signature(mapping_function).parameters.values():
            if param.kind is inspect.Parameter.VAR_POSITIONAL:
                variadic = param.name
            else:
                names.append(param.name)
        if variadic is not None:
            if ndim is None:
                raise IRValueError("a mapping function with *args needs ndim")
            names += [f"{variadic}_{i}" for i in range(ndim - len(names))]
        initial = [Var(name, index_dtype) for name in names]
        with written_as_function():
            result = mapping_function(*initial)
        items = list(result) if isinstance(result, tuple | list) else [result]
        final: list[PrimExpr] = []
        separators: list[int] = []
        for item in items:
            if isinstance(item, str) and item == IndexMap.AXIS_SEPARATOR:
                separators.append(len(final))
            else:
                final.append(convert(item, index_dtype))
        return IndexMap(initial, final, inverse_index_map), separators

    def is_equivalent_to(self, other_map: IndexMap) -> bool:
        """Whether both maps send every index to the same place, as far as simplification can tell."""
        if len(self.initial_indices) != len(other_map.initial_indices) or len(self.final_indices) != len(
            other_map.final_indices
        ):
            return False
        analyzer = external("Analyzer")()
        renamed = other_map.map_indices(self.initial_indices)
        return all(analyzer.can_prove_equal(a, b) for a, b in zip(self.final_indices, renamed, strict=True))

    def map_indices(self, indices: Sequence[Any]) -> list[PrimExpr]:
        """The final indices for given initial ones, simplified."""
        if len(indices) != len(self.initial_indices):
            raise IRValueError(f"the map takes {len(self.initial_indices)} indices, got {len(indices)}")
        return [_simplify(item) for item in self.substituted(indices)]

    def substituted(self, indices: Sequence[Any]) -> list[PrimExpr]:
        """The final indices for given initial ones, as they are.

        The map is index arithmetic: indices of other types than int32 and int64 are converted before it, and an int64 index makes what
        is computed from it int64.
        """
        values = {}
        for var, item in zip(self.initial_indices, indices, strict=True):
            value = index_number(convert(item))
            is_wider = dt.is_index(var.dtype) and dt.bits(value.dtype) < dt.bits(var.dtype)
            values[var] = cast(var.dtype, value) if is_wider else value
        mapping = _Mapping(values)
        return [mapping.visit(item) for item in self.final_indices]

    def map_shape(self, shape: Sequence[Any]) -> list[Any]:
        """The shape of the mapped buffer: the extents that the final indices reach over the initial shape.

        An index that runs over an axis without elements has none either.
        """
        analyzer = external("Analyzer")()
        empty = {
            var
            for var, extent in zip(self.initial_indices, shape, strict=True)
            if isinstance(extent, int | IntImm) and int(extent) == 0
        }
        for var, extent in zip(self.initial_indices, shape, strict=True):
            analyzer.bind(var, Range.from_min_extent(const(0, var.dtype), convert(extent, var.dtype)))
        result = []
        constant = all(isinstance(convert(extent), IntImm) for extent in shape)
        for item in self.final_indices:
            if not empty.isdisjoint(_parts(item)):
                result.append(0)
                continue
            high = analyzer.const_int_bound(item).max_value
            if constant and high < (1 << 60):
                result.append(int(high) + 1)
            else:
                domains = {
                    var: external("interval")(0, convert(extent, var.dtype) - 1)
                    for var, extent in zip(self.initial_indices, shape, strict=True)
                }
                top = analyzer.int_set(item, domains).max_value
                result.append(analyzer.simplify(top + 1))
        return result

    def map_ndarray(self, arr_src: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The array in the new layout (a bijective map over constant shapes), in ``out`` where that is given."""
        result = out
        if result is None:
            result = np.zeros([int(item) for item in self.map_shape(arr_src.shape)], arr_src.dtype)
        split = self._axis_splits(arr_src.shape)
        if split is not None:
            # A weight of a large layer: one transposing copy instead of an address per element.
            factors, order = split
            result[...] = arr_src.reshape(factors).transpose(order)
            return result
        grids = np.indices(arr_src.shape, sparse=True)
        values = {var: grids[i] for i, var in enumerate(self.initial_indices)}
        result[
            tuple(np.broadcast_to(evaluate(item, values), arr_src.shape) for item in self.final_indices)
        ] = arr_src
        return result

    def _axis_splits(self, shape: Sequence[int]) -> tuple[list[int], list[int]] | None:
        """Extents that the axes of ``shape`` are split into, and where each final axis is among them.

        None unless every final index is ``i // a % b`` of one axis, and those of one axis are all its digits.
        """
        digits: list[list[tuple[int, int, int]]] = [[] for _ in shape]  # (a, b, final axis) of each axis
        known = [np.arange(extent, dtype=np.int64) for extent in shape]
        for position, item in enumerate(self.final_indices):
            used = _parts(item)
            axes = [axis for axis, var in enumerate(self.initial_indices) if var in used]
            if len(axes) > 1:
                return None
            axis = axes[0] if axes else 0
            values = np.broadcast_to(evaluate(item, dict(zip(self.initial_indices, known))), (shape[axis],))
            size = int(values.max(initial=0)) + 1
            step = int(np.argmax(values > 0)) if size > 1 else 1
            if step == 0 or not np.array_equal(known[axis] // step % size, values):
                return None
            digits[axis].append((step, size, position))
        factors: list[int] = []
        place: dict[int, int] = {}
        for extent, found in zip(shape, digits):
            covered = 1
            for step, size, position in sorted(found, reverse=True):
                if size > 1 and step * size * covered != extent:
                    return None
                place[position] = len(factors)
                factors.append(size)
                covered *= size
            if covered != extent:
                return None
        return factors, [place[position] for position in range(len(self.final_indices))]

    def inverse(self, shape: Sequence[Any]) -> IndexMap:
        """The inverse over ``shape`` (extents or Ranges); raises IRValueError when the map is not bijective there."""
        return self._inverted(shape, check_bijective=True)[0]

    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, PrimExpr]:
        """The inverse, and the condition on final indices that no initial index maps to (padding).

        Indices below the least that the map reaches are padding too: of ``lambda i: i + 2`` the first two.
        """
        inverse, padding = self._inverted(shape, check_bijective=False)
        if self.inverse_index_map is not None:
            return inverse, padding
        analyzer = external("Analyzer")()
        for var, extent in zip(self.initial_indices, shape, strict=True):
            domain = extent if isinstance(extent, Range) else Range(convert(extent))
            analyzer.bind(var, Range.from_min_extent(_cast(domain.min, var), _cast(domain.extent, var)))
        for index, final in zip(inverse.initial_indices, self.final_indices, strict=True):
            low = analyzer.const_int_bound(final).min_value
            if 0 < low < (1 << 60):
                below = index < const(low, index.dtype)
                padding = (
                    below if isinstance(padding, IntImm) and not padding.value else logical_or(padding, below)
                )
        return inverse, padding

    def _inverted(self, shape: Sequence[Any], check_bijective: bool) -> tuple[IndexMap, PrimExpr]:
        if self.inverse_index_map is not None:
            given = self.inverse_index_map
            given = (
                given if isinstance(given, IndexMap) else IndexMap.from_func(given, len(self.final_indices))
            )
            return given, const(False)
        domains = [item if isinstance(item, Range) else Range(convert(item)) for item in shape]
        return external("invert_index_map")(self, domains, check_bijective)


def _parts(expr: PrimExpr) -> list[Any]:
    found: list[Any] = []
    post_order_visit(expr, found.append)
    return found


def _cast(extent: PrimExpr, var: Var) -> PrimExpr:
    """A bound of a variable's domain in the variable's dtype."""
    return convert(extent.value, var.dtype) if isinstance(extent, IntImm) else extent


def _simplify(expr: PrimExpr) -> PrimExpr:
    return external("Analyzer")().simplify(expr)
