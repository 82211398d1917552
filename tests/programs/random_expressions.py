"""Random tensor programs of several stages, as Hypothesis draws them: chains, broadcasts, windows, reductions, two consumers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from ir import te, tir
from ir.tir import PrimFunc

EXTENTS = (20, 24, 33, 48)


def _scaled(draw: Any, x: Any, inputs: list[Any]) -> Any:
    factor = draw(st.sampled_from([2.0, 3.0]))
    return te.compute(x.shape, lambda *i: x(*i) * factor + 1.0, name="scaled")


def _clipped(draw: Any, x: Any, inputs: list[Any]) -> Any:
    return te.compute(x.shape, lambda *i: tir.max(x(*i), tir.const(0.0, "float32")), name="clipped")


def _biased(draw: Any, x: Any, inputs: list[Any]) -> Any:
    """A vector along one axis is added to all others."""
    axis = draw(st.integers(0, x.ndim - 1))
    bias = te.placeholder((x.shape[axis],), "float32", name=f"bias{len(inputs)}")
    inputs.append(bias)
    return te.compute(x.shape, lambda *i: x(*i) + bias[i[axis]], name="biased")


def _permuted(draw: Any, x: Any, inputs: list[Any]) -> Any:
    order = draw(st.permutations(range(x.ndim)))
    shape = [x.shape[axis] for axis in order]
    return te.compute(shape, lambda *i: x(*[i[order.index(axis)] for axis in range(x.ndim)]), name="permuted")


def _windowed(draw: Any, x: Any, inputs: list[Any]) -> Any:
    """Maxima or sums of three neighbours along an axis, of every one or every other place."""
    axis = draw(st.integers(0, x.ndim - 1))
    step = draw(st.sampled_from([1, 2]))
    combine = draw(st.sampled_from([te.max, te.sum]))
    places = (int(x.shape[axis]) - 3) // step + 1
    shape = [places if dim == axis else extent for dim, extent in enumerate(x.shape)]
    window = te.reduce_axis((0, 3), name="window")

    def value(*i: Any) -> Any:
        place = [item * step + window if dim == axis else item for dim, item in enumerate(i)]
        return combine(x(*place), axis=window)

    return te.compute(shape, value, name="windowed")


def _reduced(draw: Any, x: Any, inputs: list[Any]) -> Any:
    """Sums or maxima along an axis, taken from every element."""
    axis = draw(st.integers(0, x.ndim - 1))
    combine = draw(st.sampled_from([te.max, te.sum]))
    along = te.reduce_axis((0, x.shape[axis]), name="along")
    shape = [extent for dim, extent in enumerate(x.shape) if dim != axis]
    total = te.compute(
        shape, lambda *i: combine(x(*i[:axis], along, *i[axis:]), axis=along), name=f"total{len(inputs)}"
    )
    if draw(st.booleans()):
        return te.compute(x.shape, lambda *i: x(*i) - total(*i[:axis], *i[axis + 1 :]), name="centred")
    return total


def _padded(draw: Any, x: Any, inputs: list[Any]) -> Any:
    """Two zeros before the elements of an axis."""
    axis = draw(st.integers(0, x.ndim - 1))
    shape = [extent + 2 if dim == axis else extent for dim, extent in enumerate(x.shape)]

    def value(*i: Any) -> Any:
        place = [item - 2 if dim == axis else item for dim, item in enumerate(i)]
        return tir.if_then_else(i[axis] >= 2, x(*place), tir.const(0.0, "float32"))

    return te.compute(shape, value, name="padded")


STAGES: tuple[Callable[[Any, Any, list[Any]], Any], ...] = (
    _scaled,
    _clipped,
    _biased,
    _permuted,
    _windowed,
    _reduced,
    _padded,
)


@st.composite
def programs(draw: Any) -> PrimFunc:
    """A program of one to three stages over a tensor of two or three axes, some with a second consumer of what a stage made."""
    shape = [*draw(st.sampled_from([(), (), (4,)])), *draw(st.tuples(*[st.sampled_from(EXTENTS)] * 2))]
    x = te.placeholder(tuple(shape), "float32", name="x")
    inputs, made = [x], [x]
    for _ in range(draw(st.integers(1, 3))):
        made.append(draw(st.sampled_from(STAGES))(draw, made[-1], inputs))
        if made[-1].ndim < 2:
            break
    outputs = [made[-1]]
    if draw(st.booleans()):
        shared = draw(st.sampled_from(made[:-1]))
        outputs.append(te.compute(shared.shape, lambda *i: shared(*i) * 0.5, name="halved"))
    return te.create_prim_func([*inputs, *outputs])
