"""Whole models and their contestants."""
