"""convolution_of: what looks like a convolution and computes something else is refused, with what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import tir
from ir.script import from_source
from schedules import LoopRV, Schedule
from schedules.block_facts import node_of
from schedules.convolution import convolution_of

from .checks import assert_refused, main_of
from .primitive.test_winograd import outputs

PARTS: dict[str, Any] = {
    "data": (4, 6, 6, 2),
    "output": (4, 4, 4, 2),
    "width": 4,
    "place": "n, h, w, k",
    "factor": "D[n, h + r, w + s, c]",
    "weight": "W[r, s, c, k]",
    "rows": "4",
    "init": 0,
}


def program(**changes: Any) -> tir.PrimFunc:
    """A convolution in a block C, with some of its parts changed."""
    return from_source(
        """
@T.prim_func
def main(D: T.Buffer({data}, "float64"), W: T.Buffer((3, 3, 2, 4), "float64"), O: T.Buffer({output}, "float64")):
    T.func_attr({{"tir.noalias": True}})
    for i, j, l, m, a, b, d in T.grid(4, 4, 4, 2, 3, 3, 2):
        with T.block("C"):
            n = T.axis.spatial(4, i)
            h = T.axis.spatial({rows}, j)
            w = T.axis.spatial({width}, l)
            k = T.axis.spatial(2, m)
            r, s, c = T.axis.remap("RRR", [a, b, d])
            with T.init():
                O[{place}] = T.float64({init})
            O[{place}] = O[{place}] + {factor} * {weight}
""".format(**(PARTS | changes))
    )


ALONG_ONE_AXIS = from_source("""
@T.prim_func
def main(D: T.Buffer((4, 8, 2), "float64"), W: T.Buffer((3, 3, 2, 2), "float64"), O: T.Buffer((4, 4, 2), "float64")):
    for i, j, m, a, b, d in T.grid(4, 4, 2, 3, 3, 2):
        with T.block("C"):
            n, h, k, r, s, c = T.axis.remap("SSSRRR", [i, j, m, a, b, d])
            with T.init():
                O[n, h, k] = T.float64(0)
            O[n, h, k] = O[n, h, k] + D[n, h + r + s, c] * W[r, s, c, k]
""")
"""Both taps move the filter along the same axis."""


@pytest.mark.parametrize(
    "func",
    [
        program(),
        program(factor="W[r, s, c, k]", weight="D[n, h + r, w + s, c]"),
        program(data=(4, 15, 11, 2), factor="D[n, h * 2 + r * 4, w + s * 3 + 1, c]"),
        program(factor="D[n, (h + r) // 2, (w + s * 2) % 6, c]"),
        program(factor="D[n, 5 - h - r, (w * 2 + s * 4) // 3, c]"),
    ],
)
def test_the_program_is_a_convolution_as_long_as_nothing_is_changed(func: tir.PrimFunc) -> None:
    sch = Schedule(func)
    sch.winograd("C", 2)
    np.testing.assert_allclose(outputs(main_of(sch)), outputs(func), rtol=1e-10, atol=1e-11)


def test_axes_are_in_the_outputs_order() -> None:
    """Winograd's algorithm is that of its last two, along which it walks through memory."""
    sch = Schedule(program(place="n, w, h, k", factor="D[n, h + r, w + s * 2, c]", data=(4, 6, 8, 2)))
    form = convolution_of(node_of(sch, sch.get_block("C")))
    assert [item.var.name for item in form.places] == ["w", "h"]
    assert [item.var.name for item in form.taps] == ["s", "r"] and form.dilations == (2, 1)


@pytest.mark.parametrize(
    ("func", "lacks"),
    [
        (ALONG_ONE_AXIS, "two axes along which"),
        # only the diagonal of the output is written
        (program(output=(4, 4, 4, 2, 2), place="n, h, w, k, k"), "each once"),
        (program(output=(4, 4, 4, 4, 2), place="n, h, h, w, k"), "each once"),
        # the loop leaves the second half of the rows alone
        (program(data=(4, 6, 10, 2), output=(4, 4, 8, 2), width=8), "all of its domain"),
        # sums that begin at 1, domains that do not begin at 0, filters that lie on a diagonal of the weights, or are less than they
        (program(init=1), "sums no products from zero"),
        (program(rows="(1, 5)", factor="D[n, h - 1 + r, w + s, c]", place="n, h - 1, w, k"), "known extents"),
        (program(weight="W[r, s, k, k]"), "neither factor of its products"),
        (program(weight="W[r, s, c, n]", factor="D[n, h + r, w + s, k]"), "one variable of its filters"),
        (program(weight="W[r, s, c, h]"), "weights of filters, channels and taps"),
        (program(weight="W[r, s, w // 4, k]"), "neither factor of its products"),
        # taps that move against the places, and rows of which the taps know more than every second
        (program(factor="D[n, h - r + 2, w - s + 2, c]"), "two axes along which"),
        (program(data=(4, 9, 6, 2), factor="D[n, h * 2 + r, w + s, c]"), "two axes along which"),
        # what is computed first is a factor of the rest
        (program(factor="(D[n, h + r, w + s, c] + O[0, 0, 0, 0])"), "none of its results"),
    ],
)
def test_what_is_nearly_a_convolution_is_refused(func: tir.PrimFunc, lacks: str) -> None:
    sch = Schedule(func)
    assert_refused(sch, lambda: sch.winograd("C", 2), lacks)


@pytest.mark.parametrize(
    "change", [lambda sch, loop: sch.bind(loop, "threadIdx.x"), lambda sch, loop: sch.annotate(loop, "a", 1)]
)
def test_a_nest_that_somebody_has_scheduled_is_refused(change: Callable[[Schedule, LoopRV], None]) -> None:
    sch = Schedule(program())
    change(sch, sch.get_loops("C")[0])
    assert_refused(sch, lambda: sch.winograd("C", 2), "an untouched nest of its own")


def test_a_filter_that_moves_along_seven_axes_is_refused() -> None:
    places, taps = ([f"{kind}{n}" for n in range(7)] for kind in "pt")
    names = ["n", *places, "k", *taps, "c"]
    extents = [1, *[2] * 7, 1, *[3] * 7, 1]
    data = ", ".join(f"v{place} + v{tap}" for place, tap in zip(places, taps, strict=True))
    weight = ", ".join(f"v{tap}" for tap in taps)
    place = ", ".join(f"v{name}" for name in ["n", *places, "k"])
    func = from_source(f"""
@T.prim_func
def main(D: T.Buffer((1, {"4, " * 7}1), "float32"), W: T.Buffer(({"3, " * 7}1, 1), "float32"), O: T.Buffer((1, {"2, " * 7}1), "float32")):
    for {", ".join(names)} in T.grid({", ".join(map(str, extents))}):
        with T.block("C"):
            {", ".join(f"v{name}" for name in names)} = T.axis.remap("{"S" * 9}{"R" * 8}", [{", ".join(names)}])
            with T.init():
                O[{place}] = T.float32(0)
            O[{place}] = O[{place}] + D[vn, {data}, vc] * W[{weight}, vc, vk]
""")
    sch = Schedule(func)
    assert_refused(sch, lambda: sch.winograd("C", 2), "moves along 7 axes, more than 6")
