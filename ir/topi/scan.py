"""Running sums and products: one sequential loop along the axis, parallel over the other axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..te.access_region import line_region
from ..te.operation import extern
from ..te.tensor import Tensor
from ..tir.buffer import decl_buffer
from ..tir.operators import cast, const
from . import loops
from .accumulate import accumulator
from .shape import normalize_axis, product, unravel_index
from .transform import reshape

RUNNING_REDUCTION = "running_reduction"
"""The annotation of a block by which it says that its running sums may be taken in any order and grouping (rule ``[reduce-order]``)."""


def scanop(
    data: Tensor,
    binop: Callable[[Any, Any], Any],
    identity_value: Any,
    op_name: str,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool = False,
    is_free_in_order: bool = False,
) -> Tensor:
    """``out[i] = binop(out[i - 1], data[i])`` along ``axis`` (over the flattened data for None).

    ``exclusive`` leaves each element itself out, so the first result is ``identity_value``. Floats narrower than float32 run in
    that; every result is rounded once. ``is_free_in_order`` declares that each result is a reduction: its elements may be combined in
    any order and grouping.
    """
    kind = dtype or data.dtype
    total = accumulator(kind)
    if axis is None:
        data = reshape(data, (product(data.shape),))
        axis = 0
    along = normalize_axis(axis, data.ndim)
    outer = [extent for position, extent in enumerate(data.shape) if position != along]

    def build(ins: Any, outs: Any) -> Any:
        source, result = ins[0], outs[0]

        def row(number: Any) -> Any:
            rest = unravel_index(number, outer) if outer else []
            running = decl_buffer((1,), total, "running", scope="local")

            def place(position: Any) -> list[Any]:
                return [*rest[:along], position, *rest[along:]]

            def step(position: Any) -> Any:
                combined = binop(running[0], cast(total, source[tuple(place(position))]))
                advance = loops.store(running, [0], combined)
                emit = loops.store(result, place(position), cast(kind, running[0]))
                return loops.seq(emit, advance) if exclusive else loops.seq(advance, emit)

            body = loops.seq(
                loops.store(running, [0], const(identity_value, total)),
                loops.loop(data.shape[along], step, "k"),
            )
            declared = {RUNNING_REDUCTION: 1} if is_free_in_order else None
            reads, writes = (line_region(buffer, rest, along) for buffer in (source, result))
            return loops.scope(f"{op_name}_row", [reads], [writes], [running], body, declared)

        return loops.parallel(product(outer), row)

    return extern(data.shape, [data], build, name=op_name, dtype=kind, tag="scan")


def cumsum(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> Tensor:
    """Running sum along ``axis``; ``dtype`` is that of the accumulation and result."""
    return scanop(data, lambda a, b: a + b, 0, "cumsum_generic", axis, dtype, bool(exclusive), True)


def cumprod(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> Tensor:
    """Running product along ``axis``."""
    return scanop(data, lambda a, b: a * b, 1, "cumprod_generic", axis, dtype, bool(exclusive))
