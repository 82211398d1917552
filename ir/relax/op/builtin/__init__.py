"""Operators that passes insert and lower."""

from .builtin import *
