"""What a row of a suite is: an operator, declared once as a tensor expression with inputs, reference and cost.

The definition is written for every :class:`Language` with the names of tensor expressions, so that a peer tunes the same
program; this module needs numpy only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol, cast

import numpy as np

Shape = Sequence[int]
Array = np.ndarray


class Language(Protocol):
    """What the definitions are written in: the tensor expressions and operators of this compiler, or of a peer with the same names."""

    te: Any
    topi: Any


def loopsmith() -> Language:
    """This compiler's tensor expressions."""
    from ir import te, topi

    return cast(Language, SimpleNamespace(te=te, topi=topi))


@dataclass(frozen=True)
class Workload:
    """One operator of a suite."""

    name: str
    description: str
    shapes: tuple[tuple[int, ...], ...]
    """Shapes to develop with; nothing may depend on them."""
    build: Callable[..., list[Any]]
    """From the language and the shape's numbers to the parameters: inputs, then the output."""
    reference: Callable[..., Array]
    """``reference(arrays, *shape)``: the result in float64."""
    flops: Callable[..., int]
    """Floating-point operations that the operator needs (a multiplication and an addition count two)."""

    def tensors(self, shape: Shape | None = None, lang: Language | None = None) -> list[Any]:
        """The parameters as tensors of a language; ``shape`` defaults to the first one to develop with."""
        return self.build(lang or loopsmith(), *(shape or self.shapes[0]))

    def inputs(self, shape: Shape | None = None, seed: int = 0, integers: bool = False) -> list[Array]:
        """Random arrays for every parameter but the output, which is the last one.

        With ``integers`` they hold small whole numbers, so that sums are exact in any order.
        """
        rng = np.random.default_rng(seed)
        arrays = []
        for tensor in self.tensors(shape)[:-1]:
            extents = extents_of(tensor)
            values = rng.integers(-3, 4, extents) if integers else rng.standard_normal(extents)
            arrays.append(values.astype("float32"))
        return arrays

    def bytes_moved(self, shape: Shape | None = None) -> int:
        """Bytes of the inputs and the output, each counted once: what no implementation can avoid."""
        return sum(4 * int(np.prod(extents_of(tensor))) for tensor in self.tensors(shape))


def extents_of(tensor: Any) -> tuple[int, ...]:
    """A tensor's shape as numbers."""
    return tuple(int(extent) for extent in tensor.shape)


def table(*items: Workload) -> dict[str, Workload]:
    """Workloads by their names."""
    return {item.name: item for item in items}
