"""Cost models: how good a candidate is before it is measured.

Features of whole populations are array expressions over skeletons; an analytical model ranks candidates without any
measurement, and learned models (gradient-boosted trees, a small neural network) correct it from measured times.
"""

from .feature import FeatureExtractor, FeatureMatrix, PerStoreFeature, PyFeatureExtractor
from .machine import Machine
from .prior import AnalyticalPrior, estimate_seconds
