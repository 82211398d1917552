"""The same candidates compiled by two states of this repository, and timed in turns: what a change costs in kernels."""
