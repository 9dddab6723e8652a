"""Conformance: runs cases by the functions that stages and commands call."""
