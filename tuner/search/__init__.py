"""Search strategies: they propose candidates and learn from results, and never run anything themselves."""

from .base import MeasureCandidate, SearchStrategy
from .evolutionary_search import EvolutionarySearch
from .optuna_search import OptunaSearch
from .replay_trace import ReplayTrace
