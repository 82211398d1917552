"""The single-operator suite and its contestants."""
