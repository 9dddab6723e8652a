"""Parsing of bytes and documents to plain values, and of common fields: names, quantities, owners, requests."""
