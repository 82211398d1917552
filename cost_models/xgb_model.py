"""Gradient-boosted trees that correct the analytical estimate, one correction per nest.

A candidate's correction is the mean of its nests', weighted by their shares of the estimated time; a custom objective trains it
(the idea of Ansor's "pack sum", Zheng et al., OSDI 2020). A small ensemble, each member on its own Bayesian bootstrap of the
measurements, tells how certain a score is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .archive import read_archive, write_archive
from .cost_model import CostModel, Features, Path, as_matrix
from .feature import FeatureExtractor, FeatureMatrix
from .loops import Array
from .samples import Samples, TrainingSet


class XGBModel(CostModel):
    """An ensemble of boosted trees over per-nest features.

    Args:
        seed: of the bootstraps and of the trees' own sampling.
        extractor: makes features of schedules.
        num_members: ensembles' size; the spread of their scores is the uncertainty.
        num_rounds: trees per member.
        max_depth, eta: of the trees.
        num_warmup_samples: measurements before the trees are asked at all; until then the estimate ranks.
        max_samples: newest measurements used for training.
        num_threads: threads for training and prediction; more than one only pays where cores are idle.
    """

    def __init__(
        self,
        seed: int = 0,
        extractor: FeatureExtractor | None = None,
        *,
        num_members: int = 4,
        num_rounds: int = 16,
        max_depth: int = 6,
        eta: float = 0.3,
        num_warmup_samples: int = 12,
        max_samples: int = 4000,
        num_threads: int = 1,
    ) -> None:
        super().__init__(extractor)
        self.seed = seed
        self.num_members, self.num_rounds = num_members, num_rounds
        self.max_depth, self.eta = max_depth, eta
        self.num_warmup_samples, self.num_threads = num_warmup_samples, num_threads
        self._samples = Samples(max_samples)
        self._members: list[Any] = []
        self._columns: Array = np.zeros(0, dtype=np.int64)
        self._stale = False

    def update_arrays(self, features: Features, seconds: Array, group: str = "") -> None:
        self._samples.add(as_matrix(features, self.feature_names), seconds, group)
        self._stale = True

    def predict_arrays(self, features: Features) -> Array:
        return self.predict_with_uncertainty(features)[0]

    def predict_with_uncertainty(self, features: Features) -> tuple[Array, Array]:
        """(mean, standard deviation over the members): float64 [N] each."""
        matrix = as_matrix(features, self.feature_names)
        self._train_if_stale()
        base = matrix.prior_scores()
        if not self._members or matrix.values.size == 0:
            return base, np.zeros(len(base))
        rows, shares = self._rows(matrix), matrix.nest_shares()
        scores = np.stack(
            [
                (member.inplace_predict(rows).reshape(shares.shape) * shares).sum(axis=1)
                for member in self._members
            ]
        )
        return base + scores.mean(axis=0), scores.std(axis=0)

    def _rows(self, matrix: FeatureMatrix) -> Array:
        flat = matrix.values.reshape(-1, matrix.values.shape[2])
        return np.ascontiguousarray(flat[:, self._columns])

    # ---- training ----------------------------------------------------------------------------------------------

    def _train_if_stale(self) -> None:
        if not self._stale:
            return
        self._stale = False
        if len(self._samples) < self.num_warmup_samples:
            return
        training = self._samples.training_set()
        if training is None:
            return
        # Constant columns would only cost time.
        self._columns = np.flatnonzero(training.rows.min(axis=0) != training.rows.max(axis=0))
        if len(self._columns) == 0:
            return
        import xgboost

        data = xgboost.QuantileDMatrix(
            np.ascontiguousarray(training.rows[:, self._columns]), max_bin=32, nthread=self.num_threads
        )
        generator = np.random.default_rng(self.seed)
        self._members = [
            self._train_member(xgboost, data, training, generator.exponential(size=len(training)), number)
            for number in range(self.num_members)
        ]

    def _train_member(
        self, xgboost: Any, data: Any, training: TrainingSet, bootstrap: Array, number: int
    ) -> Any:
        weight = training.weight * bootstrap
        weight = weight / weight.mean()

        def objective(predictions: Array, _data: Any) -> tuple[Array, Array]:
            residual = training.predictions(predictions) - training.target
            # Shares add up to one: with the share, not its square, as curvature, the steps of all nests together do not overshoot.
            return (weight * residual)[training.owner] * training.share, weight[
                training.owner
            ] * training.share

        parameters = {
            "max_depth": self.max_depth,
            "eta": self.eta,
            "tree_method": "hist",
            "max_bin": 32,
            "colsample_bytree": 0.4,
            "min_child_weight": 1.0,
            "lambda": 2.0,
            "base_score": 0.0,
            "nthread": self.num_threads,
            "verbosity": 0,
            "seed": self.seed * 1009 + number,
        }
        return xgboost.train(parameters, data, self.num_rounds, obj=objective)

    # ---- storage -----------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        self._train_if_stale()
        arrays = self._samples.to_arrays()
        arrays["columns"] = self._columns
        for number, member in enumerate(self._members):
            arrays[f"member.{number}"] = np.frombuffer(bytes(member.save_raw("ubj")), dtype=np.uint8)
        write_archive(path, "xgb", arrays)

    def load(self, path: Path) -> None:
        arrays = read_archive(path, "xgb")
        self._samples = Samples.from_arrays(arrays)
        self._columns = arrays["columns"]
        count = sum(name.startswith("member.") for name in arrays)
        self._members = []
        self._stale = False
        if count:
            import xgboost

            for number in range(count):
                member = xgboost.Booster({"nthread": self.num_threads})
                member.load_model(bytearray(arrays[f"member.{number}"].tobytes()))
                self._members.append(member)
