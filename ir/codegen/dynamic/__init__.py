"""Functions with symbolic shapes as native code that C calls."""
