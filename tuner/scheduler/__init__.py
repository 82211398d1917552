"""Task schedulers: which task gets the next batch of trials."""

from .base import TaskScheduler, TaskState, TimeShares
from .gradient_based import GradientBased
from .round_robin import RoundRobin
