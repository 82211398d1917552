"""Search strategies: they propose candidates and learn from results, and never run anything themselves."""

from .base import MeasureCandidate, SearchStrategy
from .population_search import EvolutionarySearch
from .random_search import ReplayTrace
