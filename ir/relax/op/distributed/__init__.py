"""Operators on tensors that are spread over a mesh of devices."""

from .distributed import *
