"""Passes that change how ``main`` is called: weights that are transformed before, bundled, or fetched; results that are handed out.

The program means what it meant when it is called as the passes promise: what one changes is a step more between the program's arguments
and its results.
"""

from __future__ import annotations

import random
from typing import Any

from ir.module import IRModule
from ir.relax import transform as T
from ir.relax.analysis import check_well_formed
from ir.relax.function import Function
from ir.relax.testing.evaluate import Evaluator
from ir.relax.testing.values import received
from ir.transform import Pass

from ..relax.oracle import Meaning, evaluated

_LIFT = "LiftTransformParams"
_BETWEEN = (
    "CanonicalizeBindings", "ConvertToDataflow", "DeadCodeElimination", "EliminateCommonSubexpr", "FoldConstant",
    "InlinePrivateFunctions", "LambdaLift", "Normalize", "RemoveUnusedOutputs", "RemoveUnusedParameters", "ToNonDataflow",
    "TopologicalSort", "DataflowUseInplaceCalls", "LegalizeOps",
)  # fmt: skip
"""Passes that leave the interface of ``main`` alone."""


def with_weights(mod: IRModule, seed: int) -> IRModule:
    """The module where the last parameters of ``main``, some, all or none of them, are weights."""
    main = mod["main"]
    assert isinstance(main, Function)
    count = random.Random(seed).randint(0, len(main.params))
    functions = {
        var: func.with_attr("num_input", count) if func is main else func
        for var, func in mod.functions.items()
    }
    return mod.replace(functions=functions)


def interface_sequence(seed: int) -> list[Pass]:
    """Some of the passes, each once and in the order that makes sense, with others before and behind."""
    generator = random.Random(seed)
    chosen: list[Pass] = []
    if generator.random() < 0.6:
        chosen.append(T.LiftTransformParams(generator.choice([False, False, True])))
    dice = generator.random()
    if dice < 0.35:
        chosen.append(T.BundleModelParams(generator.choice([None, "weights"])))
    elif dice < 0.7 or not chosen:
        chosen.append(T.LazyGetInput())
    if generator.random() < 0.4:
        chosen.insert(generator.randint(0, len(chosen)), T.LazySetOutput())
    passes: list[Pass] = []
    for item in chosen:
        passes += [getattr(T, name)() for name in generator.sample(_BETWEEN, generator.choice([0, 0, 1]))]
        passes.append(item)
    return [
        *passes,
        *(getattr(T, name)() for name in generator.sample(_BETWEEN, generator.choice([0, 1, 2]))),
    ]


class SameThroughInterface:
    """A check that modules are well-formed and mean what a program does, called as the passes so far promise."""

    def __init__(self, program: Meaning, mod: IRModule) -> None:
        self._program = program
        self._count = int(mod["main"].attrs["num_input"])
        self._names = [param.name_hint for param in mod["main"].params]  # type: ignore[attr-defined]
        self._done: list[str] = []

    def __call__(self, mod: IRModule, name: str) -> str:
        """What is wrong with a module that a pass left; empty where nothing is."""
        check_well_formed(mod)
        if name not in self._done:
            self._done.append(name)
        return self._program.difference(evaluated(mod, self._program.given, run=self._run))

    def _run(self, evaluator: Evaluator, values: list[Any]) -> Any:
        assert evaluator.mod is not None
        mod, done = evaluator.mod, self._done
        inputs, weights, names = values[: self._count], values[self._count :], self._names[self._count :]
        if _LIFT in done:
            (transform,) = [
                func for var, func in mod.functions.items() if var.name_hint.endswith("transform_params")
            ]
            # It is a function with weights as well, one tuple, for the passes that come after it.
            later = done[done.index(_LIFT) :]
            weights, names = _called(evaluator, transform, [], [list(weights)], [], later), []
        return _called(evaluator, mod["main"], inputs, weights, names, done)


def _called(
    evaluator: Evaluator, func: Any, inputs: list[Any], weights: list[Any], names: list[str], done: list[str]
) -> Any:
    """The result of a function with inputs and weights, to which some passes have been applied."""
    args = [*inputs, *weights]
    if "BundleModelParams" in done:
        args = [*inputs, list(weights)]
    if "LazyGetInput" in done:
        args = [*inputs, _Fetch(weights, names)]
    results: dict[int, Any] = {}
    if "LazySetOutput" not in done:
        return evaluator.invoke(func, args)

    def hand_out(number: Any, value: Any) -> tuple[()]:
        results[int(number)] = value
        return ()

    args.insert(len(inputs), hand_out)
    evaluator.invoke(func, args)
    if sorted(results) != list(range(len(results))):
        raise AssertionError(f"the outputs {sorted(results)} are handed out")
    return [received(results[number]) for number in range(len(results))]


class _Fetch:
    """The callback of LazyGetInput: weights by number, whose names it is told."""

    def __init__(self, weights: list[Any], names: list[str]) -> None:
        self._weights, self._names = weights, names

    def __call__(self, number: Any, name: str) -> Any:
        if self._names and self._names[int(number)] != name:
            raise AssertionError(
                f"weight {int(number)} is {self._names[int(number)]}, and asked for as {name}"
            )
        return self._weights[int(number)]
