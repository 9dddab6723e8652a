"""Bytes and documents read into plain values, and the fields that every object has: names, quantities, owners, requests."""
