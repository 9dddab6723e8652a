"""The engine: stages, the log, effects, history and the command line (docs/architecture.md draws how they fit)."""
