"""What a row of a suite is: an operator, declared once as a tensor expression with inputs, reference and cost.

The definition is written for every :class:`Language` with the names of tensor expressions, so that a peer tunes the same
program; this module needs numpy only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
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
class Peers:
    """How other libraries write an operator; None where a library has none."""

    torch: Callable[..., Callable[..., Any]] | None = None
    """``torch(library, *shape)``: from the module ``torch`` to a function of the inputs."""
    onnx: Callable[..., list[Any]] | None = None
    """``onnx(node, *shape)``: the nodes that make ``y`` of the inputs ``x0``, ``x1``...; ``node`` is ``onnx.helper.make_node``."""
    numpy: Callable[..., Array] | None = None
    """``numpy(arrays, *shape)``."""
    weights: int = 0
    """How many of the last inputs a model holds as constants, which a library may pack beforehand."""
    torch_weight: Callable[[Any], Any] = lambda weight: weight
    """From a weight to the same in the memory order that PyTorch's own modules hold it in."""
    channels_last: bool = False
    """Whether the first input and the output have their channels last: the functions above get and give them as NCHW, in
    memory as they are in PyTorch, and rearranged beforehand for ONNX Runtime, which has no other layout."""


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
    """``reference(arrays, *shape)``: the result in float64, or exact."""
    flops: Callable[..., int] | None
    """Operations that the operator needs (a multiplication and an addition count two); None if it only moves bytes."""
    draw: Callable[..., list[Array]] | None = None
    """``draw(random generator, *shape)``: inputs that must be of a certain kind, such as indices within a table."""
    moved: Callable[..., int] | None = None
    """Bytes that must be moved, where that is less than all of the inputs and the output."""
    peers: Peers | None = None
    """None for the first suite, whose forms in other libraries depend on the layouts of convolutions."""

    def tensors(self, shape: Shape | None = None, lang: Language | None = None) -> list[Any]:
        """The parameters as tensors of a language; ``shape`` defaults to the first one to develop with."""
        return self.build(lang or loopsmith(), *(shape or self.shapes[0]))

    def inputs(self, shape: Shape | None = None, seed: int = 0, integers: bool = False) -> list[Array]:
        """Random arrays for every parameter but the output, which is the last one.

        With ``integers`` they hold small whole numbers, so that sums are exact in any order (unless the workload draws its own).
        """
        rng = np.random.default_rng(seed)
        if self.draw is not None:
            return self.draw(rng, *(shape or self.shapes[0]))
        arrays = []
        for tensor in self.tensors(shape)[:-1]:
            extents = extents_of(tensor)
            whole = integers or np.issubdtype(dtype_of(tensor), np.integer)
            values = rng.integers(-3, 4, extents) if whole else rng.standard_normal(extents)
            arrays.append(values.astype(dtype_of(tensor)))
        return arrays

    def bytes_moved(self, shape: Shape | None = None) -> int:
        """Bytes of the inputs and the output, each counted once: what no implementation can avoid."""
        if self.moved is not None:
            return self.moved(*(shape or self.shapes[0]))
        return sum(prod(extents_of(tensor)) * dtype_of(tensor).itemsize for tensor in self.tensors(shape))


def extents_of(tensor: Any) -> tuple[int, ...]:
    """A tensor's shape as numbers."""
    return tuple(int(extent) for extent in tensor.shape)


def dtype_of(tensor: Any) -> np.dtype[Any]:
    """A tensor's dtype as numpy has it."""
    return array_dtype(str(tensor.dtype))


def array_dtype(name: str) -> np.dtype[Any]:
    """numpy's dtype of a name; bfloat16 is none of its own."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def table(*items: Workload) -> dict[str, Workload]:
    """Workloads by their names."""
    return {item.name: item for item in items}


def in_float64(compute: Callable[..., Array]) -> Callable[..., Array]:
    """A reference from what numpy computes of any floats: the same in float64, indices and other integers as they are."""

    def reference(arrays: Sequence[Array], *shape: int) -> Array:
        wide = [item if np.issubdtype(item.dtype, np.integer) else item.astype("float64") for item in arrays]
        return compute(wide, *shape)

    return reference
