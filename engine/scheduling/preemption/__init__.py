"""Searches for victims: pods to evict at once, and jobs to be given notice."""
