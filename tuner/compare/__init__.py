"""Comparisons of whole models with other runtimes, and of tuned builds with others: ``loopsmith bench``, ``tune``."""
