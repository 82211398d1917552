"""Effects, and the two that come with the library: printing (and debug functions), and a cache of keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir.relax import op as _op
from ir.relax.block_builder import BlockBuilder
from ir.relax.expr import PrimValue, ShapeExpr, Var
from ir.relax.struct_info import ObjectStructInfo, TensorStructInfo
from ir.tir.expr import Var as TirVar

from .error import NNError, NNTypeError
from .tensor import Tensor, get_default_dtype
from .tracing import current_builder


class Effect:
    """State outside the dataflow of tensors: printing, caches. Methods thread it through as extra inputs and outputs."""

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        """Emit the initial state; called for the function ``_initialize_effect``."""
        raise NNError(f"{type(self).__name__} does not define emit_init")

    def create(self, name_hint: str) -> list[Var]:
        """New variables that stand for the state as inputs of a function."""
        raise NNError(f"{type(self).__name__} does not define create")

    def set_state(self, state_vars: list[Var]) -> None:
        """Use these variables as the current state."""
        raise NNError(f"{type(self).__name__} does not define set_state")

    def finalize(self) -> list[Var]:
        """The variables of the last state, which the function returns; the effect forgets them."""
        raise NNError(f"{type(self).__name__} does not define finalize")

    def to(self, dtype: str | None = None) -> None:
        """Convert the state to a dtype; most effects have none."""


class IOEffect(Effect):
    """Input and output, such as printing a tensor or calling a debug function; threads an object that orders them."""

    effect: Var | None

    def __init__(self) -> None:
        self.effect = None

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        """The initial state, a null object."""
        return [builder.emit(_op.null_value(), f"{name_hint}_io")]

    def create(self, name_hint: str) -> list[Var]:
        """The input that carries the state."""
        if self.effect is not None:
            raise NNError("the effect is in use already; finalize it first")
        self.effect = Var(f"{name_hint}_io", struct_info=ObjectStructInfo())
        return [self.effect]

    def set_state(self, state_vars: list[Var]) -> None:
        """Use this variable as the current state."""
        (self.effect,) = state_vars

    def finalize(self) -> list[Var]:
        """The last state."""
        if self.effect is None:
            raise NNError("the effect has no state; create it first")
        result, self.effect = self.effect, None
        return [result]


class KVCache(Effect):
    """A growing tensor of keys or values, ``[n, *unit_shape]``, kept by the runtime and changed in place.

    Args:
        init_seq_len: the first capacity.
        unit_shape: the shape of one element.
        dtype: the dtype; by default :func:`get_default_dtype`.
    """

    cache: Var | None

    def __init__(self, init_seq_len: int, unit_shape: Sequence[int], dtype: str | None = None) -> None:
        self.init_seq_len = init_seq_len
        self.unit_shape = [int(extent) for extent in unit_shape]
        self.dtype = dtype or get_default_dtype()
        self.cache = None

    def emit_init(self, name_hint: str, bb: BlockBuilder) -> list[Var]:  # type: ignore[override]
        """The initial cache, empty with room for ``init_seq_len`` elements."""
        shape = ShapeExpr([self.init_seq_len, *self.unit_shape])
        call = _op.call_pure_packed(
            "vm.builtin.attention_kv_cache_create",
            _op.zeros(shape, self.dtype),
            shape,
            PrimValue(0),
            sinfo_args=[ObjectStructInfo()],
        )
        return [bb.emit(call, name_hint)]

    def create(self, name_hint: str) -> list[Var]:
        """The input that carries the cache."""
        self.cache = Var(name_hint, struct_info=ObjectStructInfo())
        return [self.cache]

    def set_state(self, state_vars: list[Var]) -> None:
        """Use this variable as the current cache."""
        (self.cache,) = state_vars

    def finalize(self) -> list[Var]:
        """The cache after the last append."""
        result, self.cache = self._current(), None
        return [result]

    def to(self, dtype: str | None = None) -> None:
        """Convert the cache to a dtype."""
        if dtype is not None:
            self.dtype = dtype

    def view(self, seq_len: TirVar | int) -> Tensor:
        """The last ``seq_len`` elements, ``[seq_len, *unit_shape]``."""
        shape = ShapeExpr([seq_len, *self.unit_shape])
        call = _op.call_pure_packed(
            "vm.builtin.attention_kv_cache_view",
            self._current(),
            shape,
            sinfo_args=[TensorStructInfo(shape, self.dtype)],
        )
        return Tensor(_expr=current_builder().emit(call))

    def append(self, new_element: Tensor) -> None:
        """Add elements, ``[n, *unit_shape]``, to the end."""
        if new_element.dtype != self.dtype:
            raise NNTypeError(
                f'KVCache has been set to use dtype "{self.dtype}", but got "{new_element.dtype}"; convert it with astype'
            )
        call: Any = _op.call_inplace_packed(
            "vm.builtin.attention_kv_cache_append",
            self._current(),
            new_element._expr,
            inplace_indices=[0],
            sinfo_args=[ObjectStructInfo()],
        )
        self.cache = current_builder().emit(call)

    def _current(self) -> Var:
        if self.cache is None:
            raise NNError("the cache is used outside a method that is being exported")
        return self.cache
