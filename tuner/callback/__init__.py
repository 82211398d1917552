"""Callbacks of the tuning loop."""

from .base import MeasureCallback
