"""The analytical model in the form of a cost model: it ranks without learning."""

from __future__ import annotations

from .archive import read_archive, write_archive
from .cost_model import CostModel, Features, Path, as_matrix
from .feature import FeatureExtractor
from .loops import Array


@CostModel.kinds.register("prior")
class PriorModel(CostModel):
    """Scores are minus the logarithm of the estimated seconds among the features.

    Args:
        extractor: only needed for scores of schedules.
    """

    learns = False

    def __init__(self, extractor: FeatureExtractor | None = None) -> None:
        super().__init__(extractor)

    def load(self, path: Path) -> None:
        read_archive(path, "prior")

    def save(self, path: Path) -> None:
        write_archive(path, "prior", {})

    def update_arrays(
        self, features: Features, seconds: Array, group: str = "", noise: Array | None = None
    ) -> None:
        """Nothing is learnt."""

    def predict_arrays(self, features: Features) -> Array:
        return as_matrix(features, self.feature_names).prior_scores()
