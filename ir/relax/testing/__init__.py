"""Helpers for tests of Relax programs: running them on numpy arrays without generating code."""

from .evaluate import evaluate
