"""A small neural network in plain numpy that corrects the analytical estimate, one correction per nest.

For machines without xgboost, and as a smooth alternative to trees: two hidden layers, trained with Adam (Kingma and Ba, ICLR 2015)
from the same measurements, targets and shares as the trees. A few networks from different starts tell how certain a score is.
"""

from __future__ import annotations

import numpy as np

from .archive import read_archive, write_archive
from .cost_model import CostModel, Features, Path, as_matrix
from .feature import FeatureExtractor
from .loops import Array
from .samples import Samples, TrainingSet

_PARAMETERS = ("w0", "b0", "w1", "b1", "w2", "b2")


@CostModel.kinds.register("mlp")
class MLPModel(CostModel):
    """An ensemble of two-layer networks over per-nest features.

    Args:
        seed: of the initial weights and of the order of the batches.
        extractor: makes features of schedules.
        hidden: units per hidden layer.
        num_members: networks; the spread of their scores is the uncertainty.
        epochs: passes over the measurements per training.
        learning_rate, weight_decay: of Adam.
        num_warmup_samples: measurements before the networks are asked at all; until then the estimate ranks.
        max_samples: newest measurements used for training.
    """

    def __init__(
        self,
        seed: int = 0,
        extractor: FeatureExtractor | None = None,
        *,
        hidden: int = 48,
        num_members: int = 3,
        epochs: int = 40,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-3,
        num_warmup_samples: int = 24,
        max_samples: int = 2000,
    ) -> None:
        super().__init__(extractor)
        self.seed, self.hidden, self.num_members = seed, hidden, num_members
        self.epochs, self.learning_rate, self.weight_decay = epochs, learning_rate, weight_decay
        self.num_warmup_samples = num_warmup_samples
        self._samples = Samples(max_samples)
        self._mean = self._scale = np.zeros(0, dtype=np.float32)
        self._members: list[dict[str, Array]] = []
        self._stale = False

    def update_arrays(
        self, features: Features, seconds: Array, group: str = "", noise: Array | None = None
    ) -> None:
        self._samples.add(as_matrix(features, self.feature_names), seconds, group, noise)
        self._stale = True

    def predict_arrays(self, features: Features) -> Array:
        return self.predict_with_uncertainty(features)[0]

    def predict_with_uncertainty(self, features: Features) -> tuple[Array, Array]:
        """(mean, standard deviation over the networks): float64 [N] each."""
        matrix = as_matrix(features, self.feature_names)
        self._train_if_stale()
        base = matrix.prior_scores()
        if not self._members or matrix.values.size == 0:
            return base, np.zeros(len(base))
        rows, shares = (
            self._standardized(matrix.values.reshape(-1, matrix.values.shape[2])),
            matrix.nest_shares(),
        )
        scores = np.stack(
            [
                (_forward(member, rows)[-1].reshape(shares.shape) * shares).sum(axis=1)
                for member in self._members
            ]
        )
        return base + scores.mean(axis=0), scores.std(axis=0)

    def _standardized(self, rows: Array) -> Array:
        # What lies far outside the measured range is clipped: networks extrapolate badly.
        return np.clip((rows - self._mean) * self._scale, -4.0, 4.0)

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
        deviation = training.rows.std(axis=0)
        self._mean = training.rows.mean(axis=0)
        self._scale = np.where(deviation > 1e-4, 1.0 / np.maximum(deviation, 1e-4), 0.0).astype(np.float32)
        rows = self._standardized(training.rows)
        self._members = [
            self._train_member(rows, training, np.random.default_rng([self.seed, number]))
            for number in range(self.num_members)
        ]

    def _train_member(
        self, rows: Array, training: TrainingSet, generator: np.random.Generator
    ) -> dict[str, Array]:
        net = _initial(rows.shape[1], self.hidden, generator)
        moments = {name: (np.zeros_like(value), np.zeros_like(value)) for name, value in net.items()}
        weight = training.weight / training.weight.mean()
        starts = np.searchsorted(training.owner, np.arange(len(training) + 1))
        batch = max(16, min(128, len(training) // 4))
        step = 0
        for epoch in range(self.epochs):
            rate = self.learning_rate * 0.5 * (1.0 + np.cos(np.pi * epoch / self.epochs))
            order = generator.permutation(len(training))
            for begin in range(0, len(order), batch):
                chosen = np.sort(order[begin : begin + batch])
                picked = np.concatenate([np.arange(starts[item], starts[item + 1]) for item in chosen])
                owner = np.repeat(np.arange(len(chosen)), starts[chosen + 1] - starts[chosen])
                step += 1
                gradients = _gradients(
                    net, rows[picked], training.share[picked], owner, training, weight, chosen
                )
                _adam(net, moments, gradients, rate, self.weight_decay, step)
        return net

    # ---- storage -----------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        self._train_if_stale()
        arrays = self._samples.to_arrays()
        arrays["mean"], arrays["scale"] = self._mean, self._scale
        for number, member in enumerate(self._members):
            for name, value in member.items():
                arrays[f"member.{number}.{name}"] = value
        write_archive(path, "mlp", arrays)

    def load(self, path: Path) -> None:
        arrays = read_archive(path, "mlp")
        self._samples = Samples.from_arrays(arrays)
        self._mean, self._scale = arrays["mean"], arrays["scale"]
        count = sum(name.endswith(".w0") for name in arrays)
        self._members = [
            {name: arrays[f"member.{number}.{name}"] for name in _PARAMETERS} for number in range(count)
        ]
        self._stale = False


_SINGLE_THREADED = 1 << 18
"""Multiplications up to which OpenBLAS stays on one thread."""


def _product(left: Array, right: Array) -> Array:
    """``left @ right`` in blocks of rows that are too small for BLAS to use threads.

    Threads would wait for each other at every one of thousands of small products, badly so on busy machines, and the result
    would depend on their number.
    """
    rows, inner = left.shape
    block = max(1, _SINGLE_THREADED // max(1, inner * right.shape[1]))
    if rows <= block:
        return np.asarray(left @ right)
    result = np.empty((rows, right.shape[1]), dtype=np.float32)
    for start in range(0, rows, block):
        np.matmul(left[start : start + block], right, out=result[start : start + block])
    return result


def _initial(inputs: int, hidden: int, generator: np.random.Generator) -> dict[str, Array]:
    """Weights at the start; the output layer is zero, so that an untrained network corrects nothing."""

    def normal(rows: int, columns: int) -> Array:
        return (generator.standard_normal((rows, columns)) * np.sqrt(2.0 / rows)).astype(np.float32)

    return {
        "w0": normal(inputs, hidden),
        "b0": np.zeros(hidden, dtype=np.float32),
        "w1": normal(hidden, hidden),
        "b1": np.zeros(hidden, dtype=np.float32),
        "w2": np.zeros((hidden, 1), dtype=np.float32),
        "b2": np.zeros(1, dtype=np.float32),
    }


def _forward(net: dict[str, Array], rows: Array) -> tuple[Array, Array, Array]:
    """(first layer, second layer, output [R])."""
    first = np.maximum(_product(rows, net["w0"]) + net["b0"], 0.0)
    second = np.maximum(_product(first, net["w1"]) + net["b1"], 0.0)
    return first, second, (_product(second, net["w2"]) + net["b2"])[:, 0]


def _gradients(
    net: dict[str, Array],
    rows: Array,
    share: Array,
    owner: Array,
    training: TrainingSet,
    weight: Array,
    chosen: Array,
) -> dict[str, Array]:
    """Gradients for the rows of the chosen candidates; ``owner`` says which of those a row belongs to."""
    first, second, output = _forward(net, rows)
    predicted = training.base[chosen] + np.bincount(owner, weights=output * share, minlength=len(chosen))
    # Huber's loss: single wild measurements must not bend the network.
    residual = np.clip(predicted - training.target[chosen], -1.0, 1.0) * weight[chosen] / len(chosen)
    upper = (residual[owner] * share).astype(np.float32)[:, None]
    back_second = _product(upper, net["w2"].T) * (second > 0)
    back_first = _product(back_second, net["w1"].T) * (first > 0)
    return {
        "w2": _product(second.T, upper),
        "b2": upper.sum(axis=0),
        "w1": _product(first.T, back_second),
        "b1": back_second.sum(axis=0),
        "w0": _product(rows.T, back_first),
        "b0": back_first.sum(axis=0),
    }


def _adam(
    net: dict[str, Array],
    moments: dict[str, tuple[Array, Array]],
    gradients: dict[str, Array],
    rate: float,
    decay: float,
    step: int,
) -> None:
    """One step of Adam with decoupled weight decay, in place."""
    for name, gradient in gradients.items():
        mean, square = moments[name]
        mean += np.float32(0.1) * (gradient - mean)
        square += np.float32(0.01) * (gradient * gradient - square)
        corrected = mean / np.float32(1.0 - 0.9**step)
        spread = np.sqrt(square / np.float32(1.0 - 0.99**step)) + np.float32(1e-8)
        net[name] -= np.float32(rate) * (corrected / spread + np.float32(decay) * net[name])
