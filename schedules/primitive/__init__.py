"""The schedule primitives, one file per family: checked functions on the loop tree."""
