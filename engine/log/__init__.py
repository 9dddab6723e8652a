"""The log and the processor that runs a stage on it."""
