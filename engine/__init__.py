"""The engine: stages, the log, effects, history and the command line (docs/architecture.md draws how they fit)."""

__all__ = ["__version__"]

__version__ = "0.1.0"
