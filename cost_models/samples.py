"""Measurements that a learned model trains on: features, times, and how they become targets comparable across workloads.

A model predicts how much faster or slower a candidate is than the analytical estimate says, in natural logarithms: the mean of
its nests' corrections, each weighted by the nest's share of the estimated time. The target of a candidate is the logarithm
of (best time of its workload / its time); candidates near the best weigh most, since they are what the search has to order, and times that
are uncertain weigh less.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .error import CostModelError
from .feature import FeatureMatrix
from .loops import Array

WORST = -5.0
"""Targets are no lower than this: beyond e^5 times the best, how bad is of no interest."""
_OWN_ERROR = 0.1
"""By which share a model is off with exact times, about: noise far below it makes no difference, and noise as large halves a weight."""


@dataclass
class TrainingSet:
    """Rows of all nests of all candidates, flat.

    Attributes:
        rows: float32 [R, n_features].
        owner: which candidate a row belongs to: int64 [R], ascending.
        base: what the estimate predicts for each candidate, its workload's offset included: float64 [N].
        target: log(best time / time): float64 [N].
        weight: float64 [N].
        share: of the row's nest in its candidate's estimated time: float64 [R].
    """

    rows: Array
    owner: Array
    base: Array
    target: Array
    weight: Array
    share: Array

    def __len__(self) -> int:
        return len(self.target)

    def predictions(self, row_values: Array) -> Array:
        """What the corrections [R] of the nests make of the base: float64 [N]."""
        return self.base + np.bincount(self.owner, weights=row_values * self.share, minlength=len(self))


@dataclass
class Samples:
    """All measurements so far.

    Args:
        limit: candidates used for training; the newest are taken.
    """

    limit: int = 6000
    _features: list[FeatureMatrix] = field(default_factory=list)
    _seconds: list[Array] = field(default_factory=list)
    _noise: list[Array] = field(default_factory=list)
    _groups: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(item) for item in self._seconds)

    def add(self, features: FeatureMatrix, seconds: Array, group: str, noise: Array | None = None) -> None:
        """Append measurements of one structure, with how certain they are, as :meth:`CostModel.update_arrays` takes them.

        Raises:
            CostModelError: lengths or columns differ from what is expected, a time is not positive, or a noise is negative.
        """
        seconds = np.asarray(seconds, dtype=np.float64).reshape(-1)
        noise = np.zeros(len(seconds)) if noise is None else np.asarray(noise, dtype=np.float64).reshape(-1)
        if len(noise) != len(seconds) or not (noise >= 0).all():
            raise CostModelError(
                f"the noise of {len(seconds)} times is as many numbers that are not negative, got {noise}"
            )
        if len(seconds) != len(features):
            raise CostModelError(
                f"{len(features)} candidates have features, {len(seconds)} have times; the numbers must agree"
            )
        if self._features and self._features[0].values.shape[2] != features.values.shape[2]:
            raise CostModelError(
                f"features have {features.values.shape[2]} columns, earlier ones {self._features[0].values.shape[2]}; "
                "use one feature extractor per model"
            )
        if np.isnan(seconds).any() or (seconds <= 0).any():
            raise CostModelError("times must be positive seconds, or infinite for failures")
        if len(seconds) == 0:
            return
        self._features.append(features)
        self._seconds.append(seconds)
        self._noise.append(noise)
        self._groups.append(group)

    def training_set(self) -> TrainingSet | None:
        """Targets and rows of the newest measurements; None where none succeeded."""
        first, count = len(self._seconds), 0
        while first > 0 and count < self.limit:
            first -= 1
            count += len(self._seconds[first])
        chosen = range(first, len(self._seconds))
        best: dict[str, float] = {}
        for group, seconds in zip(self._groups, self._seconds, strict=True):
            best[group] = min(best.get(group, np.inf), float(seconds.min()))
        base, target, weight, groups = [], [], [], []
        for position in chosen:
            group = self._groups[position]
            ran = np.isfinite(self._seconds[position])
            gain = np.full(len(ran), WORST)
            gain[ran] = np.maximum(np.log(best[group] / self._seconds[position][ran]), WORST)
            target.append(gain)
            base.append(self._features[position].prior_scores())
            # Failures say little about time; candidates within a factor of two of the best say most.
            certainty = 1.0 / (1.0 + (self._noise[position] / _OWN_ERROR) ** 2)
            weight.append(np.where(ran, (0.15 + np.exp(gain)) * certainty, 0.1))
            groups += [group] * len(gain)
        if not target or not any(np.isfinite(best[group]) for group in groups):
            return None
        all_base, all_target, all_weight = (
            np.concatenate(base),
            np.concatenate(target),
            np.concatenate(weight),
        )
        labels = np.array(groups)
        for group in set(groups):
            mine = labels == group
            known = mine & (all_target > WORST)
            if known.any():
                offset = np.average((all_target - all_base)[known], weights=all_weight[known])
            else:
                offset = WORST - float(np.mean(all_base[mine]))
            all_base[mine] += offset
        taken = [self._features[position] for position in chosen]
        nests = np.concatenate([np.full(len(item), item.values.shape[1]) for item in taken])
        return TrainingSet(
            np.concatenate([item.values.reshape(-1, item.values.shape[2]) for item in taken]),
            np.repeat(np.arange(len(all_target)), nests),
            all_base,
            all_target,
            all_weight,
            np.concatenate([item.nest_shares().reshape(-1) for item in taken]),
        )

    # ---- storage -----------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Plain arrays for ``np.savez``."""
        arrays: dict[str, Any] = {
            "samples.names": np.array(self._features[0].names if self._features else (), dtype=np.str_),
            "samples.groups": np.array(self._groups, dtype=np.str_),
            "samples.limit": np.array(self.limit),
        }
        for position in range(len(self._seconds)):
            arrays[f"samples.features.{position}"] = self._features[position].values
            arrays[f"samples.seconds.{position}"] = self._seconds[position]
            arrays[f"samples.noise.{position}"] = self._noise[position]
        return arrays

    @staticmethod
    def from_arrays(arrays: Any) -> Samples:
        """The samples that ``to_arrays`` described."""
        samples = Samples(int(arrays["samples.limit"]))
        names = tuple(str(item) for item in arrays["samples.names"])
        for position, group in enumerate(arrays["samples.groups"]):
            features = FeatureMatrix(arrays[f"samples.features.{position}"], names)
            noise = arrays.get(f"samples.noise.{position}")  # files of earlier versions have none
            samples.add(features, arrays[f"samples.seconds.{position}"], str(group), noise)
        return samples
