"""Bytes and documents read into plain values, and what every object has: names, quantities, owners, what it asks for."""
