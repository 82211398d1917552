"""Rounding as another algorithm has it: what a primitive leaves behind that computes the same numbers in another way.

Most primitives change the order of sums at most, which every check allows for. One that computes the same by other operations (a
convolution by interpolation) puts the program that it has made into an attribute of the function. A check may analyse that program as it
analyses the unscheduled one, and so knows how far a right kernel may be off; the values are those of the unscheduled program in any case.
"""

ROUNDING_ATTRIBUTE = "rounding_program"
"""The attribute of a PrimFunc that holds a PrimFunc of the same parameters, which rounds as its schedule does."""
