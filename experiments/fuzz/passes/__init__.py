"""Passes alone and in random sequences, on random programs: each leaves a well-formed program that means what it meant.

:mod:`.relax` and :mod:`.tir` say which passes there are and where in a sequence each may be; :mod:`.step` is what is asked of one step.
"""
