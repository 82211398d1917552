"""Benchmarks against peers; ``python experiments/run.py --help`` runs them, README.md beside this file says what each measures."""
