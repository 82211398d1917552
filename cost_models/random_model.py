"""A model that guesses: the baseline that learned models have to beat."""

from __future__ import annotations

import json

import numpy as np

from .archive import read_archive, write_archive
from .cost_model import CostModel, Features, Path
from .feature import FeatureExtractor
from .loops import Array


@CostModel.kinds.register("random")
class RandomModel(CostModel):
    """Scores drawn uniformly from a seeded generator; the one model whose scores depend on the order of calls.

    Args:
        seed: of the generator.
        extractor: only needed for scores of schedules.
    """

    learns = False

    def __init__(self, seed: int = 0, extractor: FeatureExtractor | None = None) -> None:
        super().__init__(extractor)
        self._generator = np.random.default_rng(seed)

    def load(self, path: Path) -> None:
        state = json.loads(str(read_archive(path, "random")["state"]))
        self._generator.bit_generator.state = state

    def save(self, path: Path) -> None:
        write_archive(path, "random", {"state": np.array(json.dumps(self._generator.bit_generator.state))})

    def update_arrays(
        self, features: Features, seconds: Array, group: str = "", noise: Array | None = None
    ) -> None:
        """Nothing is learnt."""

    def predict_arrays(self, features: Features) -> Array:
        return np.asarray(self._generator.random(len(features)))
