"""Databases of a million records and ten thousand workloads, and several tuners on one: what storage costs, and what it keeps."""
