"""Operators that allocate, view and release memory."""

from .memory import alloc_storage, alloc_tensor, ensure_zero_offset, kill_storage, kill_tensor, view
