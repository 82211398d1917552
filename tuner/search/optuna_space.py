"""Structures and decisions as Optuna's parameters: how a row of a sketch's matrix is written as named values, and read back.

Each decision becomes one or several parameters, in the encoding that suits the sampler. A perfect tile of n factors is either one
categorical parameter (``"4x2x8"``) or n - 1 numbers, its factors but the outermost, which the others determine. As numbers they
are sampled on a logarithmic scale, where doubling a factor is a step of the same length everywhere, and read as the nearest row
of the tile's table: a sampler of continuous numbers sees neighbours where the schedules are similar, and each row is reached.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from schedules.population import Sketch
from schedules.population.decision import CategoricalDecision, Decision, TileDecision

from ..error import TunerError

STRUCTURE = "sketch"
"""The parameter that names the structure, where a study holds several."""
_HALF_OCTAVE = math.sqrt(2)
"""Bounds of a factor lie half a doubling outside, so that the smallest and the largest get as much room as those between."""


def import_optuna() -> Any:
    """The module ``optuna``.

    Raises:
        TunerError: it is not installed.
    """
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise TunerError(
            "this needs Optuna, which is not installed: pip install 'loopsmith[search]' brings it"
        ) from error
    return optuna


@contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's notices of new studies, and of features that it calls experimental."""
    optuna = import_optuna()
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


@dataclass(frozen=True)
class Encoding:
    """How decisions are written for a sampler."""

    whole_up_to: float = math.inf
    """A tile of at most so many rows is one categorical parameter; a larger one is a number per factor."""
    categories: bool = True
    """Whether a categorical decision is a categorical parameter; otherwise it is the position as a number."""


class _Column(Protocol):
    """One decision as parameters."""

    distributions: dict[str, Any]

    def number(self, params: Mapping[str, Any]) -> int:
        """The decision's number that parameters mean."""

    def params(self, number: int) -> dict[str, Any]:
        """The parameters of a number; :meth:`number` is its inverse."""


class _Whole:
    """A decision as one categorical parameter."""

    def __init__(self, name: str, labels: Sequence[str]) -> None:
        self._name, self._labels = name, labels
        self._numbers = {label: number for number, label in enumerate(labels)}
        self.distributions = {name: import_optuna().distributions.CategoricalDistribution(labels)}

    def number(self, params: Mapping[str, Any]) -> int:
        return self._numbers[params[self._name]]

    def params(self, number: int) -> dict[str, Any]:
        return {self._name: self._labels[number]}


class _Position:
    """A decision as the number of its choice."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self.distributions = {name: import_optuna().distributions.IntDistribution(0, size - 1)}

    def number(self, params: Mapping[str, Any]) -> int:
        return int(params[self._name])

    def params(self, number: int) -> dict[str, Any]:
        return {self._name: int(number)}


class _Factors:
    """A perfect tile as its factors but the outermost, each on a logarithmic scale."""

    def __init__(self, name: str, table: np.ndarray) -> None:
        float_distribution = import_optuna().distributions.FloatDistribution
        varying = [place for place in range(1, table.shape[1]) if np.ptp(table[:, place]) > 0]
        self._places = {f"{name}_{place}": place for place in varying}
        self._table, self._logs = table, np.log2(table.astype(np.float64))
        self.distributions = {
            key: float_distribution(
                table[:, place].min() / _HALF_OCTAVE, table[:, place].max() * _HALF_OCTAVE, log=True
            )
            for key, place in self._places.items()
        }

    def number(self, params: Mapping[str, Any]) -> int:
        """The row that is nearest in the logarithms of all factors; the product's rest goes to the outermost."""
        wanted = self._logs[0].copy()
        for key, place in self._places.items():
            wanted[place] = math.log2(params[key])
        wanted[0] = self._logs[0].sum() - wanted[1:].sum()
        return int(((self._logs - wanted) ** 2).sum(axis=1).argmin())

    def params(self, number: int) -> dict[str, Any]:
        return {key: float(self._table[number, place]) for key, place in self._places.items()}


