"""The kernels of which design spaces are made: operators of random shapes (te), the first operator suite scaled down, and kernels as
script text, regular and irregular; some of their arrays have gaps between rows.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.operators import first_suite, suite
from ir.script import from_source
from ir.tir.function import PrimFunc
from ir.tir.kernel_attributes import layout_free_positions

from ..kernels import kernel
from ..kernels_te import Sizes, workload
from ..oracle import Guarded
from ..schedules import arguments_for

_GAP = 0x5A
_SOFTMAX_ERROR = 1e-3


@dataclass(frozen=True)
class Program:
    """A kernel with arguments, and how far its results may differ when sums are reordered."""

    name: str
    func: PrimFunc
    arguments: list[np.ndarray]
    tolerance: float
    """Relative to the greatest element; 0 where small integers make every order of summation exact."""
    pitches: dict[int, int]
    """By the position of a parameter how many elements lie between its rows and belong to nobody."""


class Pitched:
    """A copy of an array with gaps between its rows, guarded like the memory around it."""

    def __init__(self, array: np.ndarray, pitch: int) -> None:
        *rows, width = array.shape
        self._around = Guarded(np.zeros((*rows, width + pitch), array.dtype))
        self._around.array.view("uint8")[...] = _GAP
        self._gaps = self._around.array[..., width:]
        self.array = self._around.array[..., :width]
        self.array[...] = array

    @property
    def intact(self) -> bool:
        """Whether the gaps and the bytes around are as they were."""
        gaps = np.ascontiguousarray(self._gaps).view("uint8")
        return self._around.intact and bool((gaps == _GAP).all())


def program_of(generator: random.Random, seed: int, work: int) -> Program:
    """A random kernel of about ``work`` steps, with arguments that the seed decides."""
    source = generator.random()
    if source < 0.5:
        made = workload(generator, work)
        arguments = made.arguments(seed, special=generator.random() < 0.25)
        program = Program(made.name, made.func, arguments, made.tolerance, {})
    elif source < 0.7:
        program = _of_suite(generator, seed, work)
    else:
        func = from_source(kernel(generator))
        assert isinstance(func, PrimFunc)
        program = Program("script", func, arguments_for(func, seed), 0.0, {})
    return _pitched(program, generator) if generator.random() < 0.15 else program


def _pitched(program: Program, generator: random.Random) -> Program:
    """The program with gaps between the rows of one of its arrays, if one has rows."""
    func = program.func
    shapes = [[int(extent) for extent in func.buffer_map[param].shape] for param in func.params]  # type: ignore[call-overload]
    free = layout_free_positions(func)  # whose layout is nobody's yet
    fitting = [i for i, shape in enumerate(shapes) if len(shape) > 1 and 0 not in shape and i not in free]
    if not fitting:
        return program
    position, pitch = generator.choice(fitting), generator.choice([1, 3, 8])
    buffer, shape = func.buffer_map[func.params[position]], shapes[position]
    strides = [1]
    for extent in reversed([*shape[1:-1], shape[-1] + pitch]):
        strides.insert(0, strides[0] * extent)
    declared = re.compile(rf"(\b{re.escape(buffer.name)}: T\.Buffer\(\([^()]*\)(?:, \"\w+\")?)\)")
    text, count = declared.subn(rf"\1, strides={strides})", func.script(), count=1)
    if count != 1:
        raise ValueError(f"no declaration of {buffer.name} in\n{func.script()}")
    made: Any = from_source(text)
    return Program(program.name, made, program.arguments, program.tolerance, {position: pitch})


# -- the operator suite ------------------------------------------------------------
def _of_suite(generator: random.Random, seed: int, work: int) -> Program:
    name = generator.choice(sorted(first_suite.WORKLOADS))
    shape = _SHAPES[name](Sizes(generator, work))
    func = suite.workload(name, shape)
    arguments = arguments_for(func, seed)
    return Program(name, func, arguments, _SOFTMAX_ERROR if name == "SFM" else 0.0, {})


def _convolution(
    dim: int, *, dilated: bool = False, grouped: bool = False
) -> Callable[[Sizes], tuple[int, ...]]:
    def shape(sizes: Sizes) -> tuple[int, ...]:
        kernel, stride, padding = sizes.pick(1, 2, 3), sizes.pick(1, 1, 2, 3), sizes.pick(0, 1)
        dilation, groups = sizes.pick(1, 2) if dilated else 1, sizes.pick(1, 2, 3) if grouped else 1
        *spatial, ci, co = sizes.extents(dim + 2, at_most=24)
        reach = dilation * (kernel - 1)
        numbers = ci * groups, co * groups, kernel, stride, padding, dilation, groups
        return (sizes.pick(1, 1, 2), *[extent + reach for extent in spatial], *numbers)

    return shape


def _depthwise(sizes: Sizes) -> tuple[int, ...]:
    kernel, stride, padding = sizes.pick(1, 2, 3), sizes.pick(1, 2), sizes.pick(0, 1)
    h, w, c = sizes.extents(3, at_most=24)
    return (sizes.pick(1, 2), h + kernel - 1, w + kernel - 1, c, kernel, stride, padding)


def _transposed(sizes: Sizes) -> tuple[int, ...]:
    kernel = sizes.pick(1, 2, 3, 4)
    h, w, ci, co = sizes.extents(4, at_most=9)
    return (1, h + 1, w + 1, ci, co, kernel, sizes.pick(1, 2), sizes.random.randrange((kernel + 1) // 2))


def _capsules(sizes: Sizes) -> tuple[int, ...]:
    kernel, capsule = sizes.pick(1, 2, 3), sizes.pick(1, 2, 3)
    h, w, ci, co = sizes.extents(4, at_most=7)
    return (1, h + kernel - 1, w + kernel - 1, ci, co, kernel, sizes.pick(1, 2), sizes.pick(0, 1), capsule)


def _plain(count: int) -> Callable[[Sizes], tuple[int, ...]]:
    return lambda sizes: tuple(sizes.extents(count))


_SHAPES: dict[str, Callable[[Sizes], tuple[int, ...]]] = {
    "C1D": _convolution(1),
    "C2D": _convolution(2),
    "C3D": _convolution(3),
    "DIL": _convolution(2, dilated=True),
    "GRP": _convolution(2, dilated=True, grouped=True),
    "CBR": _convolution(2),
    "DEP": _depthwise,
    "T2D": _transposed,
    "CAP": _capsules,
    "GMM": _plain(4),
    "TBG": _plain(4),
    "NRM": _plain(3),
    "SFM": _plain(2),
}
"""The numbers of each workload of the suite, scaled down."""
