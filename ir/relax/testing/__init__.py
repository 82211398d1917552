"""Helpers for tests of Relax programs: running them on numpy arrays without generating code."""

from . import language, runtime
from .evaluate import evaluate
from .values import EvaluationError
