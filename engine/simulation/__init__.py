"""Traces of real clusters as inputs; later the virtual clock and the simulated cluster."""
