"""Exports of billing records: streaming, in constant memory, with the same bytes on every machine."""
