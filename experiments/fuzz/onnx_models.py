"""Random ONNX models, valid by construction: a graph that grows node by node, with shapes, dtypes and exactness followed.

Numbers are small halves and integers, among them NaN, infinities, negative zero and the ends of integer types, so that sums and products
stay exact, and what rounds or compares (:attr:`Value.exact`) may stand behind them. What stands behind a transcendental
function or a quotient is only compared within a tolerance, so that no operator with jumps gets it. Operators that ONNX leaves
undefined somewhere (integer division by zero, indices out of range) get operands for which they are defined.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 21
FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int32", "int64", "int8", "uint8")
_EXACT_UP_TO = {"float16": 2.0**9, "float32": 2.0**20, "float64": 2.0**40}
_MAX_ELEMENTS = 4096


@dataclass(frozen=True)
class Value:
    """A tensor of the graph."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    exact: bool = True
    """Whether every right implementation computes the same numbers."""
    bound: float = 4.0
    """No finite element is larger in magnitude."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


class Unfit(Exception):
    """A template finds no operands that it can take."""


@dataclass
class Graph:
    """A model that grows."""

    rng: random.Random
    nodes: list[Any] = field(default_factory=list)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def pick(self, *wanted: Callable[[Value], bool]) -> Value:
        """A value that fulfils all wishes; one that nothing has used yet is likelier."""
        fits = [value for value in self.values if all(test(value) for test in wanted)]
        if not fits:
            raise Unfit
        fresh = [value for value in fits if value.name not in self.used]
        return self.rng.choice(fresh if fresh and self.rng.random() < 0.7 else fits)

    def node(
        self,
        op: str,
        operands: Sequence[Value | str],
        dtype: str,
        shape: Sequence[int],
        exact: bool = True,
        bound: float = 4.0,
        **attrs: Any,
    ) -> Value:
        """A node with one result."""
        return self.nodes_of(op, operands, [(dtype, shape)], exact, bound, **attrs)[0]

    def nodes_of(
        self,
        op: str,
        operands: Sequence[Value | str],
        results: Sequence[tuple[str, Sequence[int]]],
        exact: bool = True,
        bound: float = 4.0,
        **attrs: Any,
    ) -> list[Value]:
        """A node with several results."""
        if any(np.prod(shape, dtype=np.int64) > _MAX_ELEMENTS for _, shape in results):
            raise Unfit
        names = [item if isinstance(item, str) else item.name for item in operands]
        exact = exact and all(item.exact for item in operands if isinstance(item, Value))
        made = []
        for dtype, shape in results:
            good = exact and bound <= _EXACT_UP_TO.get(dtype, np.inf)
            made.append(Value(f"v{len(self.values)}", dtype, tuple(shape), good, bound))
            self.values.append(made[-1])
        self.nodes.append(helper.make_node(op, names, [item.name for item in made], **attrs))
        self.used.update(names)
        return made

    def weight(self, array: Any, dtype: str = "int64") -> str:
        """A constant."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array, dtype)
        return name

    def given(self, dtype: str, shape: Sequence[int], small: bool = False, edges: bool = True) -> Value:
        """A new input, or a weight, of random numbers."""
        array = numbers(self.rng, dtype, shape, small, edges)
        if self.rng.random() < 0.3:
            name = self.weight(array, dtype)
        else:
            name = f"x{len(self.inputs)}"
            self.inputs[name] = array
        high = {"bool": 1.0}.get(dtype, 4.0)
        if dtype in INTEGERS and edges:
            high = float(np.iinfo(dtype).max)
        value = Value(name, dtype, tuple(shape), True, high)
        self.values.append(value)
        return value

    def shape(self, low: int = 0, high: int = 4, cap: int = 6) -> tuple[int, ...]:
        """A random shape; ones and zeros are likely."""
        extents = [*range(2, cap + 1), 1, 1, *([0] if self.rng.random() < 0.2 else [])]
        return tuple(self.rng.choice(extents) for _ in range(self.rng.randint(low, high)))

    def axis(self, value: Value) -> int:
        """An axis of a value, counted from either end."""
        if not value.rank:
            raise Unfit
        return self.rng.randrange(-value.rank, value.rank)

    def axes(self, value: Value) -> list[int]:
        """Some axes of a value, each once."""
        chosen = self.rng.sample(range(value.rank), self.rng.randint(0, value.rank))
        return [axis - value.rank if self.rng.random() < 0.3 else axis for axis in chosen]

    def model(self) -> onnx.ModelProto:
        """The model; everything that nothing uses is an output."""
        results = [item for item in self.values if item.name not in self.used and item.name.startswith("v")]

        def info(name: str, dtype: str, shape: Sequence[int]) -> Any:
            return helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
            )

        graph = helper.make_graph(
            self.nodes,
            "random",
            [info(name, array.dtype.name, array.shape) for name, array in self.inputs.items()],
            [info(item.name, item.dtype, item.shape) for item in results],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)

    @property
    def outputs(self) -> list[Value]:
        return [item for item in self.values if item.name not in self.used and item.name.startswith("v")]


def numbers(
    rng: random.Random, dtype: str, shape: Sequence[int], small: bool = False, edges: bool = True
) -> np.ndarray:
    """Random numbers of a dtype, in halves; ``edges`` adds what arithmetic is tested with."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == "bool":
        return np.array([rng.random() < 0.5 for _ in range(count)], "bool").reshape(shape)
    if dtype in FLOATS:
        found: list[Any] = [rng.randint(-6, 6) / 2 for _ in range(count)]
        special: list[Any] = [np.nan, np.inf, -np.inf, -0.0]
    else:
        info = np.iinfo(dtype)
        found = [rng.randint(0 if info.min == 0 else -4, 4) for _ in range(count)]
        special = [info.min, info.max, 0, 1]
    if edges and not small and rng.random() < 0.4:
        for place in range(count):
            if rng.random() < 0.2:
                found[place] = rng.choice(special)
    return np.array(found, dtype).reshape(shape)


@dataclass(frozen=True)
class RandomModel:
    """A model and its inputs."""

    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    outputs: list[Value]


def random_model(seed: int, size: int = 5) -> RandomModel:
    """The model of a seed, of about ``size`` nodes."""
    from . import onnx_networks  # noqa: F401  it adds its templates
    from .onnx_templates import TEMPLATES

    rng = random.Random(f"onnx {seed}")
    graph = Graph(rng)
    for _ in range(rng.randint(1, 2)):
        dtype = rng.choices(["float32", "float64", "float16", *INTEGERS, "bool"], [10, 2, 2, 3, 3, 1, 1, 1])[
            0
        ]
        graph.given(dtype, graph.shape())
    wanted, tries = rng.randint(1, size), 0
    while len(graph.nodes) < wanted and tries < 60:
        tries += 1
        before = (
            len(graph.nodes),
            len(graph.values),
            dict(graph.inputs),
            dict(graph.weights),
            set(graph.used),
        )
        try:
            rng.choice(TEMPLATES)(graph)
        except Unfit:
            del graph.nodes[before[0] :], graph.values[before[1] :]
            graph.inputs, graph.weights, graph.used = before[2:]
    read = {name for node in graph.nodes for name in node.input}
    graph.inputs = {name: array for name, array in graph.inputs.items() if name in read}
    graph.weights = {name: array for name, array in graph.weights.items() if name in read}
    return RandomModel(graph.model(), graph.inputs, graph.outputs)
