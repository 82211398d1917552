"""Operators of the virtual machine, after lowering."""

from .vm import alloc_storage, alloc_tensor, call_tir_dyn, kill_object
