"""Cost models: how good a candidate is before it is measured.

Features of whole populations are array expressions over skeletons; an analytical model ranks candidates without any
measurement, and learned models (gradient-boosted trees, a small neural network) correct it from measured times.
"""

from loopsmith_import_check import require_needs

require_needs(__name__, __file__)

from .calibration import Calibration
from .cost_model import CostModel, PyCostModel
from .error import CostModelError
from .feature import FeatureExtractor, FeatureMatrix, PerStoreFeature, PyFeatureExtractor
from .machine import Machine
from .mlp_model import MLPModel
from .prior import AnalyticalPrior, estimate_seconds
from .prior_model import PriorModel
from .random_feature import RandomFeatureExtractor
from .random_model import RandomModel
from .xgb_model import XGBConfig, XGBModel
