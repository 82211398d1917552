"""Callbacks of the tuning loop."""

from .base import MeasureCallback
from .optuna_export import OptunaExport
