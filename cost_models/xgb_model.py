"""Gradient-boosted trees that correct the analytical estimate, one correction per nest.

A candidate's correction is the mean of its nests', weighted by their shares of the estimated time; a custom objective trains it
(the idea of Ansor's "pack sum", Zheng et al., OSDI 2020). A small ensemble, each member on its own Bayesian bootstrap of the
measurements, tells how certain a score is.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .archive import read_archive, write_archive
from .cost_model import CostModel, Features, Path, as_matrix
from .feature import FeatureExtractor, FeatureMatrix, apart
from .loops import Array
from .samples import Samples, TrainingSet

_LOG = logging.getLogger(__name__)
_BINS = 32
"""Values that a feature is rounded to."""
_ENOUGH_NEWS = 24
"""Measurements after which even a model of many records learns again: they are what it knows of the present kernels."""


@dataclass(frozen=True)
class XGBConfig:
    """Parameters of the trees, with MetaSchedule's names and defaults.

    Attributes:
        max_depth, gamma, min_child_weight, eta: as XGBoost calls them.
        seed: of the bootstraps and of the trees' own sampling.
        nthread: threads for training and prediction; None takes one, as the other cores measure.
        tree_method: "auto" is "hist".
    """

    max_depth: int = 10
    gamma: float = 0.001
    min_child_weight: float = 0.0
    eta: float = 0.2
    seed: int = 43
    nthread: int | None = None
    tree_method: str = "auto"


@CostModel.kinds.register("xgb")
class XGBModel(CostModel):
    """An ensemble of boosted trees over per-nest features.

    Up to ``average_peak_n`` the parameters are MetaSchedule's. Training is short and starts early here, since the trees only correct an
    estimate: 12 measurements are enough for a first one.

    Args:
        extractor: makes features of schedules; "per-store-feature" or None is :class:`PerStoreFeature`.
        config: parameters of the trees.
        num_warmup_samples: measurements before the trees are asked at all; until then the estimate ranks.
        early_stopping_rounds: training ends when so many trees in a row have not made the error smaller.
        verbose_eval: log the training's average peak score (at level INFO) after every so many trainings; 0 for never.
        average_peak_n: that score is the mean speed, relative to the best, of the best of the first k, for k up to this.
        adaptive_training: train again only when a fifth more has been measured than at the last training (or two dozen more).
        num_tuning_cores: sets ``config.nthread``.
        tree_method: sets ``config.tree_method``.
        seed: sets ``config.seed``.
        num_members: ensembles' size; the spread of their scores is the uncertainty.
        num_rounds: trees per member.
        max_samples: newest measurements used for training.
    """

    def __init__(
        self,
        *,
        extractor: FeatureExtractor | str | None = None,
        config: XGBConfig | None = None,
        num_warmup_samples: int = 12,
        early_stopping_rounds: int = 50,
        verbose_eval: int = 25,
        average_peak_n: int = 32,
        adaptive_training: bool = True,
        num_tuning_cores: int | None = None,
        tree_method: str | None = None,
        seed: int | None = None,
        num_members: int = 4,
        num_rounds: int = 16,
        max_samples: int = 1500,
    ) -> None:
        super().__init__(FeatureExtractor.create(extractor) if isinstance(extractor, str) else extractor)
        config = config or XGBConfig()
        self.config = replace(
            config,
            seed=config.seed if seed is None else seed,
            nthread=num_tuning_cores or config.nthread or 1,
            tree_method=tree_method or config.tree_method,
        )
        self.num_warmup_samples, self.early_stopping_rounds = num_warmup_samples, early_stopping_rounds
        self.verbose_eval, self.average_peak_n = verbose_eval, average_peak_n
        self.adaptive_training = adaptive_training
        self.num_members, self.num_rounds = num_members, num_rounds
        self._samples = Samples(max_samples)
        self._members: list[Any] = []
        self._columns: Array = np.zeros(0, dtype=np.int64)
        self._trained_on = self._trainings = 0

    def update_arrays(
        self, features: Features, seconds: Array, group: str = "", noise: Array | None = None
    ) -> None:
        self._samples.add(as_matrix(features, self.feature_names), seconds, group, noise)

    def predict_arrays(self, features: Features) -> Array:
        return self.predict_with_uncertainty(features)[0]

    def predict_with_uncertainty(self, features: Features) -> tuple[Array, Array]:
        """(mean, standard deviation over the members): float64 [N] each."""
        matrix = as_matrix(features, self.feature_names)
        self._train_if_stale()
        base = matrix.prior_scores()
        if not self._members or matrix.values.size == 0:
            return base, np.zeros(len(base))
        rows, shares = self._rows(matrix), matrix.nest_shares().T
        scores = np.stack(
            [
                (member.inplace_predict(rows).reshape(shares.shape) * shares).sum(axis=0)
                for member in self._members
            ]
        )
        return base + scores.mean(axis=0), scores.std(axis=0)

    def _rows(self, matrix: FeatureMatrix) -> Array:
        """The columns that the members know, nest after nest: float32 [n_nests * N, C], in memory column after column."""
        by_nest = matrix.values.transpose(1, 2, 0)
        count = by_nest.shape[2]
        total = len(by_nest) * count
        rows = np.empty((len(self._columns), apart(total)), dtype=np.float32)
        for number, nest in enumerate(by_nest):
            rows[:, number * count : (number + 1) * count] = nest[self._columns]
        return rows[:, :total].T

    # ---- training ----------------------------------------------------------------------------------------------

    def _train_if_stale(self) -> None:
        wanted: float = self._trained_on + 1
        if self.adaptive_training:
            wanted = min(1.2 * self._trained_on, self._trained_on + _ENOUGH_NEWS)
        if len(self._samples) < max(wanted, self.num_warmup_samples):
            return
        self._trained_on = len(self._samples)
        training = self._samples.training_set()
        if training is None:
            return
        # Constant columns would only cost time.
        columns = np.flatnonzero(training.rows.min(axis=0) != training.rows.max(axis=0))
        if len(columns) == 0:
            return
        self._columns = columns
        import xgboost

        rows = np.ascontiguousarray(training.rows[:, self._columns])
        if self.config.tree_method in ("auto", "hist"):
            data = xgboost.QuantileDMatrix(rows, max_bin=_BINS, nthread=self.config.nthread)
        else:
            data = xgboost.DMatrix(rows, nthread=self.config.nthread)
        generator = np.random.default_rng(self.config.seed)
        self._members = [
            self._train_member(data, training, generator.exponential(size=len(training)), number)
            for number in range(self.num_members)
        ]
        self._trainings += 1
        if self.verbose_eval and self._trainings % self.verbose_eval == 0:
            self._log_quality(rows, training)

    def _train_member(self, data: Any, training: TrainingSet, bootstrap: Array, number: int) -> Any:
        import xgboost

        weight = training.weight * bootstrap
        weight = weight / weight.mean()
        errors: list[float] = []

        def objective(predictions: Array, _data: Any) -> tuple[Array, Array]:
            residual = training.predictions(predictions) - training.target
            errors.append(float(np.mean(weight * residual * residual)))
            # Shares add up to one: with the share, not its square, as curvature, the steps of all nests together do not overshoot.
            return (weight * residual)[training.owner] * training.share, weight[
                training.owner
            ] * training.share

        config = self.config
        parameters = {
            "max_depth": config.max_depth,
            "gamma": config.gamma,
            "min_child_weight": config.min_child_weight,
            "eta": config.eta,
            "tree_method": "hist" if config.tree_method == "auto" else config.tree_method,
            "max_bin": _BINS,
            "colsample_bytree": 0.2,
            "lambda": 2.0,
            "base_score": 0.0,
            "nthread": config.nthread,
            "verbosity": 0,
            "seed": config.seed * 1009 + number,
        }
        member = xgboost.Booster(parameters, [data])
        for tree in range(self.num_rounds):
            member.update(data, tree, fobj=objective)
            recent, before = (
                errors[-self.early_stopping_rounds :],
                errors[: -self.early_stopping_rounds],
            )
            if before and min(recent) >= min(before):
                break
        return member

    def _log_quality(self, rows: Array, training: TrainingSet) -> None:
        corrections = np.mean([member.inplace_predict(rows) for member in self._members], axis=0)
        score = average_peak(training.predictions(corrections), np.exp(training.target), self.average_peak_n)
        _LOG.info("trained on %d measurements: average peak score %.3f", len(training), score)

    # ---- storage -----------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        self._train_if_stale()
        arrays = self._samples.to_arrays()
        arrays["columns"], arrays["trained_on"] = self._columns, np.array(self._trained_on)
        for number, member in enumerate(self._members):
            arrays[f"member.{number}"] = np.frombuffer(bytes(member.save_raw("ubj")), dtype=np.uint8)
        write_archive(path, "xgb", arrays)

    def load(self, path: Path) -> None:
        arrays = read_archive(path, "xgb")
        self._samples = Samples.from_arrays(arrays)
        self._columns = arrays["columns"]
        self._trained_on = int(arrays.get("trained_on", len(self._samples)))
        count = sum(name.startswith("member.") for name in arrays)
        self._members = []
        if count:
            import xgboost

            for number in range(count):
                member = xgboost.Booster({"nthread": self.config.nthread})
                member.load_model(bytearray(arrays[f"member.{number}"].tobytes()))
                self._members.append(member)


def average_peak(scores: Array, speeds: Array, count: int) -> float:
    """How good the first candidates by score are: the best speed among the first k over the best of all, averaged over k = 1..count.

    >>> average_peak(np.array([3.0, 2.0, 1.0]), np.array([0.5, 1.0, 0.1]), 2)
    0.75
    """
    first = speeds[np.argsort(-scores, kind="stable")][:count]
    return float(np.maximum.accumulate(first).mean() / speeds.max())
