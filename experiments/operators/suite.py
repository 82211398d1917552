"""All rows by name: programs, inputs, references, costs.

>>> func = workload("C2D", (1, 14, 14, 256, 256, 3, 1, 1))
>>> arrays = inputs("C2D", (1, 14, 14, 256, 256, 3, 1, 1), seed=0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import first_suite
from .workload import Array, Language, Shape, Workload, extents_of, loopsmith

WORKLOADS: dict[str, Workload] = first_suite.WORKLOADS


def _of(name: str) -> Workload:
    try:
        return WORKLOADS[name.upper()]
    except KeyError:
        raise KeyError(f"no workload {name!r} in the suite; there are {', '.join(WORKLOADS)}") from None


def tensors(name: str, shape: Shape | None = None, lang: Language | None = None) -> list[Any]:
    """The parameters of a workload as tensors of a language: inputs, then the output."""
    return _of(name).tensors(shape, lang)


def workload(name: str, shape: Shape | None = None, lang: Language | None = None) -> Any:
    """The PrimFunc of a workload; ``shape`` defaults to the first one to develop with."""
    lang = lang or loopsmith()
    return lang.te.create_prim_func(tensors(name, shape, lang))


def inputs(name: str, shape: Shape | None = None, seed: int = 0, integers: bool = False) -> list[Array]:
    """Random arrays for every parameter of the workload but the output; see :meth:`Workload.inputs`."""
    return _of(name).inputs(shape, seed, integers)


def output_shape(name: str, shape: Shape | None = None) -> tuple[int, ...]:
    """Shape of the output."""
    return extents_of(tensors(name, shape)[-1])


def reference(name: str, arrays: Sequence[Array], shape: Shape | None = None) -> Array:
    """The result by numpy in float64."""
    item = _of(name)
    return item.reference(arrays, *(shape or item.shapes[0]))


def flops(name: str, shape: Shape | None = None) -> int:
    """Floating-point operations that the operator needs."""
    item = _of(name)
    return item.flops(*(shape or item.shapes[0]))


def bytes_moved(name: str, shape: Shape | None = None) -> int:
    """Bytes that no implementation can avoid to move."""
    return _of(name).bytes_moved(shape)


def parse_rows(items: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Rows as people name them: ``C2D`` (all its shapes), ``C2D:1,56,56,64,64,1,1,0``, or ``operators`` (all of them).

    Raises:
        KeyError: there is no such workload.
    """
    rows: list[tuple[str, tuple[int, ...]]] = []
    for item in items:
        name, _, dims = item.partition(":")
        if item == "operators":
            rows += [(key, shape) for key, work in WORKLOADS.items() for shape in work.shapes]
        elif dims:
            rows.append((_of(name).name, tuple(int(dim) for dim in dims.split(","))))
        else:
            rows += [(_of(name).name, shape) for shape in _of(name).shapes]
    return rows
