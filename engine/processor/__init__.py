"""Runs one shard of a stage on a log: takes inputs, calls the stage, commits its events, recovers."""
