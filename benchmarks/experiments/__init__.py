"""Experiments: what published reports claim of a feature, measured with it and without it on the simulated cluster."""

from experiments.page import page
from experiments.registry import EXPERIMENTS, Experiment
from experiments.rows import Row

__all__ = ["EXPERIMENTS", "Experiment", "Row", "page"]
