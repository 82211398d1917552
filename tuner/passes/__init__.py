"""Passes that tune: the names that the documents place in ``ir.relax.transform`` but that need the tuner.

:mod:`ir.external` finds each in the file of its name.
"""
