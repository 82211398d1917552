"""Operators of backward passes."""

from .grad import *
