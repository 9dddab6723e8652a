"""Exports of billing records: one pass over an iterator, memory that does not grow with it, the same bytes on every machine."""
