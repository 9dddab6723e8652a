"""Queries on the past: as-of, diff, why, timeline, summary, verify, export and import."""
