"""The kinds of random programs, one module each; :mod:`experiments.fuzz.kind` says how to add one."""
