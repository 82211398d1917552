"""Collective communication among workers."""

from .ccl import allgather, allreduce, broadcast_from_worker0, scatter_from_worker0
