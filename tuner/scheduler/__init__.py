"""Task schedulers: which task gets the next batch of trials."""

from ..state import TaskState, TimeShares
from .base import TaskScheduler
from .gradient_based import GradientBased
from .round_robin import RoundRobin
