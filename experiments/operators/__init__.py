"""The suites of single operators and their contestants."""
