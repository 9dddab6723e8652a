"""Kinds of observed jobs: per kind, the tasks of its specification and a table of its status values."""
