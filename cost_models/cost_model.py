"""What a cost model is: it learns from measured candidates and scores others, higher meaning faster.

Models work on feature arrays of whole populations (``update_arrays``, ``predict_arrays``); the forms that take schedules extract
features and call those. A model that has learnt nothing ranks by the analytical estimate among the features.
"""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from ir import structural_hash
from ir.kinds import Kinds
from ir.time_interval import median_secs, noise_of

from .error import CostModelError
from .feature import Candidate, Context, FeatureExtractor, FeatureMatrix, PerStoreFeature
from .loops import Array

Features = FeatureMatrix | Array
"""A feature matrix, or its float32 array [N, n_nests, n_features] with the columns of the model's extractor."""

Path = str | os.PathLike[str]


class Result(Protocol):
    """What a cost model needs of a measurement."""

    @property
    def run_secs(self) -> Sequence[float] | None:
        """Seconds of each run, None for a failure."""


class CostModel(ABC):
    """Scores candidates.

    Contract: scores are finite float64 [N], higher is better, comparable among all candidates of one workload whatever their structure;
    a candidate's score does not depend on the others in the call; equal seeds and equal updates give equal scores; a model
    loaded from a file that another saved predicts and goes on learning as that one would. Failed candidates have infinite seconds.

    Args:
        extractor: makes features of schedules; None takes :class:`PerStoreFeature`.
    """

    kinds: ClassVar[Kinds[Callable[..., CostModel]]] = Kinds("cost model", CostModelError, __package__)
    """The models that :meth:`create` knows; each registers itself where it is defined, and takes a ``seed`` if it makes random choices."""

    learns: bool = True
    """Whether ``update_arrays`` changes anything: whether it pays to extract features for it."""

    def __init__(self, extractor: FeatureExtractor | None = None) -> None:
        self.extractor = extractor if extractor is not None else PerStoreFeature()

    @abstractmethod
    def load(self, path: Path) -> None:
        """Replace what was learnt by what a file holds."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write what was learnt to a file."""

    @abstractmethod
    def update_arrays(
        self, features: Features, seconds: Array, group: str = "", noise: Array | None = None
    ) -> None:
        """Learn from measurements.

        Args:
            features: of N candidates of one structure.
            seconds: float64 [N]; infinite for failures.
            group: names the workload; times are only compared within one.
            noise: how certain the times are, float64 [N]: by which share each may be off (:func:`ir.time_interval.noise_of`); None
                where that is not known.
        """

    @abstractmethod
    def predict_arrays(self, features: Features) -> Array:
        """Scores of N candidates: float64 [N], higher is better."""

    def predict_with_uncertainty(self, features: Features) -> tuple[Array, Array]:
        """(scores, standard deviations), float64 [N] each; zero deviations where the model has no notion of them."""
        scores = self.predict_arrays(features)
        return scores, np.zeros(len(scores))

    def update(self, context: Context, candidates: Sequence[Candidate], results: Sequence[Result]) -> None:
        """Learn from measured schedules."""
        if len(candidates) != len(results):
            raise CostModelError(
                f"update got {len(candidates)} candidates and {len(results)} results; one result per candidate"
            )
        seconds = np.array([median_secs(result.run_secs) for result in results])
        noise = np.array([noise_of(result.run_secs) if result.run_secs else 0.0 for result in results])
        for rows, array in _by_shape(self.extractor.extract_from(context, candidates)):
            self.update_arrays(array, seconds[rows], group_of(context), noise[rows])

    def predict(self, context: Context, candidates: Sequence[Candidate]) -> Array:
        """Scores of schedules: float64 [N], higher is better."""
        scores = np.zeros(len(candidates))
        for rows, array in _by_shape(self.extractor.extract_from(context, candidates)):
            scores[rows] = self.predict_arrays(array)
        return scores

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Column names of plain feature arrays."""
        return tuple(getattr(self.extractor, "names", ()))

    @staticmethod
    def create(kind: str, *, seed: int = 0) -> CostModel:
        """A model by name: ``"xgb"``, ``"mlp"``, ``"random"``, ``"prior"``, or whatever was registered since.

        Args:
            kind: the name.
            seed: of the random choices of a model that makes any.
        """
        make = CostModel.kinds[kind]
        return make(seed=seed) if "seed" in inspect.signature(make).parameters else make()


class PyCostModel(CostModel):
    """Base class of cost models that users write on schedules: override ``load``, ``save``, ``update`` and ``predict``.

    The search ranks its populations by scores of arrays, which by default follow the analytical estimate; of the candidates that come
    out on top it makes schedules, and ``predict`` decides which of them are measured.
    """

    learns = False

    def update_arrays(
        self, features: Features, seconds: Array, group: str = "", noise: Array | None = None
    ) -> None:
        """Nothing: such models learn from schedules."""

    def predict_arrays(self, features: Features) -> Array:
        """The analytical ranking."""
        return as_matrix(features, self.feature_names).prior_scores()


def as_matrix(features: Features, names: tuple[str, ...]) -> FeatureMatrix:
    """The features with their column names.

    Raises:
        CostModelError: the array's shape does not fit the names.
    """
    if isinstance(features, FeatureMatrix):
        return features
    values = np.asarray(features, dtype=np.float32)
    if values.ndim != 3 or (names and values.shape[2] != len(names)):
        raise CostModelError(
            f"features must have shape [candidates, nests, {len(names) or 'columns'}], got {list(values.shape)}"
        )
    return FeatureMatrix(values, names)


def group_of(context: Context) -> str:
    """The name under which a context's measurements are compared: its task's name, or its workload's structural hash."""
    name: Any = getattr(context, "task_name", None)
    if name and name != "main":
        return str(name)
    if context.mod is None:
        return ""
    return f"{structural_hash(context.mod):x}"


def _by_shape(features: Sequence[Array]) -> list[tuple[Array, Array]]:
    """(positions, stacked features) of candidates with equally many nests."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for position, item in enumerate(features):
        groups.setdefault(item.shape, []).append(position)
    return [(np.array(rows), np.stack([features[row] for row in rows])) for rows in groups.values()]
