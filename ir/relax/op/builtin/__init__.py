"""Operators that passes insert and lower."""

from .builtin import alloc_tensor, stop_lift_params
