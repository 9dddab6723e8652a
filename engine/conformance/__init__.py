"""Conformance: cases are put to the functions that stages and commands call."""