class SketchSpace:
    """The decisions of one sketch as parameters; decisions without a choice have none.

    Args:
        sketch: a structure.
        encoding: how its decisions are written.
        prefix: begins each parameter's name.
    """

    def __init__(self, sketch: Sketch, encoding: Encoding, prefix: str = "") -> None:
        self.sketch = sketch
        names = unique_names([decision.name for decision in sketch.decisions])
        self._columns: dict[int, _Column] = {
            position: _column(prefix + name, decision, encoding)
            for position, (name, decision) in enumerate(zip(names, sketch.decisions, strict=True))
            if decision.size > 1
        }
        self.distributions: dict[str, Any] = {
            key: value for column in self._columns.values() for key, value in column.distributions.items()
        }

    def row(self, params: Mapping[str, Any]) -> np.ndarray:
        """Decisions int64 [n_columns] of parameters; they may break the sketch's constraints."""
        row = np.zeros(self.sketch.n_columns, dtype=np.int64)
        for position, column in self._columns.items():
            row[position] = column.number(params)
        return row

    def params(self, row: np.ndarray) -> dict[str, Any]:
        """The parameters of decisions; :meth:`row` is its inverse."""
        return {
            key: value
            for position, column in self._columns.items()
            for key, value in column.params(int(row[position])).items()
        }


class StructureSpace:
    """Several sketches as one space of conditional parameters: the structure first, then the decisions of that structure.

    Args:
        sketches: the structures.
        encoding: how decisions are written.
    """

    def __init__(self, sketches: Sequence[Sketch], encoding: Encoding) -> None:
        labels = structure_names(sketches)
        many = len(sketches) > 1
        self.spaces = [
            SketchSpace(sketch, encoding, f"{label}." if many else "")
            for sketch, label in zip(sketches, labels, strict=True)
        ]
        self._structure = _Whole(STRUCTURE, labels) if many else None

    def suggest(self, trial: Any) -> tuple[int, np.ndarray]:
        """Ask an Optuna trial for each parameter in turn; the number of the structure and its decisions int64 [n_columns]."""
        params: dict[str, Any] = {}
        number = 0
        if self._structure is not None:
            _suggest(trial, self._structure.distributions, params)
            number = self._structure.number(params)
        space = self.spaces[number]
        _suggest(trial, space.distributions, params)
        return number, space.row(params)

    def params(self, number: int, row: np.ndarray) -> dict[str, Any]:
        """The parameters of a row of a structure."""
        structure = {} if self._structure is None else self._structure.params(number)
        return {**structure, **self.spaces[number].params(row)}

    def distributions(self, number: int) -> dict[str, Any]:
        """The distributions of these parameters."""
        structure = {} if self._structure is None else self._structure.distributions
        return {**structure, **self.spaces[number].distributions}


def _suggest(trial: Any, distributions: Mapping[str, Any], params: dict[str, Any]) -> None:
    optuna = import_optuna()
    for name, item in distributions.items():
        if isinstance(item, optuna.distributions.CategoricalDistribution):
            params[name] = trial.suggest_categorical(name, item.choices)
        elif isinstance(item, optuna.distributions.IntDistribution):
            params[name] = trial.suggest_int(name, item.low, item.high)
        else:
            params[name] = trial.suggest_float(name, item.low, item.high, log=item.log)


def _column(name: str, decision: Decision, encoding: Encoding) -> _Column:
    if isinstance(decision, TileDecision):
        if decision.size > encoding.whole_up_to:
            return _Factors(name, decision.table)
        return _Whole(name, ["x".join(map(str, factors)) for factors in decision.table.tolist()])
    if encoding.categories:
        return _Whole(name, unique_names([str(value) for value in decision.candidates]))
    return _Position(name, decision.size)


def structure_names(sketches: Sequence[Sketch]) -> list[str]:
    """A name for each structure, all different."""
    return unique_names([sketch.name or "sketch" for sketch in sketches])


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, those that occur several times numbered from the second on.

    >>> unique_names(["i", "j", "i"])
    ['i', 'j', 'i#2']
    """
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result


def readable(sketch: Sketch, row: np.ndarray, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Decisions for people: every factor of a tile, and the chosen value of a categorical decision.

    Args:
        sketch: the structure.
        row: its decisions int64 [n_columns].
        name: what the structure is called.

    Returns:
        Optuna's parameters and distributions, by names such as ``"sketch0.i_2"``. The distributions depend on the sketch only.
    """
    distributions = import_optuna().distributions
    params: dict[str, Any] = {}
    known: dict[str, Any] = {}
    columns = unique_names([decision.name for decision in sketch.decisions])
    for column, decision, number in zip(columns, sketch.decisions, row.tolist(), strict=True):
        key = f"{name}.{column}"
        if isinstance(decision, CategoricalDecision):
            values = unique_names([str(value) for value in decision.candidates])
            params[key], known[key] = values[number], distributions.CategoricalDistribution(values)
            continue
        for place, factor in enumerate(decision.table[number].tolist()):
            params[f"{key}_{place}"] = factor
            known[f"{key}_{place}"] = distributions.IntDistribution(1, decision.extent, log=True)
    return params, known
