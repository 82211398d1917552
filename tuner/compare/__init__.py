"""Comparisons of whole models with other runtimes, and of tuned builds with untuned ones: ``loopsmith bench``, ``tune``."""
