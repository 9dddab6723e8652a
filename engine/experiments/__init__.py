"""Experiments: what published reports claim of a feature, measured with it and without it on the simulated cluster."""

from engine.experiments.page import page
from engine.experiments.registry import EXPERIMENTS, Experiment
from engine.experiments.rows import Row

__all__ = ["EXPERIMENTS", "Experiment", "Row", "page"]
