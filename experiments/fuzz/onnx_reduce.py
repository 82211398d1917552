"""A smaller ONNX model that fails in the same way: one result, and nodes whose results become inputs, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .onnx_models import RandomModel
from .onnx_oracle import opinions


def reduced(made: RandomModel, fails: Callable[[RandomModel], bool]) -> RandomModel:
    """The smallest model found.

    Args:
        made: one that fails.
        fails: whether a model fails in the way that matters.
    """
    smaller: RandomModel | None = made
    while smaller is not None:
        made = smaller
        smaller = next((model for model in _smaller(made) if fails(model)), None)
    return made


def _smaller(made: RandomModel) -> Iterator[RandomModel]:
    """Models of one result, then those in which what a node computes is an input."""
    if len(made.outputs) > 1:
        for kept in made.outputs:
            yield _alive(replace(made, outputs=[kept]), made.model.graph.node)
    results = {value.name for value in made.outputs}
    for node in reversed(made.model.graph.node):
        if results.isdisjoint(node.output) and (given := _computed(made, node)) is not None:
            others = [other for other in made.model.graph.node if other is not node]
            yield _alive(replace(made, inputs={**made.inputs, **given}), others)


def _computed(made: RandomModel, node: Any) -> dict[str, np.ndarray] | None:
    """What a node computes; None where nobody runs the model up to there."""
    model = onnx.ModelProto()
    model.CopyFrom(made.model)
    names = [name for name in node.output if name]
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    found = opinions(replace(made, model=model))
    return dict(zip(names, found[0], strict=True)) if found else None


def _alive(made: RandomModel, nodes: Sequence[Any]) -> RandomModel:
    """The model of some nodes, without what none of the results is made of."""
    needed, kept = {value.name for value in made.outputs}, []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            kept.append(node)
            needed.update(node.input)
    inputs = {name: array for name, array in made.inputs.items() if name in needed}
    model = onnx.ModelProto()
    model.CopyFrom(made.model)
    graph = helper.make_graph(
        kept[::-1],
        "reduced",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [info for info in made.model.graph.output if info.name in {value.name for value in made.outputs}],
        [weight for weight in made.model.graph.initializer if weight.name in needed],
    )
    model.graph.CopyFrom(graph)
    return replace(made, model=model, inputs=inputs)
