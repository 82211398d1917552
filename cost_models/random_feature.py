"""Features without meaning, for tests of what handles features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .feature import Candidate, Context, FeatureExtractor
from .loops import Array


@FeatureExtractor.kinds.register("random")
class RandomFeatureExtractor(FeatureExtractor):
    """Uniformly random features, new ones at every call.

    Args:
        feature_size: columns.
        max_block_num: a candidate gets one to so many rows.
        seed: of the generator.
    """

    def __init__(self, *, feature_size: int = 30, max_block_num: int = 5, seed: int = 0) -> None:
        self.feature_size, self.max_block_num = feature_size, max_block_num
        self._generator = np.random.default_rng(seed)

    def extract_from(self, context: Context, candidates: Sequence[Candidate]) -> list[Array]:
        """float32 [n_nests, feature_size] each; the candidates are not looked at."""
        nests = self._generator.integers(1, self.max_block_num, size=len(candidates), endpoint=True)
        return [self._generator.random((count, self.feature_size), dtype=np.float32) for count in nests]
