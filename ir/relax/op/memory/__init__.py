"""Operators that allocate, view and release memory."""

from .memory import *
